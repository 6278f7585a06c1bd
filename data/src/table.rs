//! Columns of any Arrow table as a panel keeps them, and [`Panel::from_table`]: a whole table in
//! memory.
//!
//! What names a series, what is a time and which `f32` a number becomes is said here once. The loader
//! asks here for every batch of a file, but gathers the rows itself: it sorts chunks in place, so that
//! a panel is never in memory twice, stops when it is told to and says the file and row of a mistake.
//! Here rows are sorted by copying, which is short and good enough for a table that is in memory.

use crate::{
    decimal,
    name_hints::column_hint,
    panel::{ColumnKind, Panel, PanelError, PanelSchema},
    shard::Shard,
    time::{self, DAY, TimeKind},
};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringArray},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit},
    error::ArrowError,
};
use std::sync::Arc;

/// What the only series is called when a table has no series column.
pub const ONE_SERIES: &str = "series";

/// Why a column does not say what its rows are: no series, or no time. Rows count from 0.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A type that is no such key.
    #[error("it is of type {found}; expected {expected}")]
    Type {
        /// The type.
        found: String,
        /// What it could be.
        expected: &'static str,
    },
    /// A row without a key: it belongs to no series, or to no time.
    #[error("row {row} is empty")]
    Empty {
        /// The row.
        row: usize,
    },
    /// A row that holds no time.
    #[error("row {row} holds {value}; expected {expected}")]
    Time {
        /// The row.
        row: usize,
        /// What is there.
        value: String,
        /// What could be there.
        expected: &'static str,
    },
    /// Dates among plain numbers.
    #[error("it holds both dates and plain numbers; use one of them")]
    MixedTimes,
    /// Arrow cannot convert the column.
    #[error("it cannot be read")]
    Convert(#[source] ArrowError),
}

/// Why a table is no panel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// It has no column of this name.
    #[error("the table has no column {column:?}; {}", column_hint(.column, .columns))]
    UnknownColumn {
        /// The column asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A column does not say what its rows are.
    #[error("column {column:?}")]
    Key {
        /// The column.
        column: String,
        /// Why not.
        source: KeyError,
    },
    /// Arrow cannot make numbers of a column.
    #[error("column {column:?} cannot be read")]
    Convert {
        /// The column.
        column: String,
        /// Why not.
        source: ArrowError,
    },
    /// The rows are none of a panel.
    #[error("not a panel")]
    Panel(#[from] PanelError),
}

/// The names of series: text or integers, in every row, and none of them empty.
///
/// # Errors
/// [`KeyError`], for the first row that names no series.
pub fn series_names(column: &ArrayRef) -> Result<StringArray, KeyError> {
    no_null(column)?;
    if !is_series_key(column.data_type()) {
        let (found, expected) = (column.data_type().to_string(), "text or integers");
        return Err(KeyError::Type { found, expected });
    }
    let names = converted(column, &DataType::Utf8)?.as_string::<i32>().clone();
    match names.iter().position(|name| name.is_none_or(str::is_empty)) {
        Some(row) => Err(KeyError::Empty { row }),
        None => Ok(names),
    }
}

/// Times, one in every row, and what they are. `see` is shown those that are text, with their row.
///
/// # Errors
/// [`KeyError`], for the first row that has no time.
pub fn times(
    column: &ArrayRef,
    see: impl FnMut(&str, usize),
) -> Result<(Vec<i64>, TimeKind), KeyError> {
    no_null(column)?;
    match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => parsed_times(column, see),
        _ => converted_times(column),
    }
}

