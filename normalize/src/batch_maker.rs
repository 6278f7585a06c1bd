//! [`BatchMaker`]: any batch of a prepared panel, filled into a slot with all that belongs to it.
//!
//! The stage and [`TrainingData`](crate::TrainingData) both make their batches here, so that what is
//! trained on in a line and what is looked at by hand have the same bits.

use crate::{fill::Filler, passes::Pass, prepare::Prepared};
use millstream_data::{BatchLayout, BatchSlot, Phase, Plan, Tag};
use std::sync::Arc;

/// Makes the batches of a prepared panel, in whatever order they are asked for.
pub(crate) struct BatchMaker {
    prepared: Prepared,
    filler: Filler,
    /// The pass of the last batch; the next one mostly is of it too.
    pass: Option<Pass>,
}

impl BatchMaker {
    pub(crate) fn new(prepared: Prepared) -> Self {
        let Prepared { rows, shape, plan, .. } = &prepared;
        let filler = Filler::new(rows, *shape, plan.schema.padding, plan.batch_size);
        BatchMaker { prepared, filler, pass: None }
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.prepared.plan
    }

    pub(crate) fn layout(&self) -> BatchLayout {
        self.filler.layout()
    }

    /// The batch that a stream begins with.
    pub(crate) fn first(&self) -> Option<Tag> {
        self.prepared.passes.first(&self.prepared.plan)
    }

    /// Fills a slot with the batch that this tag names.
    ///
    /// Runs on the rayon pool it is called in.
    ///
    /// # Panics
    /// When there is no such batch, or the slot has another layout.
    pub(crate) fn make(&mut self, tag: Tag, slot: &mut BatchSlot) {
        let Prepared { rows, plan, indexes, passes, season, .. } = &self.prepared;
        let pass = match self.pass.take() {
            Some(current) if current.holds(tag) => self.pass.insert(current),
            _ => self.pass.insert(passes.pass(tag, rows, indexes)),
        };
        let (index, batches) = (&indexes[pass.index], &pass.batches);
        self.filler.fill(slot, rows, index, batches, tag.index);
        if tag.phase != Phase::Train {
            self.filler.note_outcomes(slot, rows, index, batches, tag.index);
        }
        // Naive forecasts do not change with the epochs.
        let is_first_look = tag.phase == Phase::Validation && tag.epoch == 0;
        if *season > 0 && (is_first_look || tag.phase == Phase::Test) {
            self.filler.note_season(slot, rows, index, batches, tag.index, *season);
        }
        if tag.phase == Phase::Predict {
            self.filler.target_times(slot, rows, index, batches, tag.index);
        }
        slot.meta.tag = Some(tag);
        slot.meta.plan = Some(Arc::clone(plan));
    }
}
