//! Trains sequence models on a stream of batches.
//!
//! [`Trainer`] is a [`Sink`](millstream_stage::Sink): it takes
//! [`DeviceBatch`](millstream_data::DeviceBatch)es in the order their plan announces, learns,
//! validates and tests, and leaves a run folder and a [`TrainReport`]. [`TrainSettings`] say how.
//! [`Trainer::resume`] goes on with a run that was interrupted, from [`read_position`].
//!
//! Between two log lines the host never waits for the device: losses and metrics add up there.
//!
//! While a [`Trainer`] is there it holds its run folder's [`RunLock`]: no other process, nor another
//! trainer of this one, writes there.
//!
//! What a run folder holds is described in the crate's README; that folder is all a predictor
//! needs.
//!
//! ```
//! use millstream_data::*;
//! use millstream_stage::{Ending, Flow, Pool, Sink};
//! use millstream_trainer::{TrainSettings, Trainer};
//! use std::sync::Arc;
//!
//! let windows = WindowCounts { train: 8, ..WindowCounts::default() };
//! let plan = Arc::new(Plan::unscaled(&["x"], &["x"], 3, 4).to_learn_from(windows, 1));
//! let layout = BatchLayout {
//!     batch_size: 4, lookback: 3, features: 1, horizon: 1, targets: 1, extras: Extras::NONE,
//! };
//! let slots = Pool::new([BatchSlot::on_heap(layout)]);
//!
//! let folder = tempfile::tempdir()?;
//! let mut trainer =
//!     Trainer::new(TrainSettings::default(), folder.path(), Box::new(|_| {}))?;
//! for index in 0..2 {
//!     let mut slot = slots.take();
//!     let (parts, meta) = slot.parts_mut();
//!     parts.inputs.fill(0.5);
//!     parts.targets.fill(0.5);
//!     meta.series = vec![0; 4];
//!     meta.time = vec![1, 2, 3, 4];
//!     meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index });
//!     meta.plan = Some(Arc::clone(&plan));
//!     assert_eq!(trainer.accept(DeviceBatch::Host(slot))?, Flow::Continue);
//! }
//! let report = trainer.finish(Ending::Drained)?;
//! assert_eq!((report.steps, report.samples), (2, 8));
//! assert!(folder.path().join("checkpoints/best/model.safetensors").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod average;
mod checkpoint;
mod correlation;
mod dropout;
mod error;
mod event_file;
mod event_messages;
mod first_weights;
mod histogram;
mod journal;
mod judge;
mod learner;
mod listed;
mod loss_scale;
mod losses;
mod metrics;
mod nonfinite;
mod optimizers;
mod pass;
mod precision_check;
mod quantile_figures;
mod readback;
mod report;
mod ridge;
mod run;
mod run_lock;
mod run_losses;
mod run_saving;
mod salvage;
#[cfg(test)]
mod sample;
mod schedules;
mod settings;
mod state;
mod trainer;
mod unchanged;
mod unread;

pub use crate::{
    error::TrainError,
    loss_scale::LossScale,
    losses::Loss,
    metrics::{Figures, Metrics, StepMetrics},
    nonfinite::Nonfinite,
    optimizers::OptimizerKind,
    quantile_figures::QuantileMetrics,
    report::{Baseline, EpochLoss, LogLine, Progress, TrainReport},
    run_lock::{RunLock, clear_leftovers},
    schedules::Schedule,
    settings::TrainSettings,
    state::Position,
    trainer::{Trainer, read_position},
};
