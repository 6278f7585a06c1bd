//! Wide record batches, a column per field, to row-major rows.
//!
//! CSV and Parquet both end here, and so may any source that has record batches. A batch is turned in
//! a block small enough for the cache and its rows then go to the [`RowStore`].

use crate::{
    LoadError, SourceSettings,
    columns::{Selection, TableColumn},
    filter::RowFilter,
    request::Request,
    rows::{RowStore, SeriesNames},
    table::Table,
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

/// Rows to ask a reader of so many columns for at a time.
pub(crate) fn batch_rows(columns: usize) -> usize {
    (BATCH_CELLS / columns.max(1)).clamp(1, BATCH_ROWS)
}

/// Collects the rows of wide batches.
#[derive(Debug)]
pub(crate) struct RecordBatchRows<'a> {
    settings: &'a SourceSettings,
    /// The columns of the table, and which of them are wanted.
    table: Vec<TableColumn>,
    chosen: Selection,
    value_names: Vec<String>,
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

impl<'a> RecordBatchRows<'a> {
    /// Chooses among the columns of the table that a person would call `place`.
    pub(crate) fn new(
        request: &Request<'a>,
        table: Vec<TableColumn>,
        place: String,
    ) -> Result<Self, LoadError> {
        let settings = request.settings;
        let chosen = Selection::choose(&table, settings, request.required, &place)?;
        Ok(RecordBatchRows {
            settings,
            value_names: chosen.value_names(&table),
            filter: RowFilter::new(settings)?,
            store: RowStore::new(chosen.values.len()),
            table,
            chosen,
            known: SeriesNames::default(),
            time_kind: None,
            offsets: UtcOffsets::default(),
            place,
            seen: 0,
            block: Vec::new(),
            layout: None,
        })
    }

    /// The columns that every batch must have, by their positions in the table.
    pub(crate) fn needed(&self) -> Vec<usize> {
        self.chosen.needed().collect()
    }

    /// The names of the values.
    #[cfg(feature = "parquet")]
    pub(crate) fn value_names(&self) -> &[String] {
        &self.value_names
    }

    /// Says which file the next batches are from.
    pub(crate) fn enter(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.seen = 0;
        self.offsets.enter();
    }

    /// Rows kept so far.
    pub(crate) fn rows(&self) -> u64 {
        self.store.rows()
    }

    /// The table; `line_of` finds the lines of its rows, where its files have some.
    pub(crate) fn finish(
        self,
        request: &Request<'_>,
        line_of: Option<LineOf>,
    ) -> Result<Table, LoadError> {
        let settings = self.settings;
        let place = match &request.files[..] {
            [] => self.place,
            [file] => file.path().display().to_string(),
            _ => settings.path.clone().unwrap_or_default(),
        };
        let Some(time_kind) = self.time_kind else { return Err(LoadError::NoRows { place }) };
        Ok(Table {
            place,
            series_column: settings.series_column().map(str::to_owned),
            time_column: settings.time.clone(),
            time_kind,
            kinds: self.chosen.value_kinds(&self.table),
            columns: self.value_names,
            inputs: self.chosen.inputs,
            rows: vec![self.store],
            filter: Arc::new(self.filter),
            known: self.known.into_names(),
            times: self.offsets.warning(request, line_of),
            left_out: self.chosen.left_out,
            state: None,
        })
    }

    /// Adds the wanted rows of a batch.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = self.times(batch)?;
        let names = self.names(batch)?;
        self.fill_block(batch)?;
        let width = self.value_names.len();
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
        let Some(name) = self.settings.series_column() else { return Ok(None) };
        let names = table::series_names(needed(batch, name));
        names.map(Some).map_err(|error| self.bad_key("series", name, error))
    }

    fn times(&mut self, batch: &RecordBatch) -> Result<Vec<i64>, LoadError> {
        let name = &self.settings.time;
        let (offsets, seen) = (&mut self.offsets, self.seen);
        let see = |text: &str, row: usize| offsets.see(text, seen + row as u64);
        let found = table::times(needed(batch, name), see);
        let (times, kind) = found.map_err(|error| self.bad_key("time", name, error))?;
        self.meet_kind(kind)?;
        Ok(times)
    }

    fn meet_kind(&mut self, kind: TimeKind) -> Result<(), LoadError> {
        if self.time_kind != Some(kind) {
            let kind = TimeKind::common(self.time_kind, kind)
                .ok_or_else(|| LoadError::mixed_times(&self.place, &self.settings.time))?;
            self.filter.check_kind(kind)?;
            self.time_kind = Some(kind);
        }
        Ok(())
    }

    fn fill_block(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        let width = self.value_names.len();
        self.find_values(batch);
        let (_, positions) = self.layout.as_ref().expect("the values have just been found");
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.resize(batch.num_rows() * width, f32::NAN);
        let values = self.value_names.iter().zip(positions).enumerate();
        for (at, (name, position)) in values {
            let cells = block[at..].iter_mut().step_by(width);
            self.fill_cells(name, batch.column(*position), cells)?;
        }
        self.block = block;
        Ok(())
    }

    /// Finds out where the values are in a batch, unless it is where they were in the last one.
    fn find_values(&mut self, batch: &RecordBatch) {
        let schema = batch.schema_ref();
        if self.layout.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, schema)) {
            return;
        }
        let fields = schema.fields().iter().enumerate();
        let positions: HashMap<&str, usize> =
            fields.map(|(position, field)| (field.name().as_str(), position)).collect();
        let found = self.value_names.iter().map(|name| positions[name.as_str()]).collect();
        self.layout = Some((Arc::clone(schema), found));
    }

    fn fill_cells<'b>(
        &self,
        name: &str,
        column: &Arc<dyn Array>,
        cells: impl Iterator<Item = &'b mut f32>,
    ) -> Result<(), LoadError> {
        if *column.data_type() != DataType::Utf8 {
            return table::fill_numbers(column, cells).map_err(|source| self.unread(name, source));
        }
        let texts = column.as_string::<i32>();
        for (row, cell) in cells.enumerate().filter(|(row, _)| texts.is_valid(*row)) {
            let text = texts.value(row);
            let number = parse_number(text, &self.settings.na)
                .ok_or_else(|| self.bad_cell(name, row, format!("{text:?}"), "a number"))?;
            *cell = panel_value(number);
        }
        Ok(())
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
            KeyError::Time { row, value, expected } => self.bad_cell(name, row, value, expected),
            KeyError::MixedTimes => LoadError::mixed_times(&place, name),
            KeyError::Convert(source) => self.unread(name, source),
        }
    }

    fn bad_cell(&self, name: &str, row: usize, value: String, expected: &'static str) -> LoadError {
        let (place, row, column) = (self.place.clone(), self.row(row), name.to_owned());
        LoadError::BadCell { place, row, column, value, expected }
    }

    fn row(&self, row: usize) -> String {
        format!("row {}", self.seen + row as u64 + 1)
    }
}

/// A column of a batch that was asked for with it.
fn needed<'a>(batch: &'a RecordBatch, name: &str) -> &'a Arc<dyn Array> {
    batch.column_by_name(name).expect("a batch has the columns that are needed")
}
