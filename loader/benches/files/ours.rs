//! The loader itself, as a line starts with it.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::{Work, sum},
};
use millstream_data::Shard;
use millstream_loader::{Loader, SourceSettings};
use millstream_stage::Source;

/// From the cache, which has it.
pub(crate) fn cached(work: &Work) -> Result<Sample<()>, Failure> {
    load(work.settings.clone(), work.sum)
}

/// From the file, with the cache off.
pub(crate) fn parquet(work: &Work) -> Result<Sample<()>, Failure> {
    load(SourceSettings { cache: String::new(), ..work.settings.clone() }, work.sum)
}

fn load(settings: SourceSettings, expected: u32) -> Result<Sample<()>, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let panel = Loader::new(settings, Vec::new()).next()?.ok_or("a loader emits one panel")?;
    let total = sum(panel.shards().iter().map(Shard::values));
    let sample = clock.stop()?;
    if total != expected {
        return Err(format!("the values add up to {total:x}, not to {expected:x}").into());
    }
    Ok(sample)
}