fn parsed_times(
    column: &ArrayRef,
    mut see: impl FnMut(&str, usize),
) -> Result<(Vec<i64>, TimeKind), KeyError> {
    let texts = converted(column, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let mut times = Vec::with_capacity(texts.len());
    let mut common: Option<TimeKind> = None;
    for (row, text) in texts.iter().enumerate() {
        let text = text.unwrap_or_default();
        if text.trim().is_empty() {
            return Err(KeyError::Empty { row });
        }
        let (time, kind) = time::parse(text).ok_or_else(|| KeyError::Time {
            row,
            value: format!("{text:?}"),
            expected: time::EXPECTED,
        })?;
        common = Some(TimeKind::common(common, kind).ok_or(KeyError::MixedTimes)?);
        see(text, row);
        times.push(time);
    }
    Ok((times, common.unwrap_or(TimeKind::Timestamp)))
}

fn converted_times(column: &ArrayRef) -> Result<(Vec<i64>, TimeKind), KeyError> {
    let (kind, factor, divisor) = match column.data_type() {
        DataType::Date32 => (TimeKind::Date, DAY, 1),
        DataType::Date64 => (TimeKind::Date, 1_000, 1),
        DataType::Timestamp(TimeUnit::Second, _) => (TimeKind::Timestamp, 1_000_000, 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => (TimeKind::Timestamp, 1_000, 1),
        DataType::Timestamp(TimeUnit::Microsecond, _) => (TimeKind::Timestamp, 1, 1),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (TimeKind::Timestamp, 1, 1_000),
        kind if kind.is_integer() => (TimeKind::Integer, 1, 1),
        other => {
            let expected = "a date, a timestamp, an integer or text in ISO form";
            return Err(KeyError::Type { found: other.to_string(), expected });
        }
    };
    let raw = converted(column, &DataType::Int64)?;
    let raw = raw.as_primitive::<Int64Type>();
    let mut times = Vec::with_capacity(raw.len());
    for row in 0..raw.len() {
        let time = raw.is_valid(row).then(|| raw.value(row).checked_mul(factor)).flatten();
        let time = time.map(|time| time.div_euclid(divisor));
        let in_place = |time: &i64| kind != TimeKind::Date || time.rem_euclid(DAY) == 0;
        times.push(time.filter(in_place).ok_or_else(|| KeyError::Time {
            row,
            value: format!("{:?} ({})", raw.value(row), column.data_type()),
            expected: "a whole day for a date, and a time that fits 64 bits of microseconds",
        })?);
    }
    Ok((times, kind))
}

/// Writes the numbers of a column into the cells of a panel, one a row; a cell whose row is null stays
/// as it is.
///
/// # Errors
/// When Arrow cannot make numbers of it.
pub fn fill_numbers<'a>(
    column: &ArrayRef,
    cells: impl Iterator<Item = &'a mut f32>,
) -> Result<(), ArrowError> {
    let cells = cells.enumerate().filter(|(row, _)| column.is_valid(*row));
    match column.data_type() {
        DataType::Null => {}
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            cells.for_each(|(row, cell)| *cell = panel_value(f64::from(values[row])));
        }
        DataType::Decimal128(_, scale) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            for (row, cell) in cells {
                let size = decimal::nearest(values[row].unsigned_abs(), -i32::from(*scale));
                *cell = panel_value(if values[row] < 0 { -size } else { size });
            }
        }
        _ => {
            let values = cast(column, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            cells.for_each(|(row, cell)| *cell = panel_value(values.value(row)));
        }
    }
    Ok(())
}

/// A number as the panel keeps it: rounded to the nearest `f32`, with one NaN for "missing", so
/// that equal tables have equal bits.
#[inline]
#[must_use]
pub fn panel_value(number: f64) -> f32 {
    if number.is_nan() { f32::NAN } else { number as f32 }
}

