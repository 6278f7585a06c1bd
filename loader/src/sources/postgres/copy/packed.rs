//! [`PackedRows`]: rows of a COPY stream straight into a panel's chunk.
//!
//! This is the loop that every value from PostgreSQL goes through. Columns of one type that stand
//! side by side are decoded as a run, and `float4`, what most features are, eight at a time.

use super::{
    BadValue, CopyColumns, DecodeRow, RowError, ValueError, array,
    cursor::{Cursor, CursorError},
    fields::{BadTime, Scalar, ValueField},
    key::KeyField,
};
use crate::{LoadError, filter::RowFilter, rows::RowStore, time};
use millstream_data::{TimeKind, table::ONE_SERIES};
use std::sync::Arc;

/// The rows of a stream, or of one task among several.
#[derive(Debug)]
pub(crate) struct PackedRows {
    columns: Arc<CopyColumns>,
    filter: Arc<RowFilter>,
    runs: Vec<Run>,
    store: RowStore,
    time_kind: Option<TimeKind>,
    /// Where a series name that is not text on the wire is written.
    scratch: String,
}

/// Columns of one type, side by side.
#[derive(Debug, Clone, Copy)]
struct Run {
    field: ValueField,
    /// Position of the first among the value columns.
    first: usize,
    columns: usize,
    /// Values a column.
    width: usize,
}

/// Why a row was not filled.
enum Unfilled {
    Cursor(CursorError),
    Bad(BadValue),
}

impl From<CursorError> for Unfilled {
    fn from(error: CursorError) -> Self {
        Unfilled::Cursor(error)
    }
}

impl PackedRows {
    pub(crate) fn new(columns: Arc<CopyColumns>, filter: Arc<RowFilter>, store: RowStore) -> Self {
        let runs = runs(&columns);
        PackedRows { columns, filter, runs, store, time_kind: None, scratch: String::new() }
    }

    /// Where the rows are.
    pub(crate) fn store_mut(&mut self) -> &mut RowStore {
        &mut self.store
    }

    /// The rows and what their times are (`None` without rows).
    pub(crate) fn finish(self) -> (RowStore, Option<TimeKind>) {
        (self.store, self.time_kind)
    }

    /// The code of a series that is the one of the row before.
    fn known(&self, series: Option<&[u8]>) -> Option<u32> {
        match self.columns.series {
            Some((_, KeyField::Text | KeyField::Caseless)) => self.store.same_as_last(series?),
            _ => None,
        }
    }

    /// The code of a series.
    fn code(&mut self, series: Option<&[u8]>, time: Option<&[u8]>) -> Result<u32, LoadError> {
        let columns = &*self.columns;
        let name = match (&columns.series, series) {
            (None, _) => ONE_SERIES,
            (Some((column, field)), Some(bytes)) => match field.decode(bytes, &mut self.scratch) {
                Some("") => return Err(columns.empty_key(column, None, time)),
                Some(name) => name,
                None => {
                    let row = columns.row_id(None, time);
                    return Err(columns.bad_key(column, field.name(), bytes, row));
                }
            },
            (Some((column, _)), None) => return Err(columns.empty_key(column, None, time)),
        };
        Ok(self.store.code(name))
    }

    /// Only a text column can change its mind.
    fn meet_kind(&mut self, found: TimeKind) -> Result<(), LoadError> {
        let kind = self.columns.common_kind(self.time_kind, found)?;
        self.filter.check_kind(kind)?;
        self.time_kind = Some(kind);
        Ok(())
    }
}

impl DecodeRow for PackedRows {
    fn row(&mut self, fields: &mut Cursor<'_>) -> Result<(), RowError> {
        let columns = &*self.columns;
        let series = if columns.series.is_some() { fields.field()? } else { None };
        let time = fields.field()?;

        let (at, kind) = match time.map(|bytes| (bytes, columns.time.1.decode(bytes))) {
            Some((_, Ok(found))) => found,
            Some((bytes, Err(bad))) => return Err(bad_time(columns, bad, bytes, series).into()),
            None => return Err(columns.empty_key(&columns.time.0, series, time).into()),
        };
        if self.filter.admits_time(at) {
            let code = match self.known(series) {
                Some(code) => code,
                None => self.code(series, time)?,
            };
            match self.store.append(code, at, |cells| fill(&self.runs, fields, cells)) {
                Ok(()) => {}
                Err(Unfilled::Cursor(error)) => return Err(error.into()),
                Err(Unfilled::Bad(bad)) => {
                    let row = self.columns.row_id(series, time);
                    return Err(self.columns.bad_value(bad, row).into());
                }
            }
        } else {
            fields.skip(columns.values.len())?;
        }
        if self.time_kind != Some(kind) {
            self.meet_kind(kind)?;
        }
        Ok(())
    }

