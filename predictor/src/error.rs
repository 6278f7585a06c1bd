//! Why forecasting may fail: the crate's one error type.

use crate::sinks::{FORMATS, WriteError};
use millstream_data::{BatchLayout, ChecksumError};
use millstream_model::ModelError;
use std::{io, path::PathBuf};

/// Why forecasting failed. No output file is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// A file of the checkpoint cannot be read.
    #[error(
        "cannot read {path}: {source}; a checkpoint folder holds model.safetensors, schema.json, scaler.json and checksums.txt"
    )]
    ReadCheckpoint {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of the checkpoint is not what was written there.
    #[error("{source}; restore the checkpoint or train again")]
    Damaged {
        /// Which file, and what is wrong with it.
        source: ChecksumError,
    },
    /// A JSON file of the checkpoint does not parse.
    #[error("{path} is damaged: {reason}; restore the checkpoint or train again")]
    DamagedJson {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `schema.json` and `scaler.json` do not belong together.
    #[error(
        "{path} scales targets {found:?}, but schema.json beside it has {expected:?}; restore the checkpoint or train again"
    )]
    MixedCheckpoint {
        /// The scaler's file.
        path: PathBuf,
        /// The schema's targets.
        expected: Vec<String>,
        /// The scaler's targets.
        found: Vec<String>,
    },
    /// `scaler.json` was written for another schema.
    #[error(
        "{scaler} was fitted for the schema {found}, but {schema} is the schema {expected}; restore both files from one checkpoint or train again"
    )]
    OtherSchema {
        /// The scaler's file.
        scaler: PathBuf,
        /// The schema's file.
        schema: PathBuf,
        /// The schema's hash.
        expected: String,
        /// The hash that the scaler names.
        found: String,
    },
    /// The batches are not what the model was trained on.
    #[error(
        "the model was trained with {what} {expected}, but the data has {found}; prepare the data with the model's own contract"
    )]
    WrongData {
        /// What differs.
        what: &'static str,
        /// What the model needs.
        expected: String,
        /// What the batches have.
        found: String,
    },
    /// A batch has another layout than the ones before it, for which the model was built.
    #[error(
        "the batches so far had the layout {expected:?}, but this one has {found:?}; load the model once more for others"
    )]
    OtherLayout {
        /// Of the batches so far.
        expected: BatchLayout,
        /// Of this one.
        found: BatchLayout,
    },
    /// Forecasts of windows by themselves are not possible.
    #[error(
        "column {column:?} needs {what}, so a window by itself is not enough; make batches with millstream-normalize and forecast those"
    )]
    NeedsMore {
        /// The column.
        column: String,
        /// What it needs.
        what: &'static str,
    },
    /// Windows have another size than the model's.
    #[error(
        "{windows} windows of {lookback} rows with {features} features are {expected} values, but there are {found}; push whole windows"
    )]
    WindowSize {
        /// How many there are.
        windows: usize,
        /// Rows of each.
        lookback: usize,
        /// Values of each row.
        features: usize,
        /// Values that there should be.
        expected: usize,
        /// Values that there are.
        found: usize,
    },
    /// A value is missing that the model cannot do without.
    #[error(
        "a window of {series:?} misses {column:?}, and this model was trained without windows that do (scale.missing); leave the window out, or begin it with a row that is known"
    )]
    MissingValue {
        /// The column.
        column: String,
        /// The series of the window.
        series: String,
    },
    /// The model cannot be had, or a batch as its tensors.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model failed on a batch.
    #[error("the model failed on batch {index}: {source}")]
    Forward {
        /// The batch's position in the stream.
        index: u64,
        /// Why.
        source: ModelError,
    },
    /// The model's answer has another shape than its schema says.
    #[error(
        "the model answered with shape {found:?} where schema.json says {expected:?}; restore the checkpoint or train again"
    )]
    WrongForecast {
        /// Rows, horizon, targets; heads, where there are several.
        expected: Vec<i64>,
        /// The answer's shape.
        found: Vec<i64>,
    },
    /// Intervals of what has no unit to measure a distance in.
    #[error(
        "this model gives no intervals: its {what} have no units; train with loss = \"mse\", \"mae\", \"huber\" or \"quantile\""
    )]
    NoIntervals {
        /// What its outputs are.
        what: &'static str,
    },
    /// A level that is no share.
    #[error("an interval of {level} is not possible; its level lies between 0 and 1, such as 0.9")]
    IntervalLevel {
        /// The level.
        level: f64,
    },
    /// Too few outcomes to calibrate intervals by.
    #[error(
        "an interval of {level} needs {needed} validation windows with a known outcome, and {target}, step {step} has {found}; ask for a lower level, or validate on more data"
    )]
    TooFewToCalibrate {
        /// The level.
        level: f64,
        /// Whose outcomes are too few.
        target: String,
        /// At which step.
        step: usize,
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Differences are forecast, and nobody says from where they count.
    #[error(
        "batch {index} does not say from which level each of its changes counts (BatchMeta::last_known), so no level can be given back"
    )]
    NoLevel {
        /// The batch's position in the stream.
        index: u64,
    },
    /// Two output columns would have the same name.
    #[error(transparent)]
    TwoColumns(#[from] millstream_data::SameName),
    /// What is at the place of the output is not to be replaced.
    #[error("{} is {what}, which forecasts do not replace; name a file with --output", .path.display())]
    NotAFile {
        /// The place.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The output file cannot be created, written or renamed.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Rows cannot be written in the format of the file.
    #[error("cannot write {path}: {source}")]
    WriteRows {
        /// The file.
        path: PathBuf,
        /// What the writer says.
        source: WriteError,
    },
    /// A file of forecasts cannot be read back.
    #[error("cannot read {path}: {source}")]
    ReadForecasts {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        source: WriteError,
    },
    /// Two folds hold the same forecast.
    #[error(
        "{series:?} at {time} is forecast by fold {} and by fold {}: no time may be in the test part of two folds", .folds[0], .folds[1]
    )]
    Twice {
        /// The series; empty where there is only one.
        series: String,
        /// When the forecast is made.
        time: String,
        /// The folds.
        folds: [usize; 2],
    },
    /// There is no format for files that end so.
    #[error("{} ends in .{ending}; forecasts are written as {}", .path.display(), endings())]
    Ending {
        /// The file.
        path: PathBuf,
        /// How it ends, in small letters.
        ending: String,
    },
    /// A stream of bytes does not take forecasts.
    #[error("cannot write the forecasts: {source}")]
    Stream {
        /// What the system says.
        source: WriteError,
    },
    /// A sink of somebody else failed.
    #[error("the forecasts were not taken: {source}")]
    Sink {
        /// What it says.
        source: WriteError,
    },
}

impl From<ChecksumError> for PredictError {
    fn from(error: ChecksumError) -> Self {
        match error {
            ChecksumError::Read { path, source } => PredictError::ReadCheckpoint { path, source },
            source => PredictError::Damaged { source },
        }
    }
}

/// The usual ending of every format.
fn endings() -> String {
    let endings: Vec<String> =
        FORMATS.iter().map(|format| format!(".{}", format.endings[0])).collect();
    match endings.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}
