//! What several test files need: panels to compare, and a real PostgreSQL.

#[cfg(feature = "postgres")]
pub(crate) mod authority;
#[cfg(feature = "postgres")]
pub(crate) mod proxy;
#[cfg(feature = "postgres")]
pub(crate) mod server;
#[cfg(feature = "postgres")]
mod tables;

use millstream_data::Panel;
use millstream_loader::{LoadError, Loader, SourceSettings};
use millstream_stage::Source;
#[cfg(feature = "postgres")]
pub(crate) use tables::{connect, make_wide, query, table};

/// Loads the panel, asking for `close_pct` as target.
pub(crate) fn load(settings: &SourceSettings) -> Result<Panel, LoadError> {
    let panel = Loader::new(settings.clone(), vec!["close_pct".to_owned()]).next()?;
    Ok(panel.expect("a loader emits one panel"))
}

/// All rows: series code, time, bits of the values.
pub(crate) fn rows(panel: &Panel) -> Vec<(u32, i64, Vec<u32>)> {
    let width = panel.schema().width();
    let of_shard = |shard: &millstream_data::Shard| -> Vec<_> {
        let values = shard.values().chunks(width);
        let keys = shard.codes().iter().copied().zip(shard.times().iter().copied());
        keys.zip(values)
            .map(|((code, time), row)| (code, time, row.iter().map(|v| v.to_bits()).collect()))
            .collect()
    };
    panel.shards().iter().flat_map(of_shard).collect()
}

#[cfg(any(feature = "parquet", feature = "postgres"))]
/// An error and its causes, as a user sees them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(any(feature = "parquet", feature = "postgres"))]
/// What `work` gives. Fails when it takes so long that it must be stuck, whatever else goes on.
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    use std::{sync::mpsc, thread, time::Duration};
    let (sender, done) = mpsc::channel();
    // Not joined: what is stuck goes with the test's server.
    thread::spawn(move || sender.send(work()));
    match done.recv_timeout(Duration::from_secs(60)) {
        Ok(given) => given,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not done after a minute"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: panicked, see above"),
    }
}