    fn columns(&self) -> &CopyColumns {
        &self.columns
    }
}

pub(super) fn bad_time(
    columns: &CopyColumns,
    bad: BadTime,
    bytes: &[u8],
    series: Option<&[u8]>,
) -> LoadError {
    let (column, field) = &columns.time;
    let row = columns.row_id(series, None);
    let (value, expected) = match bad {
        BadTime::Form => return columns.bad_key(column, field.name(), bytes, row),
        BadTime::Value(value) => (value, time::EXPECTED),
        BadTime::Infinite(future) => (
            if future { "infinity" } else { "-infinity" }.to_owned(),
            "a finite time; leave such rows out with source.where or source.to, or give them a time",
        ),
        BadTime::Far(year) => (
            format!("a time in the year {year}"),
            "a year from -290307 to 294246, which is what 64 bits of microseconds hold; leave such rows out with source.where, source.from or source.to, or correct them",
        ),
    };
    let (place, column) = (columns.place.clone(), column.clone());
    LoadError::BadCell { place, row, column, value, expected }
}

fn runs(columns: &CopyColumns) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (first, column) in columns.values.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if (run.field, run.width) == (column.field, column.width) => run.columns += 1,
            _ => runs.push(Run { field: column.field, first, columns: 1, width: column.width }),
        }
    }
    runs
}

/// Appends the values of a row.
fn fill(runs: &[Run], fields: &mut Cursor<'_>, cells: &mut Vec<f32>) -> Result<(), Unfilled> {
    for run in runs {
        match run.field {
            ValueField::Scalar(scalar) => scalars(scalar, run, fields, cells)?,
            ValueField::Array(scalar) => {
                for column in run.first..run.first + run.columns {
                    let start = cells.len();
                    cells.resize(start + run.width, f32::NAN);
                    let Some(bytes) = fields.field()? else { continue };
                    array::fill(bytes, scalar, &mut cells[start..])
                        .map_err(|why| Unfilled::Bad(BadValue { column, why }))?;
                }
            }
        }
    }
    Ok(())
}

/// Appends the values of a run of scalars.
fn scalars(
    scalar: Scalar,
    run: &Run,
    fields: &mut Cursor<'_>,
    cells: &mut Vec<f32>,
) -> Result<(), Unfilled> {
    let mut done = 0;
    loop {
        if scalar == Scalar::Float4 {
            done += float4s(fields, run.columns - done, cells);
        }
        if done == run.columns {
            return Ok(());
        }
        // What the quick way leaves is any other type, or a field that it makes nothing of.
        let value = match fields.field()? {
            None => f32::NAN,
            Some(bytes) => scalar.decode(bytes).ok_or(Unfilled::Bad(BadValue {
                column: run.first + done,
                why: ValueError::Form { bytes: bytes.len() },
            }))?,
        };
        cells.push(value);
        done += 1;
    }
}

/// Appends the values of at most so many `float4` fields, until one is neither that nor NULL; says
/// how many.
fn float4s(fields: &mut Cursor<'_>, most: usize, cells: &mut Vec<f32>) -> usize {
    const LANES: usize = 8;
    const PRESENT: [u8; 4] = 4_u32.to_be_bytes();
    let mut rest = fields.rest();
    let mut done = 0;
    while done < most {
        // Eight fields that are all there: no branch among them, so the compiler uses vectors.
        if most - done >= LANES
            && let Some((block, after)) = rest.split_first_chunk::<{ 8 * LANES }>()
        {
            let (fields, _) = block.as_chunks::<8>();
            let length =
                |field: &[u8; 8]| u32::from_ne_bytes([field[0], field[1], field[2], field[3]]);
            let other = u32::from_ne_bytes(PRESENT);
            if fields.iter().fold(0, |odd, field| odd | (length(field) ^ other)) == 0 {
                let mut values = [0.0; LANES];
                for (value, field) in values.iter_mut().zip(fields) {
                    *value = missing_is_one_nan(f32::from_be_bytes([
                        field[4], field[5], field[6], field[7],
                    ]));
                }
                cells.extend_from_slice(&values);
                (rest, done) = (after, done + LANES);
                continue;
            }
        }
        // Something is missing among them, or the row ends: one by one, and then eight again.
        for _ in 0..LANES.min(most - done) {
            match rest {
                [0, 0, 0, 4, a, b, c, d, after @ ..] => {
                    cells.push(missing_is_one_nan(f32::from_be_bytes([*a, *b, *c, *d])));
                    rest = after;
                }
                [0xff, 0xff, 0xff, 0xff, after @ ..] => {
                    cells.push(f32::NAN);
                    rest = after;
                }
                _ => {
                    fields.go_on_at(rest);
                    return done;
                }
            }
            done += 1;
        }
    }
    fields.go_on_at(rest);
    done
}

fn missing_is_one_nan(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}
