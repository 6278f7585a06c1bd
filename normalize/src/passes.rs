//! [`Passes`]: the passes of a stream over its parts, each made when its turn comes, so that a
//! hundred million epochs take no more memory than one.

use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    error::NormalizeError,
    rows::Rows,
    settings::WindowOrder,
    stage::{NormalizeSettings, Resume},
    windows::WindowIndex,
};
use millstream_data::{BatchCounts, Panel, Phase};
use std::sync::Arc;

/// One pass over one part.
pub(crate) struct Pass {
    pub(crate) epoch: u32,
    pub(crate) phase: Phase,
    /// Position in `Prepared::indexes`.
    pub(crate) index: usize,
    pub(crate) batches: Batches,
    /// The batch to begin with.
    pub(crate) first: u64,
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
    epochs: u32,
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
    /// The passes in their order, over these rows.
    pub(crate) fn iter<'a>(
        &'a self,
        rows: &'a Rows,
        indexes: &'a [WindowIndex],
    ) -> Box<dyn Iterator<Item = Pass> + 'a> {
        match self {
            Passes::Train(train) => Box::new(train.iter(rows, &indexes[0])),
            Passes::Predict(batches) => {
                let pass = pass(0, Phase::Predict, 0, batches.clone());
                Box::new(std::iter::once(pass))
            }
        }
    }
}

fn pass(epoch: u32, phase: Phase, index: usize, batches: Batches) -> Pass {
    Pass { epoch, phase, index, batches, first: 0 }
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
        rows: &Rows,
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
        let Course { epochs, seed, resume } = course;
        TrainPasses { epochs, seed, resume, order, rank, validation, test }
    }

    /// How many batches each pass has; those of all epochs are as many.
    ///
    /// # Errors
    /// When the training batches cannot be shared out.
    pub(crate) fn counts(
        &self,
        rows: &Rows,
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
        rows: &Rows,
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

    /// Validation once before the first step, each epoch's training and validation, the test.
    fn iter<'a>(
        &'a self,
        rows: &'a Rows,
        train: &'a WindowIndex,
    ) -> impl Iterator<Item = Pass> + 'a {
        let start = self.resume.unwrap_or(Resume { epoch: 1, batch: 0 });
        let validate = |epoch| pass(epoch, Phase::Validation, 1, self.validation.clone());
        let before = self.resume.is_none().then(|| validate(0));
        let epochs = (start.epoch..=self.epochs).flat_map(move |epoch| {
            let first = if epoch == start.epoch { start.batch } else { 0 };
            let batches = self.training(rows, train, epoch).expect("as those of the first epoch");
            [Pass { first, ..pass(epoch, Phase::Train, 0, batches) }, validate(epoch)]
        });
        let test = pass(self.epochs, Phase::Test, 2, self.test.clone());
        before.into_iter().chain(epochs).chain(std::iter::once(test))
    }
}
