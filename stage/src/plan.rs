//! What normalize tells everyone downstream about the stream of batches: its schema, its scaling
//! and how many batches each phase has.
//!
//! The plan travels behind an `Arc` in every batch, so a consumer needs no side channel and can
//! set itself up from the first batch. It is also what a checkpoint keeps in `schema.json` and
//! `scaler.json`.

use crate::panel::{PanelSchema, TimeKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which part of the data a batch is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Learned from.
    Train,
    /// Looked at after every epoch.
    Validation,
    /// Looked at once, at the end.
    Test,
    /// Forecast only; targets may lie in the future and be missing.
    Predict,
}

/// Where a batch stands in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Epochs count from 1; epoch 0 is the look at validation before the first step.
    pub epoch: u32,
    /// Which part of the data.
    pub phase: Phase,
    /// Position within its epoch and phase, from 0.
    pub index: u64,
}

/// The data contract of a model: what `schema.json` keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSchema {
    /// The column that named the series; `None` when the table was one series.
    pub series_column: Option<String>,
    /// The column that held the time.
    pub time_column: String,
    /// How to read the times.
    pub time_kind: TimeKind,
    /// Input columns, in order.
    pub features: Vec<String>,
    /// Target columns, in order.
    pub targets: Vec<String>,
    /// Rows a window shows the model.
    pub lookback: usize,
    /// Steps ahead the model forecasts, t+1 … t+horizon.
    pub horizon: usize,
    /// Where the test part begins, in the units of `time_kind`: the first time a test window
    /// forecasts, so that a later prediction starts where training and validation left off.
    pub test_start: i64,
    /// Fingerprint of the data the model was fitted on.
    pub fingerprint: String,
}

/// The affine scaling of one column: `scaled = (raw - offset) / scale`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnScaling {
    /// Column name.
    pub name: String,
    /// Subtracted first.
    pub offset: f64,
    /// Divided by second; never zero.
    pub scale: f64,
    /// The column's mean over the training rows, in raw units.
    pub mean: f64,
}

/// Every column's scaling: what `scaler.json` keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// How it was fitted.
    pub method: String,
    /// One entry per input column, in order.
    pub features: Vec<ColumnScaling>,
    /// One entry per target column, in order.
    pub targets: Vec<ColumnScaling>,
}

/// How many windows there are, and why some are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCounts {
    /// Windows to learn from, per epoch.
    pub train: u64,
    /// Windows of the validation part.
    pub validation: u64,
    /// Windows of the test part.
    pub test: u64,
    /// Series with too few rows for a single window.
    pub short_series: u64,
    /// Windows left out because a target value is missing.
    pub missing_target: u64,
    /// Windows left out because their targets lie on both sides of a border, in its embargo, or
    /// past the end of the test part.
    pub across_border: u64,
}

/// What the stream of batches holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The data contract.
    pub schema: DataSchema,
    /// The fitted scaling.
    pub scaling: Scaling,
    /// The panel the batches are cut from: names of the series, kind of the times.
    pub panel: Arc<PanelSchema>,
    /// Windows per part.
    pub windows: WindowCounts,
    /// Windows in a full batch.
    pub batch_size: usize,
    /// Epochs of training in the stream.
    pub epochs: u32,
    /// Whether an incomplete last batch of an epoch is left out of training.
    pub drop_last: bool,
    /// Windows of the `Predict` phase.
    pub predict: u64,
}

impl Plan {
    /// Batches of one pass over `phase`.
    #[must_use]
    pub fn batches(&self, phase: Phase) -> u64 {
        let size = self.batch_size as u64;
        match phase {
            Phase::Train if self.drop_last => self.windows.train / size,
            Phase::Train => self.windows.train.div_ceil(size),
            Phase::Validation => self.windows.validation.div_ceil(size),
            Phase::Test => self.windows.test.div_ceil(size),
            Phase::Predict => self.predict.div_ceil(size),
        }
    }

    /// Whether the batch with this tag ends its pass.
    #[must_use]
    pub fn is_last(&self, tag: Tag) -> bool {
        tag.index + 1 == self.batches(tag.phase)
    }
}
