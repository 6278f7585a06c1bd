//! Wide record batches, a column per field, to row-major rows.
//!
//! CSV and Parquet both end here. A batch is turned in a block small enough for the cache and its
//! rows then go to the [`RowStore`]; which columns are wanted was decided before.

use crate::{
    LoadError,
    filter::RowFilter,
    rows::{RowStore, SeriesNames},
    text_number::parse_number,
    utc_offsets::{LineOf, UtcOffsets},
};
use arrow::{
    array::{Array, AsArray, RecordBatch, StringArray},
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
};
use millstream_data::{
    TimeKind,
    table::{self, KeyError, ONE_SERIES, panel_value},
};
use std::{collections::HashMap, sync::Arc};

/// Most rows to ask a reader for at a time: with a hundred features, a block stays within the L2
/// cache.
const BATCH_ROWS: usize = 2048;

/// Most cells to ask a reader for at a time. A reader makes room for all of them at once, however
/// few rows there are.
const BATCH_CELLS: usize = 1 << 20;

/// The settings that name series and time.
const KEYS: &str = "source.series or source.time";

/// Rows to ask a reader of so many columns for at a time.
pub(crate) fn batch_rows(columns: usize) -> usize {
    (BATCH_CELLS / columns.max(1)).clamp(1, BATCH_ROWS)
}

/// The columns to take from every batch, by name.
#[derive(Debug, Clone)]
pub(crate) struct RecordBatchColumns {
    pub(crate) series: Option<String>,
    pub(crate) time: String,
    pub(crate) values: Vec<String>,
    /// What may stand in a text column for a missing number, besides the usual.
    pub(crate) na: Vec<String>,
    /// On which line of its file a row begins, where files have lines.
    pub(crate) line_of: Option<LineOf>,
}

/// Collects the rows of wide batches.
#[derive(Debug)]
pub(crate) struct RecordBatchRows {
    columns: RecordBatchColumns,
    filter: RowFilter,
    store: RowStore,
    /// Where only some series are wanted, the names of all.
    known: SeriesNames,
    time_kind: Option<TimeKind>,
    offsets: UtcOffsets,
    place: String,
    /// Rows of this place that were seen, wanted or not.
    seen: u64,
    block: Vec<f32>,
    /// The schema of the last batch, and where the values are in it: all batches of a file have the
    /// same, and there may be a hundred thousand columns.
    layout: Option<(SchemaRef, Vec<usize>)>,
}

impl RecordBatchRows {
    pub(crate) fn new(columns: RecordBatchColumns, filter: RowFilter) -> Self {
        let store = RowStore::new(columns.values.len());
        RecordBatchRows {
            columns,
            filter,
            store,
            known: SeriesNames::default(),
            time_kind: None,
            offsets: UtcOffsets::default(),
            place: String::new(),
            seen: 0,
            block: Vec::new(),
            layout: None,
        }
    }

    /// Says which file the next batches are from.
    pub(crate) fn enter(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.seen = 0;
        self.offsets.enter();
    }

    /// What was seen of times that are text.
    pub(crate) fn offsets(&self) -> &UtcOffsets {
        &self.offsets
    }

    /// How to find the line of a row.
    pub(crate) fn line_of(&self) -> Option<LineOf> {
        self.columns.line_of
    }

    /// Rows kept so far.
    pub(crate) fn rows(&self) -> u64 {
        self.store.rows()
    }

    /// The rows, what their times are (`None` when no row was seen), the filter that chose them and
    /// the names that it chose from.
    pub(crate) fn finish(self) -> (RowStore, Option<TimeKind>, RowFilter, Vec<String>) {
        (self.store, self.time_kind, self.filter, self.known.into_names())
    }

