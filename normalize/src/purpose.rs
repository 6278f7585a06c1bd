//! [`Purpose`]: what the batches of a stream are for, to learn from or to forecast with.

use crate::{settings::SplitSettings, split::Span};
use millstream_data::{DataSchema, Scaling};
use std::num::NonZeroUsize;

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
    /// As if nothing after this time were known: no window ends later, and what came later is no
    /// outcome. `None` for all that the panel holds.
    pub as_of: Option<i64>,
    /// The present, in microseconds since 1970: of the newest windows it is then said how old their
    /// rows are. `None` where nobody asks; plain numbers have no age.
    pub now: Option<i64>,
    /// Whether the windows of the model's validation part come first, as a validation pass: of all series,
    /// to calibrate intervals by.
    pub calibrate: bool,
}

/// Which forecasts are made: of a series those of all its windows that are asked for, whatever the
/// stride of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForecastTimes {
    /// Of the model's test part: its windows, and those after it whose outcome is still to come.
    TestPart,
    /// Of the part by which the model's best epoch was chosen, with the outcomes that are known.
    ValidationPart,
    /// Of the part that it learned from, likewise.
    TrainPart,
    /// At these times: those of the windows' last rows.
    MadeIn(Span),
    /// At the last so many time steps of each series.
    Newest(NonZeroUsize),
    /// Those of whose steps one at least has no outcome yet.
    ToCome,
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
        let (times, series) = (ForecastTimes::TestPart, Vec::new());
        PredictPurpose { schema, scaling, times, series, as_of: None, now: None, calibrate: false }
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
