//! [`Purpose`]: what the batches of a stream are for, to learn from or to forecast with.

use crate::{settings::SplitSettings, split::Span};
use millstream_data::{DataSchema, Scaling};

/// What the batches are for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Purpose {
    /// Split, fit, then stream: validation once before the first step, each epoch's training and
    /// validation batches, and the test batches at the end.
    Train(TrainPurpose),
    /// Scale as a model was trained, then stream the windows to forecast. No setting of a window or
    /// of the scaling counts: all of that is the model's.
    Predict(Box<PredictPurpose>),
}

/// What is to be learned from, and how often. Fields may be added: fill up with
/// `..Default::default()`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainPurpose {
    /// How the data is divided.
    pub split: SplitSettings,
    /// Passes over the training windows.
    pub epochs: u32,
    /// Chooses the order of the training windows.
    pub seed: u64,
    /// Where to begin; `None` for the beginning.
    pub resume: Option<Resume>,
}

/// What is to be forecast, and for which model. Made by [`new`](Self::new), changed field by field.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PredictPurpose {
    /// The model's data contract.
    pub schema: DataSchema,
    /// The model's scaling.
    pub scaling: Scaling,
    /// Which times.
    pub times: ForecastTimes,
    /// Only these series, by name; empty for all. A cross-section is over all series of the
    /// panel, whichever are forecast.
    pub series: Vec<String>,
}

/// When the forecasts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForecastTimes {
    /// In the model's test part: its windows, and those after it whose outcome is still to come.
    TestPart,
    /// At these times: those of the windows' last rows.
    MadeIn(Span),
}

/// Where a stream that was interrupted goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The next training batch of that epoch.
    pub batch: u64,
}

impl Default for TrainPurpose {
    /// One epoch.
    fn default() -> Self {
        TrainPurpose { split: SplitSettings::default(), epochs: 1, seed: 0, resume: None }
    }
}

impl Default for Purpose {
    fn default() -> Self {
        Purpose::Train(TrainPurpose::default())
    }
}

impl PredictPurpose {
    /// The test part of the model with this contract and scaling, all of its series.
    #[must_use]
    pub fn new(schema: DataSchema, scaling: Scaling) -> Self {
        PredictPurpose { schema, scaling, times: ForecastTimes::TestPart, series: Vec::new() }
    }
}

impl From<TrainPurpose> for Purpose {
    fn from(train: TrainPurpose) -> Self {
        Purpose::Train(train)
    }
}

impl From<PredictPurpose> for Purpose {
    fn from(predict: PredictPurpose) -> Self {
        Purpose::Predict(Box::new(predict))
    }
}
