//! The loader itself: a panel, or record batches that nobody keeps.

use crate::{
    content::{Content, Sample},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
};
use millstream_loader::{Columns, Loader, PostgresReader, SourceSettings};
use millstream_stage::{Item, Panel, Source};

/// Loads the panel.
pub(crate) fn panel(settings: SourceSettings, required: Vec<String>) -> Result<Sample, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let panel = Loader::new(settings, required).next()?.ok_or("a loader emits one panel")?;
    let sample = clock.stop()?;
    Ok(Sample { bytes: Some(panel.bytes()), content: content(&panel)?, ..sample })
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

fn content(panel: &Panel) -> Result<Content, Failure> {
    let columns = &panel.schema().columns;
    let position = |name: &str| {
        columns.iter().position(|column| column == name).ok_or_else(|| format!("no {name}"))
    };
    let (target, feature) = (position("close_pct")?, position("f001")?);
    let rows = || panel.shards().iter().flat_map(|shard| shard.values().chunks(columns.len()));
    Ok(Content {
        rows: Some(panel.rows()),
        sum_close_pct: Some(rows().map(|row| f64::from(row[target])).sum()),
        nulls_f001: Some(rows().filter(|row| row[feature].is_nan()).count() as u64),
    })
}