impl Panel {
    /// Any Arrow table in memory as a panel.
    ///
    /// `series` names the column that tells rows of one series from those of another, `time` the one
    /// that says when a row was. Every other column of numbers or booleans is an input. Rows may come
    /// in any order, a null is a missing value; but a row without a series or a time is an error.
    /// Copies the values once.
    ///
    /// # Errors
    /// When a column is missing, a row has no series or no time, or a series has two rows at one time.
    pub fn from_table(
        batches: &[RecordBatch],
        series: Option<&str>,
        time: &str,
    ) -> Result<Self, TableError> {
        let (mut codes, mut times, mut kind) = (Vec::new(), Vec::new(), None);
        let names = sorted_names(batches, series)?;
        for batch in batches {
            let (more, found) = self::times(find(batch, time)?, |_, _| {}).map_err(key(time))?;
            times.extend(more);
            let common = TimeKind::common(kind, found).ok_or(KeyError::MixedTimes);
            kind = Some(common.map_err(key(time))?);
            match series {
                None => codes.resize(times.len(), 0),
                Some(series) => {
                    let of_batch = series_names(find(batch, series)?).map_err(key(series))?;
                    let code = |name: &str| names.partition_point(|known| known.as_str() < name);
                    codes.extend(of_batch.iter().flatten().map(|name| code(name) as u32));
                }
            }
        }
        let mut order: Vec<usize> = (0..codes.len()).collect();
        order.sort_by_key(|&row| (codes[row], times[row]));
        let columns =
            batches.first().map_or_else(Vec::new, |batch| value_columns(batch, series, time));
        let values = sorted_values(batches, &columns, &order)?;
        let schema = PanelSchema {
            series_column: series.map(str::to_owned),
            time_column: time.to_owned(),
            time_kind: kind.unwrap_or(TimeKind::Timestamp),
            inputs: columns.len(),
            kinds: columns.iter().map(|(_, kind)| *kind).collect(),
            columns: columns.iter().map(|(name, _)| name.clone()).collect(),
            series: names,
            fingerprint: String::new(),
        };
        let shard = Shard::new(
            order.iter().map(|&row| codes[row]).collect(),
            order.iter().map(|&row| times[row]).collect(),
            values,
            columns.len(),
        );
        Ok(Panel::new(Arc::new(schema), vec![shard])?)
    }
}

/// The names of all series in byte order; their positions are the codes.
fn sorted_names(batches: &[RecordBatch], series: Option<&str>) -> Result<Vec<String>, TableError> {
    let Some(series) = series else { return Ok(vec![ONE_SERIES.to_owned()]) };
    let mut names: Vec<String> = Vec::new();
    for batch in batches {
        let of_batch = series_names(find(batch, series)?).map_err(key(series))?;
        names.extend(of_batch.iter().flatten().map(str::to_owned));
        names.sort_unstable();
        names.dedup();
    }
    Ok(names)
}

/// The columns that are values, and what they are.
fn value_columns(
    batch: &RecordBatch,
    series: Option<&str>,
    time: &str,
) -> Vec<(String, ColumnKind)> {
    let schema = batch.schema();
    let values = schema.fields().iter().filter_map(|field| {
        let kind = match field.data_type() {
            DataType::Boolean => ColumnKind::Boolean,
            kind if kind.is_numeric() => ColumnKind::Number,
            _ => return None,
        };
        let is_key = field.name() == time || Some(field.name().as_str()) == series;
        (!is_key).then(|| (field.name().clone(), kind))
    });
    values.collect()
}

/// The values of all batches, row-major, in this order of their rows.
fn sorted_values(
    batches: &[RecordBatch],
    columns: &[(String, ColumnKind)],
    order: &[usize],
) -> Result<Vec<f32>, TableError> {
    let mut values = vec![f32::NAN; order.len() * columns.len()];
    let mut whole = vec![f32::NAN; order.len()];
    for (at, (name, _)) in columns.iter().enumerate() {
        whole.fill(f32::NAN);
        let mut rest = whole.as_mut_slice();
        for batch in batches {
            let cells = rest.split_off_mut(..batch.num_rows()).expect("a cell for every row");
            let filled = fill_numbers(find(batch, name)?, cells.iter_mut());
            filled.map_err(|source| TableError::Convert { column: name.clone(), source })?;
        }
        let cells = values[at..].iter_mut().step_by(columns.len());
        cells.zip(order).for_each(|(cell, &row)| *cell = whole[row]);
    }
    Ok(values)
}

fn find<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, TableError> {
    batch.column_by_name(name).ok_or_else(|| TableError::UnknownColumn {
        column: name.to_owned(),
        columns: batch.schema().fields().iter().map(|field| field.name().clone()).collect(),
    })
}

