//! [`Table`]: what a reader hands over, and its last step to a checked panel.
//!
//! Here the fingerprint is taken, so that it covers what the panel holds and not how it was read.

use crate::{
    LoadError,
    filter::RowFilter,
    order,
    progress::ProgressReporter,
    refresh::ReadRows,
    row_warnings::{self, RowWarnings},
    rows::RowStore,
};
use arrow::datatypes::ToByteSlice;
use millstream_data::{ColumnKind, Panel, PanelSchema, Shard, TimeKind};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// All wanted rows of a source, not yet sorted.
#[derive(Debug)]
pub(crate) struct Table {
    /// File or table, as the user would call it.
    pub(crate) place: String,
    pub(crate) series_column: Option<String>,
    pub(crate) time_column: String,
    pub(crate) time_kind: TimeKind,
    pub(crate) columns: Vec<String>,
    pub(crate) kinds: Vec<ColumnKind>,
    pub(crate) inputs: usize,
    /// A store per task that read them.
    pub(crate) rows: Vec<RowStore>,
    pub(crate) filter: Arc<RowFilter>,
    /// Where only some series are wanted, the names that the source is known to have.
    pub(crate) known: Vec<String>,
    /// What to say about the times.
    pub(crate) times: Option<String>,
    /// What to say about columns that a glob did not pick up.
    pub(crate) left_out: Vec<String>,
    /// What a database was just before, for [`ReadSource::freshness`](crate::sources::ReadSource).
    pub(crate) state: Option<serde_json::Value>,
}

/// Values that are looked at together: a quarter of a megabyte.
const HASHED_AT_ONCE: usize = 1 << 16;

/// A panel, and what is to be kept with it.
#[derive(Debug)]
pub(crate) struct LoadedPanel {
    pub(crate) panel: Panel,
    pub(crate) row_warnings: RowWarnings,
    /// What was read of a database, to tell later whether it has changed.
    pub(crate) read: Option<ReadRows>,
}

impl Table {
    /// Sorts the rows, makes shards of them and checks them.
    pub(crate) fn into_panel(
        self,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<LoadedPanel, LoadError> {
        let (series, shards) =
            order::into_shards(self.rows, self.columns.len(), self.filter.is_caseless(), reporter)?;
        let absent = row_warnings::absent_symbols(&self.filter, &self.place, &series, &self.known);
        if shards.is_empty() {
            return Err(match absent {
                Some(symbols) => LoadError::NoSymbol { symbols },
                None => LoadError::NoRows { place: self.place },
            });
        }
        let mut schema = PanelSchema {
            series_column: self.series_column,
            time_column: self.time_column,
            time_kind: self.time_kind,
            columns: self.columns,
            kinds: self.kinds,
            inputs: self.inputs,
            series,
            fingerprint: String::new(),
        };
        let infinite;
        (schema.fingerprint, infinite) = fingerprint(&schema, &shards, reporter)?;
        let beyond = beyond_f32(&schema.columns, &infinite);
        let panel = Panel::new(Arc::new(schema), shards)
            .map_err(|source| LoadError::NotAPanel { place: self.place, source })?;
        let read = self.state.map(|state| ReadRows {
            rows: panel.row_count() as u64,
            newest: newest(&panel),
            kind: panel.schema().time_kind,
            state,
        });
        let lines = self.times.into_iter().chain(beyond).chain(self.left_out).collect();
        Ok(LoadedPanel { panel, row_warnings: RowWarnings::new(absent, lines), read })
    }
}

/// Columns with values that are infinite, or became so: such a value counts as missing.
fn beyond_f32(columns: &[String], infinite: &[&Shard]) -> Vec<String> {
    let mut counts = vec![0_u64; columns.len()];
    for row in infinite.iter().flat_map(|shard| shard.values().chunks_exact(columns.len())) {
        let found = counts.iter_mut().zip(row).filter(|(_, value)| value.is_infinite());
        found.for_each(|(count, _)| *count += 1);
    }
    let found = columns.iter().zip(counts).filter(|(_, count)| *count > 0);
    found
        .map(|(name, count)| {
            let values = if count == 1 { "value is" } else { "values are" };
            format!(
                "column {name:?}: {count} {values} infinite or beyond 3.4e38, the largest 32-bit number, and count as missing"
            )
        })
        .collect()
}

/// The latest time. Iterating over one shard at a time is faster than over all of them flattened.
fn newest(panel: &Panel) -> i64 {
    let latest = panel.shards().iter().filter_map(|shard| shard.times().iter().copied().max());
    latest.max().unwrap_or_default()
}

/// Hashes what the panel holds, wherever its shards are cut, and finds the shards that hold an
/// infinite value. Buffers are hashed as they lie in memory: little-endian, like the cache.
fn fingerprint<'a>(
    schema: &PanelSchema,
    shards: &'a [Shard],
    reporter: &mut ProgressReporter<'_>,
) -> Result<(String, Vec<&'a Shard>), LoadError> {
    let mut hash = Xxh3::new();
    for names in [&schema.columns, &schema.series] {
        hash.update(&(names.len() as u64).to_le_bytes());
        for name in names {
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
    }
    hash.update(&[schema.time_kind as u8]);
    schema.kinds.iter().for_each(|kind| hash.update(&[*kind as u8]));
    shards.iter().for_each(|shard| hash.update(shard.codes().to_byte_slice()));
    shards.iter().for_each(|shard| hash.update(shard.times().to_byte_slice()));
    let mut infinite = Vec::new();
    for shard in shards {
        reporter.check_interrupt()?;
        let mut any = false;
        for values in shard.values().chunks(HASHED_AT_ONCE) {
            hash.update(values.to_byte_slice());
            // While it is in the processor's cache, a second look costs next to nothing.
            any |= values.iter().fold(false, |any, value| any | value.is_infinite());
        }
        infinite.extend(any.then_some(shard));
    }
    Ok((format!("{:032x}", hash.digest128()), infinite))
}
