//! What a caller sees of a run: progress while it goes on, the report at its end.

use crate::metrics::{Figures, Metrics};
use millstream_data::{Phase, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Something a watcher of a run may want to show.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Progress {
    /// The first batch came; nothing has been computed.
    Started {
        /// The stream.
        plan: Arc<Plan>,
        /// Steps of the whole run.
        steps_total: u64,
    },
    /// A step has been handed to the device.
    Step {
        /// The epoch, from 1.
        epoch: u32,
        /// Steps so far.
        step: u64,
        /// Steps of the whole run.
        steps_total: u64,
        /// Training windows so far.
        samples: u64,
    },
    /// A pass over validation or test windows begins. Of its batches nothing is told: a line's counters
    /// say how far it has come.
    Evaluating {
        /// Which of the two.
        phase: Phase,
        /// The epoch that is being judged; 0 before the first step.
        epoch: u32,
        /// Windows of the pass.
        windows: u64,
    },
    /// A log line was written.
    Log(LogLine),
    /// An epoch is over and its checkpoint is on the disk. Epoch 0 is the look before training.
    EpochDone {
        /// The epoch.
        epoch: u32,
        /// Mean training loss; `None` for epoch 0.
        train_loss: Option<f64>,
        /// Mean validation loss; `None` when there is no validation part.
        validation_loss: Option<f64>,
    },
    /// Training ends before its last epoch, as the validation loss no longer falls.
    StoppedEarly {
        /// The epoch that was the last.
        epoch: u32,
        /// The one with the lowest validation loss.
        best_epoch: u32,
    },
    /// The test windows begin, with the best weights.
    Testing,
}

/// A line of `metrics.jsonl`, written every `log_every` steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Steps so far.
    pub step: u64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// Mean training loss since the last line; no number where every batch was lost.
    pub loss: f64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Training windows per second since the last line, waiting included.
    pub samples_per_s: f64,
    /// Steps since the last line that changed nothing, as a loss or a gradient was no number or too
    /// large for 16 bits.
    #[serde(default)]
    pub skipped: u64,
}

/// The losses of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochLoss {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Mean training loss.
    pub train_loss: f64,
    /// Mean validation loss; `None` when there is no validation part.
    pub validation_loss: Option<f64>,
}

/// The naive forecasts, judged on the same windows as the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    /// Always the mean of the training rows.
    pub mean: Option<Figures>,
    /// Always the last known value, and the mean where that is missing. Of returns and directions:
    /// always 0, no change.
    pub last: Option<Figures>,
    /// Always what came a season before, or as many as it takes to be known, and as `last` where nobody
    /// knows that. `None` where batches do not say it (`target.season`).
    pub season: Option<Figures>,
    /// What a ridge regression says of the inputs in the window's last row, fitted on the training
    /// windows ([`Plan::ridge`]). `None` where the plan has none.
    pub ridge: Option<Figures>,
}

/// What a run leaves. Figures that were not reached before an interruption are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainReport {
    /// Whether the run folder holds a checkpoint to go on from or to predict with. A run that was
    /// interrupted before its first step saves nothing.
    pub saved: bool,
    /// Steps taken, those before a resume included.
    pub steps: u64,
    /// Mean training loss of the last complete epoch.
    pub train_loss: Option<f64>,
    /// Validation loss before the first step, by the configured loss (mse by default).
    pub first_validation_loss: Option<f64>,
    /// Validation figures before the first step.
    pub first_validation: Option<Metrics>,
    /// Validation figures of the best epoch.
    pub validation: Option<Figures>,
    /// What naive forecasts reach on the validation windows.
    pub validation_baseline: Baseline,
    /// Test figures of the best epoch's weights.
    pub test: Option<Figures>,
    /// What naive forecasts reach on the test windows.
    pub baseline: Baseline,
    /// The epoch whose weights are in `checkpoints/best`.
    pub best_epoch: Option<u32>,
    /// The epoch after which training ended, where the validation loss no longer fell.
    pub stopped_after: Option<u32>,
    /// Steps that changed nothing, as a loss or a gradient was no number or too large for 16 bits.
    pub skipped: u64,
    /// Training windows seen.
    pub samples: u64,
    /// Seconds spent in training steps.
    pub train_seconds: f64,
    /// The losses of each complete epoch.
    pub losses: Vec<EpochLoss>,
    /// How often the host waited for the device, since the start or the resume.
    pub device_reads: u64,
}
