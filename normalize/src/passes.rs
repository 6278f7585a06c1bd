//! [`Passes`]: the batches of each pass of a stream, made when its turn comes, so that a hundred
//! million epochs take no more memory than one. Which pass comes when is the plan's business.

use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    error::NormalizeError,
    limit::Limit,
    purpose::Resume,
    rows::ScaledRows,
    settings::WindowOrder,
    stage::NormalizeSettings,
    windows::WindowIndex,
};
use millstream_data::{BatchCounts, Panel, Phase, Plan, Tag, WindowCounts};
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
    /// Over the index of what is forecast, and that of what intervals are calibrated by.
    Predict(Box<PredictPasses>),
}

/// The passes of a prediction.
pub(crate) struct PredictPasses {
    pub(crate) forecasts: Batches,
    /// Where there is one.
    pub(crate) calibration: Option<Batches>,
}

/// The passes of a training run.
pub(crate) struct TrainPasses {
    seed: u64,
    resume: Option<Resume>,
    limit: Limit,
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
            Passes::Predict(predict) => match (&predict.calibration, tag.phase) {
                (Some(batches), Phase::Validation) => (1, batches.clone()),
                _ => (0, predict.forecasts.clone()),
            },
            Passes::Train(train) => match tag.phase {
                Phase::Train => {
                    let batches = train.training(rows, &indexes[0], tag.epoch);
                    (0, batches.expect("as those of the first epoch"))
                }
                Phase::Validation if train.limit.overfits() => {
                    let batches = train.training(rows, &indexes[0], 1);
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
    pub(crate) limit: Limit,
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
        let Course { seed, resume, limit, .. } = course;
        let validation = validation.at_most(limit.most());
        let test = test.at_most(if limit.overfits() { 0 } else { limit.most() });
        TrainPasses { seed, resume, limit, order, rank, validation, test }
    }

    /// Says in a plan how many batches each pass has, and how many windows where it is limited. Those
    /// of all epochs are as many; windows of whole times, which differ, as in the first epoch.
    ///
    /// # Errors
    /// When the training batches cannot be shared out.
    pub(crate) fn announce(
        &self,
        plan: &mut Plan,
        rows: &ScaledRows,
        train: &WindowIndex,
    ) -> Result<(), NormalizeError> {
        let training = self.training(rows, train, 1)?;
        let validation = if self.limit.overfits() { &training } else { &self.validation };
        plan.batches = BatchCounts {
            train: training.len(),
            validation: validation.len(),
            test: self.test.len(),
            predict: 0,
        };
        if self.limit == Limit::None {
            return Ok(());
        }
        let parts = [&training, validation, &self.test];
        let [train, validation, test] = parts.map(Batches::windows);
        let left = WindowCounts { train, validation, test, ..plan.windows };
        let sum = |windows: &WindowCounts| windows.train + windows.validation + windows.test;
        if self.limit.overfits() {
            plan.warnings.extend(self.limit.overfit_warning());
        } else if parts.iter().any(|batches| batches.len() == self.limit.most()) {
            plan.warnings.extend(self.limit.warning(sum(&left), sum(&plan.windows)));
        }
        plan.windows = left;
        Ok(())
    }

    fn training(
        &self,
        rows: &ScaledRows,
        train: &WindowIndex,
        epoch: u32,
    ) -> Result<Batches, NormalizeError> {
        let epoch = if self.limit.overfits() { 1 } else { epoch };
        let batches = match &self.order {
            Order::Evenly { order, drop_last, batch_size } => {
                let (order, drop_last, seed) = (*order, *drop_last, self.seed);
                let order = TrainingOrder { order, drop_last, seed, epoch };
                Batches::training(rows, train, *batch_size, self.rank, order)?
            }
            Order::ByTime(times) => Batches::by_time(times, self.rank, Some((self.seed, epoch))),
        };
        Ok(batches.at_most(self.limit.most()))
    }
}