    /// Adds the wanted rows of a batch.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = self.times(batch)?;
        let names = self.names(batch)?;
        self.fill_block(batch)?;
        let width = self.columns.values.len();
        for (row, time) in times.into_iter().enumerate() {
            let name = names.as_ref().map_or(ONE_SERIES, |names| names.value(row));
            if self.filter.chooses_series() {
                self.known.code(name);
            }
            if self.filter.admits_time(time) && self.filter.admits_series(name) {
                let code = self.store.code(name);
                self.store.push(code, time).copy_from_slice(&self.block[row * width..][..width]);
            }
        }
        self.seen += batch.num_rows() as u64;
        Ok(())
    }

    fn names(&self, batch: &RecordBatch) -> Result<Option<StringArray>, LoadError> {
        let Some(name) = &self.columns.series else { return Ok(None) };
        let column = self.column(batch, name, KEYS)?;
        table::series_names(column).map(Some).map_err(|error| self.bad_key("series", name, error))
    }

    fn times(&mut self, batch: &RecordBatch) -> Result<Vec<i64>, LoadError> {
        let name = self.columns.time.clone();
        let column = self.column(batch, &name, KEYS)?;
        let (offsets, seen) = (&mut self.offsets, self.seen);
        let found = table::times(column, |text, row| offsets.see(text, seen + row as u64));
        let (times, kind) = found.map_err(|error| self.bad_key("time", &name, error))?;
        self.meet_kind(kind)?;
        Ok(times)
    }

    fn meet_kind(&mut self, kind: TimeKind) -> Result<(), LoadError> {
        if self.time_kind != Some(kind) {
            let kind = TimeKind::common(self.time_kind, kind)
                .ok_or_else(|| LoadError::mixed_times(&self.place, &self.columns.time))?;
            self.filter.check_kind(kind)?;
            self.time_kind = Some(kind);
        }
        Ok(())
    }

    fn fill_block(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        let width = self.columns.values.len();
        self.find_values(batch)?;
        let (_, positions) = self.layout.as_ref().expect("the values have just been found");
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.resize(batch.num_rows() * width, f32::NAN);
        let values = self.columns.values.iter().zip(positions).enumerate();
        for (at, (name, position)) in values {
            let cells = block[at..].iter_mut().step_by(width);
            self.fill_cells(name, batch.column(*position), cells)?;
        }
        self.block = block;
        Ok(())
    }

    /// Finds out where the values are in a batch, unless it is where they were in the last one.
    fn find_values(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        let schema = batch.schema_ref();
        if self.layout.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, schema)) {
            return Ok(());
        }
        let fields = schema.fields().iter().enumerate();
        let positions: HashMap<&str, usize> =
            fields.map(|(position, field)| (field.name().as_str(), position)).collect();
        let position = |name: &String| {
            let found = positions.get(name.as_str()).copied();
            found.ok_or_else(|| self.unknown(batch, name, "source.features"))
        };
        let found = self.columns.values.iter().map(position).collect::<Result<_, _>>()?;
        self.layout = Some((Arc::clone(schema), found));
        Ok(())
    }

    fn fill_cells<'a>(
        &self,
        name: &str,
        column: &Arc<dyn Array>,
        cells: impl Iterator<Item = &'a mut f32>,
    ) -> Result<(), LoadError> {
        if *column.data_type() != DataType::Utf8 {
            return table::fill_numbers(column, cells).map_err(|source| self.unread(name, source));
        }
        let texts = column.as_string::<i32>();
        for (row, cell) in cells.enumerate().filter(|(row, _)| texts.is_valid(*row)) {
            let text = texts.value(row);
            let number =
                parse_number(text, &self.columns.na).ok_or_else(|| LoadError::BadNumber {
                    place: self.place.clone(),
                    row: self.number(row),
                    column: name.to_owned(),
                    value: text.to_owned(),
                })?;
            *cell = panel_value(number);
        }
        Ok(())
    }

    fn column<'a>(
        &self,
        batch: &'a RecordBatch,
        name: &str,
        key: &'static str,
    ) -> Result<&'a Arc<dyn Array>, LoadError> {
        batch.column_by_name(name).ok_or_else(|| self.unknown(batch, name, key))
    }

    fn unknown(&self, batch: &RecordBatch, name: &str, key: &'static str) -> LoadError {
        let schema = batch.schema_ref();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        LoadError::UnknownColumn {
            place: self.place.clone(),
            column: name.to_owned(),
            key,
            suggestion: None,
            columns: names.join(", "),
        }
    }

    fn unread(&self, name: &str, source: ArrowError) -> LoadError {
        LoadError::Convert { place: self.place.clone(), column: name.to_owned(), source }
    }

    /// What is wrong with a series or a time, and where.
    fn bad_key(&self, key: &'static str, name: &str, error: KeyError) -> LoadError {
        let (place, column) = (self.place.clone(), name.to_owned());
        match error {
            KeyError::Type { found, expected } => {
                LoadError::KeyType { place, column, key, found, expected }
            }
            KeyError::Empty { row } => LoadError::EmptyKey { place, row: self.row(row), column },
            KeyError::Time { row, value, expected } => {
                LoadError::BadTime { place, row: self.row(row), column, value, expected }
            }
            KeyError::MixedTimes => LoadError::mixed_times(&place, name),
            KeyError::Convert(source) => self.unread(name, source),
        }
    }

    fn row(&self, row: usize) -> String {
        format!("row {}", self.number(row))
    }

    fn number(&self, row: usize) -> u64 {
        self.seen + row as u64 + 1
    }
}
