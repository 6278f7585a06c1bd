//! Ours: the line, put together as `pipeline/src/training.rs` does, without its progress bars.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    settings::{Settings, TARGET},
};
use millstream_data::DeviceBatch;
use millstream_loader::Loader;
use millstream_normalize::Normalize;
use millstream_prefetch::{Consumer, Ring, choose};
use millstream_stage::{Pipeline, Sink};
use millstream_trainer::{TrainReport, Trainer};
use std::error::Error;

/// Trains; the clock runs from the first read to the last checkpoint.
pub(crate) fn train(settings: &Settings) -> Result<(Sample<()>, TrainReport), Failure> {
    let folder = tempfile::tempdir()?;
    let trainer = Trainer::new(settings.train.clone(), folder.path(), Box::new(|_| {}))?;
    let clock = Clock::start(Whose::Own)?;
    let report = run(settings, trainer)?;
    Ok((clock.stop()?, report))
}

/// Runs the line to its end, whoever takes the batches.
pub(crate) fn run<S>(settings: &Settings, sink: S) -> Result<S::Report, Failure>
where
    S: Sink<In = DeviceBatch>,
{
    let depth = settings.prefetch.depth;
    let libtorch = Consumer::CpuOnly("the floor's batches are in the host's memory");
    let ring = Ring::open(&choose(settings.prefetch.device, libtorch)?, depth)?;
    let slots = ring.slots();
    let make_slots =
        Box::new(move |layout| slots(layout).map_err(Box::<dyn Error + Send + Sync>::from));
    let loader = Loader::new(settings.source.clone(), vec![TARGET.to_owned()]);
    let outcome = Pipeline::from("loader", loader, depth.get())
        .then("normalize", Normalize::new(settings.normalize(), make_slots))
        .then("prefetch", ring)
        .run("trainer", sink)?;
    Ok(outcome.report)
}
