//! Ours: the sink at the end of a training line, handed one batch after another.

use crate::{
    agree::{Learned, Run, read_weights},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    linear::Linear,
    workload::Work,
};
use millstream_data::DeviceBatch;
use millstream_stage::{Ending, Flow, Sink as _};
use millstream_trainer::{TrainSettings, Trainer};
use std::path::Path;

/// Learns the epoch. The clock runs from the second batch to the last but one.
pub(crate) fn run(work: &Work) -> Result<Run, Failure> {
    let folder = tempfile::tempdir()?;
    let mut trainer = trainer(work, work.settings.clone(), folder.path())?;
    feed(&mut trainer, work.batch(0))?;
    let clock = Clock::start(Whose::Own)?;
    for index in 1..=work.timed_steps {
        feed(&mut trainer, work.batch(index))?;
    }
    let sample = clock.stop()?;
    feed(&mut trainer, work.batch(work.steps() - 1))?;
    let report = trainer.finish(Ending::Drained)?;
    let loss = report.train_loss.ok_or("the trainer has no loss")?;
    let weights = read_weights(work, folder.path())?;
    Ok(Run { sample, learned: Learned { loss, weights } })
}

/// The trainer, of the network that the work is for.
pub(crate) fn trainer(
    work: &Work,
    settings: TrainSettings,
    folder: &Path,
) -> Result<Trainer, Failure> {
    let trainer = Trainer::new(settings, folder, Box::new(|_| {}))?;
    Ok(match work.kind.model() {
        Some(_) => trainer,
        None => trainer.with_model(Linear),
    })
}

pub(crate) fn feed(trainer: &mut Trainer, batch: DeviceBatch) -> Result<(), Failure> {
    match trainer.accept(batch)? {
        Flow::Continue => Ok(()),
        Flow::Stop => Err("the trainer wants no more".into()),
    }
}