fn key(column: &str) -> impl Fn(KeyError) -> TableError + '_ {
    |source| TableError::Key { column: column.to_owned(), source }
}

fn no_null(column: &ArrayRef) -> Result<(), KeyError> {
    match (0..column.len()).find(|row| column.is_null(*row)) {
        Some(row) => Err(KeyError::Empty { row }),
        None => Ok(()),
    }
}

fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, KeyError> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    cast(column, to).map_err(KeyError::Convert)
}

/// Whether a type can name series.
fn is_series_key(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_series_key(values),
        other => other.is_integer(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Date32Array, Float64Array, Int32Array};
    use std::error::Error;

    fn table(symbols: [Option<&str>; 3], days: [i32; 3]) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([
            ("flag", Arc::new(BooleanArray::from(vec![true, false, true])) as ArrayRef, true),
            ("symbol", Arc::new(StringArray::from(symbols.to_vec())), true),
            ("price", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(2.5)])), true),
            ("note", Arc::new(StringArray::from(vec!["x", "y", "z"])), true),
            ("day", Arc::new(Date32Array::from(days.to_vec())), true),
        ])
        .unwrap()
    }

    const SYMBOLS: [Option<&str>; 3] = [Some("b"), Some("a"), Some("b")];

    #[test]
    fn rows_are_sorted_and_other_columns_left_out() {
        let panel = Panel::from_table(&[table(SYMBOLS, [9, 3, 4])], Some("symbol"), "day").unwrap();
        let schema = panel.schema();
        assert_eq!(
            (&schema.columns[..], &schema.series[..]),
            (&["flag".into(), "price".into()][..], &["a".into(), "b".into()][..])
        );
        assert_eq!(schema.kinds, [ColumnKind::Boolean, ColumnKind::Number]);
        let shard = &panel.shards()[0];
        assert_eq!(
            (shard.codes(), shard.times()),
            (&[0, 1, 1][..], &[3 * DAY, 4 * DAY, 9 * DAY][..])
        );
        assert_eq!(shard.values()[2..], [1.0, 2.5, 1.0, 1.5]);
        assert!(shard.values()[0] == 0.0 && shard.values()[1].is_nan());
    }

    #[test]
    fn several_batches_of_one_series_make_a_panel_too() {
        let batch = |from: i32| {
            let column = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
            RecordBatch::try_from_iter([
                ("t", column(vec![from, from + 1])),
                ("x", column(vec![from * 10, 7])),
            ])
            .unwrap()
        };
        let panel = Panel::from_table(&[batch(2), batch(0)], None, "t").unwrap();
        assert_eq!(panel.shards()[0].values(), [0.0, 7.0, 20.0, 7.0]);
        assert_eq!(panel.schema().series, [ONE_SERIES]);
    }

    fn check_refused(table: RecordBatch, series: &str, time: &str, expected: &str) {
        let error = Panel::from_table(&[table], Some(series), time).unwrap_err();
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let text = format!("{error}{cause}");
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn what_is_no_panel_is_refused_with_the_place() {
        let check = |series, time, days, expected| {
            check_refused(table(SYMBOLS, days), series, time, expected);
        };
        check("symbl", "day", [1, 2, 3], "did you mean \"symbol\"?");
        check("symbol", "note", [1, 2, 3], "column \"note\": row 0 holds \"x\"; expected YYYY");
        check("symbol", "price", [1, 2, 3], "column \"price\": row 1 is empty");
        check("symbol", "flag", [1, 2, 3], "column \"flag\": it is of type Boolean");
        check("symbol", "day", [1, 2, 1], "series \"b\" has two rows at 1970-01-02");
    }

    #[test]
    fn a_row_without_a_series_is_an_error() {
        for nobody in [None, Some("")] {
            let table = table([Some("b"), nobody, Some("b")], [1, 2, 3]);
            check_refused(table, "symbol", "day", "column \"symbol\": row 1 is empty");
        }
    }
}
