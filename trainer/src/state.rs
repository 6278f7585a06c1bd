//! What `state.json` keeps: where a run stands and what it has found so far.

use crate::{
    error::TrainError,
    metrics::Metrics,
    report::EpochLoss,
    settings::{Schedule, TrainSettings},
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Where a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The epoch, from 1; one more than there are when only the test windows are left.
    pub epoch: u32,
    /// The next training batch of that epoch; the number of batches when only its validation is
    /// left.
    pub index: u64,
    /// The seed the order of the windows was drawn from.
    pub seed: u64,
    /// Whether the run came to its end, so that there is nothing to go on with.
    pub finished: bool,
}

/// A run's state between two steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Steps taken.
    pub(crate) step: u64,
    /// See [`Position::epoch`].
    pub(crate) epoch: u32,
    /// See [`Position::index`].
    pub(crate) position: u64,
    pub(crate) seed: u64,
    pub(crate) scheduler: Scheduler,
    /// Lowest validation loss so far.
    pub(crate) best_validation: Option<f64>,
    /// Whether the whole stream has been seen.
    pub(crate) finished: bool,
    pub(crate) history: History,
    pub(crate) settings: TrainSettings,
}

/// The schedule has no state of its own; this is for readers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scheduler {
    pub(crate) kind: Schedule,
    pub(crate) steps_total: u64,
}

/// What a run has found so far, for the report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) first_validation_loss: Option<f64>,
    pub(crate) best_epoch: Option<u32>,
    /// Validation figures of the best epoch.
    pub(crate) validation: Option<Metrics>,
    pub(crate) losses: Vec<EpochLoss>,
    /// Training windows seen.
    pub(crate) samples: u64,
    pub(crate) train_seconds: f64,
    /// Loss of the epoch that is under way.
    pub(crate) this_epoch: LossSum,
    /// Loss since the last log line.
    pub(crate) since_log: LossSum,
}

/// A loss summed over windows, to be averaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossSum {
    pub(crate) sum: f64,
    pub(crate) samples: u64,
}

impl LossSum {
    pub(crate) fn add(&mut self, sum: f64, samples: u64) {
        self.sum += sum;
        self.samples += samples;
    }

    /// The mean, and a fresh start.
    pub(crate) fn take_mean(&mut self) -> f64 {
        let LossSum { sum, samples } = std::mem::take(self);
        sum / samples as f64
    }
}

impl State {
    pub(crate) fn at(&self) -> Position {
        Position {
            epoch: self.epoch,
            index: self.position,
            seed: self.seed,
            finished: self.finished,
        }
    }

    /// Refuses settings under which the run would not be the same run.
    ///
    /// # Errors
    /// [`TrainError::Changed`] with the first setting that differs.
    pub(crate) fn check_settings(
        &self,
        path: &Path,
        given: &TrainSettings,
    ) -> Result<(), TrainError> {
        let saved = &self.settings;
        let check = |what, saved: String, given: String| {
            if saved == given {
                return Ok(());
            }
            Err(TrainError::Changed { path: path.into(), what, saved, given })
        };
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        check("train.model", text(&saved.model), text(&given.model))?;
        check("train.model_options", text(&saved.model_options), text(&given.model_options))?;
        check("train.batch_size", text(&saved.batch_size), text(&given.batch_size))?;
        check("train.accumulate", text(&saved.accumulate), text(&given.accumulate))?;
        check("train.seed", text(&saved.seed), text(&given.seed))
    }
}
