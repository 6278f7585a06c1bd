//! What several test files need: panels to compare, and a real PostgreSQL.

pub(crate) mod authority;
pub(crate) mod server;

use millstream_loader::{LoadError, Loader, SourceSettings};
use millstream_stage::{Panel, Source};

/// Loads the panel, asking for `close_pct` as target.
pub(crate) fn load(settings: &SourceSettings) -> Result<Panel, LoadError> {
    let panel = Loader::new(settings.clone(), vec!["close_pct".to_owned()]).next()?;
    Ok(panel.expect("a loader emits one panel"))
}

/// All rows: series code, time, bits of the values.
pub(crate) fn rows(panel: &Panel) -> Vec<(u32, i64, Vec<u32>)> {
    let width = panel.schema().width();
    let of_shard = |shard: &millstream_stage::Shard| -> Vec<_> {
        let values = shard.values().chunks(width);
        let keys = shard.codes().iter().copied().zip(shard.times().iter().copied());
        keys.zip(values)
            .map(|((code, time), row)| (code, time, row.iter().map(|v| v.to_bits()).collect()))
            .collect()
    };
    panel.shards().iter().flat_map(of_shard).collect()
}

/// An error and its causes, as a user sees them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
