//! The floor: every batch of the line kept in memory, and the trainer that is handed them.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    line,
    settings::Settings,
};
use millstream_data::{BatchSlot, DeviceBatch};
use millstream_stage::{Ending, Flow, Pool, Sink};
use millstream_trainer::{TrainReport, Trainer};
use std::convert::Infallible;

/// The line's batches, in their order.
pub(crate) struct Batches {
    /// A pool for each, so that every slot comes back as it was filled.
    slots: Vec<Pool<BatchSlot>>,
}

impl Batches {
    /// Runs the line once and keeps what comes out.
    pub(crate) fn collect(settings: &Settings) -> Result<Self, Failure> {
        line::run(settings, Keep { slots: Vec::new() })
    }

    /// Trains on them; the clock runs from the first batch to the last checkpoint.
    pub(crate) fn train(&self, settings: &Settings) -> Result<(Sample<()>, TrainReport), Failure> {
        let folder = tempfile::tempdir()?;
        let mut trainer = Trainer::new(settings.train.clone(), folder.path(), Box::new(|_| {}))?;
        let clock = Clock::start(Whose::Own)?;
        for slot in &self.slots {
            if trainer.accept(DeviceBatch::Host(slot.take()))? == Flow::Stop {
                return Err("the trainer wants no more".into());
            }
        }
        let report = trainer.finish(Ending::Drained)?;
        Ok((clock.stop()?, report))
    }
}

/// Copies every batch: the line has a handful of slots, which go around.
struct Keep {
    slots: Vec<Pool<BatchSlot>>,
}

impl Sink for Keep {
    type In = DeviceBatch;
    type Report = Batches;
    type Error = Infallible;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, Infallible> {
        let DeviceBatch::Host(mut slot) = batch else {
            unreachable!("the line was told to stay on the host")
        };
        let mut copy = BatchSlot::on_heap(slot.layout());
        let ((to, to_meta), (from, meta)) = (copy.parts_mut(), slot.parts_mut());
        to.inputs.copy_from_slice(from.inputs);
        to.targets.copy_from_slice(from.targets);
        to.last_known.copy_from_slice(from.last_known);
        to_meta.clone_from(meta);
        self.slots.push(Pool::new([copy]));
        Ok(Flow::Continue)
    }

    fn finish(self, _: Ending) -> Result<Batches, Infallible> {
        Ok(Batches { slots: self.slots })
    }
}
