//! Ours: the sink at the end of a training line, handed one batch after another.

use crate::{
    agree::{Learned, Run, read_weights},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    workload::Work,
};
use millstream_data::DeviceBatch;
use millstream_stage::{Ending, Flow, Sink as _};
use millstream_trainer::Trainer;

/// Learns the epoch. The clock runs from the second batch to the last but one.
pub(crate) fn run(work: &Work) -> Result<Run, Failure> {
    let folder = tempfile::tempdir()?;
    let mut trainer = Trainer::new(work.settings.clone(), folder.path(), Box::new(|_| {}))?;
    feed(&mut trainer, work.batch(0))?;
    let clock = Clock::start(Whose::Own)?;
    for index in 1..=work.timed_steps {
        feed(&mut trainer, work.batch(index))?;
    }
    let sample = clock.stop()?;
    feed(&mut trainer, work.batch(work.steps() - 1))?;
    let report = trainer.finish(Ending::Drained)?;
    let loss = report.train_loss.ok_or("the trainer has no loss")?;
    let weights = read_weights(folder.path())?;
    Ok(Run { sample, learned: Learned { loss, weights } })
}

pub(crate) fn feed(trainer: &mut Trainer, batch: DeviceBatch) -> Result<(), Failure> {
    match trainer.accept(batch)? {
        Flow::Continue => Ok(()),
        Flow::Stop => Err("the trainer wants no more".into()),
    }
}
