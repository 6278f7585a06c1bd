//! The loader itself: a panel, or record batches that nobody keeps.

use crate::{
    content::{Content, Sample},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
};
use millstream_loader::{Columns, Loader, PostgresReader, SourceSettings};
use millstream_stage::{Item, Source};

/// Loads the panel.
pub(crate) fn panel(settings: SourceSettings, required: Vec<String>) -> Result<Sample, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let panel = Loader::new(settings, required).next()?.ok_or("a loader emits one panel")?;
    let sample = clock.stop()?;
    let columns = &panel.schema().columns;
    let rows = || panel.shards().iter().flat_map(|shard| shard.values().chunks(columns.len()));
    Ok(Sample { bytes: Some(panel.bytes()), content: Content::of(columns, rows)?, ..sample })
}

/// Reads all record batches, dropping each when the next one comes.
pub(crate) fn batches(settings: &SourceSettings, columns: Columns) -> Result<Sample, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let mut rows = 0;
    for batch in PostgresReader::open(settings, columns)? {
        rows += batch?.num_rows() as u64;
    }
    let sample = clock.stop()?;
    let content = Content { rows: Some(rows), ..Content::default() };
    Ok(Sample { content, ..sample })
}
