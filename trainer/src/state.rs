//! What `state.json` keeps: where a run stands and what it has found so far.

use crate::{
    event_file::EventMark,
    journal::Mark,
    metrics::{Figures, Metrics},
    report::{Baseline, EpochLoss},
    schedules::Schedule,
    settings::TrainSettings,
};
use millstream_data::{Phase, Plan};
use serde::{Deserialize, Deserializer, Serialize, de};

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
    #[serde(deserialize_with = "as_kept")]
    pub(crate) settings: TrainSettings,
    pub(crate) stream: StreamShape,
    /// What `metrics.jsonl` was by then; checkpoints of older versions do not say.
    #[serde(default)]
    pub(crate) journal: Option<Mark>,
    /// What the event files were by then, likewise.
    #[serde(default)]
    pub(crate) events: Option<EventMark>,
}

fn as_kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrainSettings, D::Error> {
    let said = serde_json::Map::deserialize(deserializer)?;
    let settings = serde_json::from_value::<TrainSettings>(serde_json::Value::Object(said.clone()));
    Ok(settings.map_err(de::Error::custom)?.as_kept(|key| said.contains_key(key)))
}

/// What the stream held that the data's schema does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamShape {
    pub(crate) epochs: u32,
    pub(crate) batch_size: usize,
    pub(crate) by_time: bool,
    pub(crate) windows: PartSizes,
    pub(crate) batches: PartSizes,
}

/// Something counted in each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartSizes {
    pub(crate) train: u64,
    pub(crate) validation: u64,
    pub(crate) test: u64,
}

impl StreamShape {
    pub(crate) fn of(plan: &Plan) -> Self {
        let windows = &plan.windows;
        StreamShape {
            epochs: plan.epochs,
            batch_size: plan.batch_size,
            by_time: plan.by_time,
            windows: PartSizes {
                train: windows.train,
                validation: windows.validation,
                test: windows.test,
            },
            batches: PartSizes {
                train: plan.batches(Phase::Train),
                validation: plan.batches(Phase::Validation),
                test: plan.batches(Phase::Test),
            },
        }
    }
}

/// The schedule has no state but the losses of the history; this is for readers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scheduler {
    pub(crate) kind: Schedule,
    pub(crate) steps_total: u64,
}

/// What a run has found so far, for the report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) first_validation_loss: Option<f64>,
    /// Validation figures before the first step.
    pub(crate) first_validation: Option<Metrics>,
    pub(crate) best_epoch: Option<u32>,
    /// Validation figures of the best epoch.
    pub(crate) validation: Option<Figures>,
    /// What naive forecasts reach on the validation windows.
    pub(crate) validation_baseline: Baseline,
    pub(crate) losses: Vec<EpochLoss>,
    /// Training windows seen.
    pub(crate) samples: u64,
    pub(crate) train_seconds: f64,
    /// Loss of the epoch that is under way.
    pub(crate) this_epoch: LossSum,
    /// Loss since the last log line.
    pub(crate) since_log: LossSum,
    /// Steps that changed nothing.
    #[serde(default)]
    pub(crate) skipped: u64,
    /// The epoch after which training ended early.
    #[serde(default)]
    pub(crate) stopped_after: Option<u32>,
}

/// A loss summed over windows, to be averaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossSum {
    pub(crate) sum: f64,
    pub(crate) samples: u64,
    /// Steps that changed nothing.
    #[serde(default)]
    pub(crate) skipped: u64,
    /// Of these, those whose batch was at fault and not the range of the numbers.
    #[serde(default)]
    pub(crate) lost: u64,
}

impl LossSum {
    /// Adds the mean loss of so many windows.
    pub(crate) fn add(&mut self, mean: f64, samples: u64) {
        self.sum += mean * samples as f64;
        self.samples += samples;
    }

    /// The mean, and a fresh start.
    pub(crate) fn take_mean(&mut self) -> f64 {
        let LossSum { sum, samples, .. } = std::mem::take(self);
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
}
