//! [`Passes`]: the batches of each pass of a stream, made when its turn comes, so that a hundred
//! million epochs take no more memory than one. Which pass comes when is the plan's business.

use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    error::NormalizeError,
    rows::ScaledRows,
    settings::WindowOrder,
    stage::{NormalizeSettings, Resume},
    windows::WindowIndex,
};
use millstream_data::{BatchCounts, Panel, Phase, Plan, Tag};
use std::sync::Arc;

/// One pass over one part.
pub(crate) struct Pass {
    epoch: u32,
    phase: Phase,
    /// Position in `Prepared::indexes`.
    pub(crate) index: usize,
    pub(crate) batches: Batches,
}

/// All passes of a stream.
pub(crate) enum Passes {
    /// Over the indexes train, validation and test.
    Train(Box<TrainPasses>),
    /// Over the one index.
    Predict(Batches),
}

/// The passes of a training run.
pub(crate) struct TrainPasses {
    seed: u64,
    resume: Option<Resume>,
    order: Order,
    rank: Rank,
    validation: Batches,
    test: Batches,
}

/// How the training windows of an epoch are drawn.
enum Order {
    Evenly { order: WindowOrder, drop_last: bool, batch_size: usize },
    ByTime(Arc<TimeBatches>),
}

impl Passes {
    /// The batch to begin with.
    pub(crate) fn first(&self, plan: &Plan) -> Option<Tag> {
        match self {
            Passes::Train(train) => match train.resume {
                Some(Resume { epoch, batch }) => plan.resumed(epoch, batch),
                None => plan.first(),
            },
            Passes::Predict(_) => plan.first(),
        }
    }

    /// The pass that this batch is of, over these rows.
    pub(crate) fn pass(&self, tag: Tag, rows: &ScaledRows, indexes: &[WindowIndex]) -> Pass {
        let (index, batches) = match self {
            Passes::Predict(batches) => (0, batches.clone()),
            Passes::Train(train) => match tag.phase {
                Phase::Train => {
                    let batches = train.training(rows, &indexes[0], tag.epoch);
                    (0, batches.expect("as those of the first epoch"))
                }
                Phase::Validation => (1, train.validation.clone()),
                Phase::Test => (2, train.test.clone()),
                Phase::Predict => unreachable!("no plan mixes learning and forecasting"),
            },
        };
        Pass { epoch: tag.epoch, phase: tag.phase, index, batches }
    }
}

impl Pass {
    /// Whether a batch is of this pass.
    pub(crate) fn holds(&self, tag: Tag) -> bool {
        (self.epoch, self.phase) == (tag.epoch, tag.phase)
    }
}

/// What a training run is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    pub(crate) epochs: u32,
    pub(crate) seed: u64,
    pub(crate) resume: Option<Resume>,
}

impl TrainPasses {
    /// Batches of as many windows each, but for the last.
    pub(crate) fn evenly(
        indexes: &[WindowIndex; 3],
        settings: &NormalizeSettings,
        course: Course,
    ) -> Result<Self, NormalizeError> {
        let NormalizeSettings { fit, batch_size, rank, .. } = settings;
        let [_, validation, test] = indexes;
        let sorted = |index| Batches::sorted(index, batch_size.get(), *rank);
        let (validation, test) = (sorted(validation)?, sorted(test)?);
        let (order, drop_last) = (fit.window.order, fit.window.drop_last);
        let order = Order::Evenly { order, drop_last, batch_size: batch_size.get() };
        Ok(TrainPasses::new(course, order, *rank, validation, test))
    }

    /// Batches of whole times.
    pub(crate) fn by_time(
        panel: &Panel,
        rows: &ScaledRows,
        indexes: &[WindowIndex; 3],
        settings: &NormalizeSettings,
        course: Course,
    ) -> Result<Self, NormalizeError> {
        let NormalizeSettings { batch_size, rank, .. } = settings;
        let Rank { rank: _, ranks } = *rank;
        if ranks == 0 || rank.rank >= ranks || batch_size.get() % ranks != 0 {
            let (batch_size, rank) = (batch_size.get(), rank.rank);
            return Err(NormalizeError::Ranks { batch_size, rank, ranks });
        }
        let pack = |index| {
            let size = batch_size.get() / ranks;
            TimeBatches::new(rows, index, size, panel.schema()).map(Arc::new)
        };
        let [train, validation, test] = indexes;
        let (train, validation, test) = (pack(train)?, pack(validation)?, pack(test)?);
        let sorted = |times| Batches::by_time(times, *rank, None);
        let (validation, test) = (sorted(&validation), sorted(&test));
        Ok(TrainPasses::new(course, Order::ByTime(train), *rank, validation, test))
    }

    fn new(course: Course, order: Order, rank: Rank, validation: Batches, test: Batches) -> Self {
        let Course { seed, resume, .. } = course;
        TrainPasses { seed, resume, order, rank, validation, test }
    }

    /// How many batches each pass has; those of all epochs are as many.
    ///
    /// # Errors
    /// When the training batches cannot be shared out.
    pub(crate) fn counts(
        &self,
        rows: &ScaledRows,
        train: &WindowIndex,
    ) -> Result<BatchCounts, NormalizeError> {
        Ok(BatchCounts {
            train: self.training(rows, train, 1)?.len(),
            validation: self.validation.len(),
            test: self.test.len(),
            predict: 0,
        })
    }

    fn training(
        &self,
        rows: &ScaledRows,
        train: &WindowIndex,
        epoch: u32,
    ) -> Result<Batches, NormalizeError> {
        match &self.order {
            Order::Evenly { order, drop_last, batch_size } => {
                let (order, drop_last, seed) = (*order, *drop_last, self.seed);
                let order = TrainingOrder { order, drop_last, seed, epoch };
                Batches::training(rows, train, *batch_size, self.rank, order)
            }
            Order::ByTime(times) => {
                Ok(Batches::by_time(times, self.rank, Some((self.seed, epoch))))
            }
        }
    }
}
