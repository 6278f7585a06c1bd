//! [`panel_of`]: any Arrow table in memory as a panel.
//!
//! For programs that have their rows already; reading files and databases, large ones above all, is
//! the loader's business.

use crate::error::NormalizeError;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Float32Type, Int64Type, TimeUnit},
};
use millstream_data::{Panel, PanelSchema, Shard, TimeKind};
use std::sync::Arc;

/// The rows of `batches`, which share a schema, as a panel: `series` and `time` name those columns,
/// every other column of numbers or booleans is an input. Rows may come in any order, a null is a
/// missing value. Copies the values once.
///
/// # Errors
/// When a column is missing, the time is no time, or a series has two rows at one time.
pub fn panel_of(
    batches: &[RecordBatch],
    series: Option<&str>,
    time: &str,
) -> Result<Panel, NormalizeError> {
    let first = batches.first().ok_or(NormalizeError::EmptyPanel)?;
    let table = concat_batches(&first.schema(), batches).map_err(NormalizeError::Table)?;
    let (times, time_kind) = times(&table, time)?;
    let (names, codes) = match series {
        Some(series) => series_codes(&table, series)?,
        None => (vec![String::new()], vec![0; table.num_rows()]),
    };
    let schema = table.schema();
    let is_value = |(name, kind): (&String, &DataType)| {
        name != time
            && series != Some(name.as_str())
            && (kind.is_numeric() || *kind == DataType::Boolean)
    };
    let fields = schema.fields().iter().enumerate();
    let values: Vec<usize> =
        fields.filter(|(_, f)| is_value((f.name(), f.data_type()))).map(|(at, _)| at).collect();
    let mut order: Vec<usize> = (0..table.num_rows()).collect();
    order.sort_by_key(|&row| (codes[row], times[row]));

    let width = values.len();
    let mut rows = vec![f32::NAN; order.len() * width];
    for (to, &at) in values.iter().enumerate() {
        let column = converted(table.column(at), &DataType::Float32)?;
        let column = column.as_primitive::<Float32Type>();
        for (row, &from) in order.iter().enumerate() {
            if column.is_valid(from) {
                rows[row * width + to] = column.value(from);
            }
        }
    }
    let panel_schema = PanelSchema {
        series_column: series.map(str::to_owned),
        time_column: time.to_owned(),
        time_kind,
        columns: values.iter().map(|&at| schema.field(at).name().clone()).collect(),
        kinds: Vec::new(),
        inputs: width,
        series: names,
        fingerprint: String::new(),
    };
    let shard = Shard::new(
        order.iter().map(|&row| codes[row]).collect(),
        order.iter().map(|&row| times[row]).collect(),
        rows,
        width,
    );
    Panel::new(Arc::new(panel_schema), vec![shard]).map_err(NormalizeError::Panel)
}

fn times(table: &RecordBatch, name: &str) -> Result<(Vec<i64>, TimeKind), NormalizeError> {
    let column = column(table, name)?;
    let (kind, stored) = match column.data_type() {
        DataType::Date32 | DataType::Date64 => {
            (TimeKind::Date, DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        DataType::Timestamp(..) => {
            (TimeKind::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        kind if kind.is_integer() => (TimeKind::Integer, DataType::Int64),
        kind => {
            let (column, found) = (name.to_owned(), kind.to_string());
            return Err(NormalizeError::NotATime { column, found });
        }
    };
    let moments = converted(&converted(column, &stored)?, &DataType::Int64)?;
    if let Some(row) = (0..moments.len()).find(|&row| moments.is_null(row)) {
        let (column, found) = (name.to_owned(), format!("null in row {row}"));
        return Err(NormalizeError::NotATime { column, found });
    }
    Ok((moments.as_primitive::<Int64Type>().values().to_vec(), kind))
}

/// Names in order, and for each row its position among them. A null names a series too.
fn series_codes(
    table: &RecordBatch,
    name: &str,
) -> Result<(Vec<String>, Vec<u32>), NormalizeError> {
    let column = converted(column(table, name)?, &DataType::Utf8)?;
    let column = column.as_string::<i32>();
    let of_row = |row: usize| if column.is_null(row) { "" } else { column.value(row) };
    let mut names: Vec<&str> = (0..column.len()).map(of_row).collect();
    names.sort_unstable();
    names.dedup();
    let code = |row| names.partition_point(|name| *name < of_row(row)) as u32;
    let codes = (0..column.len()).map(code).collect();
    Ok((names.into_iter().map(str::to_owned).collect(), codes))
}

fn column<'a>(table: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, NormalizeError> {
    table.column_by_name(name).ok_or_else(|| NormalizeError::UnknownColumn {
        column: name.to_owned(),
        columns: table.schema().fields().iter().map(|field| field.name().clone()).collect(),
    })
}

fn converted(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef, NormalizeError> {
    cast(column, kind).map_err(NormalizeError::Table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Date32Array, Float64Array, Int32Array, StringArray};

    fn table(days: Vec<i32>) -> RecordBatch {
        RecordBatch::try_from_iter([
            ("flag", Arc::new(BooleanArray::from(vec![true, false, true])) as ArrayRef),
            ("symbol", Arc::new(StringArray::from(vec!["b", "a", "b"]))),
            ("price", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(2.5)]))),
            ("note", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
            ("day", Arc::new(Date32Array::from(days))),
        ])
        .unwrap()
    }

    #[test]
    fn rows_are_sorted_and_other_columns_left_out() {
        let panel = panel_of(&[table(vec![9, 3, 4])], Some("symbol"), "day").unwrap();
        assert_eq!(panel.schema().columns, ["flag", "price"]);
        assert_eq!(panel.schema().series, ["a", "b"]);
        let shard = &panel.shards()[0];
        let day = 86_400_000_000;
        assert_eq!(
            (shard.codes(), shard.times()),
            (&[0, 1, 1][..], &[3 * day, 4 * day, 9 * day][..])
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
        let panel = panel_of(&[batch(2), batch(0)], None, "t").unwrap();
        assert_eq!(panel.shards()[0].values(), [0.0, 7.0, 20.0, 7.0]);
    }

    #[test]
    fn what_is_no_panel_is_refused_with_the_place() {
        let check = |series: &str, time: &str, days: Vec<i32>, expected: &str| {
            let error = panel_of(&[table(days)], Some(series), time).unwrap_err();
            let text = match error {
                NormalizeError::Panel(inner) => inner.to_string(),
                other => other.to_string(),
            };
            assert!(text.contains(expected), "{text}");
        };
        check("symbl", "day", vec![1, 2, 3], "did you mean \"symbol\"?");
        check("symbol", "note", vec![1, 2, 3], "\"note\" is no time: Utf8");
        check("symbol", "day", vec![1, 2, 1], "series \"b\" has two rows at 1970-01-02");
    }
}
