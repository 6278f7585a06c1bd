//! [`Error`]: what goes wrong, as one line and an exit code.

use crate::{evaluate_file, secrets::hide_passwords};
use millstream_evaluate::EvaluateError;
use millstream_loader::LoadError;
use millstream_model::ModelError;
use millstream_normalize::NormalizeError;
use millstream_predictor::PredictError;
use millstream_prefetch::{CudaError, DeviceError, NoRoom};
use millstream_stage::PipelineError;
use millstream_trainer::TrainError;
use std::{error::Error as StdError, fmt, io};

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Usage or settings; also a run that is in use, or whose settings were edited.
    Settings,
    /// The rows: where they come from, or what they are.
    Data,
    /// What should compute is not there, or has no room.
    Device,
    /// It was asked to stop.
    Interrupted,
    /// Anything else: a full disk, a damaged file.
    Other,
}

impl ErrorKind {
    /// The exit code of the `millstream` command, as `--help` documents it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Other => 1,
            ErrorKind::Settings => 2,
            ErrorKind::Data => 3,
            ErrorKind::Device => 4,
            ErrorKind::Interrupted => 5,
        }
    }

    /// In a word.
    fn name(self) -> &'static str {
        match self {
            ErrorKind::Other => "other",
            ErrorKind::Settings => "settings",
            ErrorKind::Data => "data",
            ErrorKind::Device => "device",
            ErrorKind::Interrupted => "interrupted",
        }
    }
}

/// What went wrong, in one line that says what, where and what to do. No password is in it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// An error of a kind; what caused it is said behind it.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Error { kind, source: source.into() }
    }

    /// One of usage or settings.
    pub fn settings(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Error::new(ErrorKind::Settings, source)
    }

    /// The same, of this fold of a backtest.
    pub(crate) fn in_fold(self, fold: usize) -> Self {
        Error::new(self.kind, format!("fold {fold}: {self}"))
    }

    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What `--json` shows in place of a result.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let (code, kind) = (self.kind.exit_code(), self.kind.name());
        serde_json::json!({ "error": self.to_string(), "kind": kind, "exit_code": code })
    }

    /// Whether there was simply no window to forecast.
    #[must_use]
    pub fn is_nothing_to_forecast(&self) -> bool {
        let error = self.source.downcast_ref::<NormalizeError>();
        matches!(error, Some(NormalizeError::NothingToForecast { .. }))
    }
}

/// Its line has all that its sources say.
impl StdError for Error {}

/// One line: the error and what caused it, from the outside in.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some libraries repeat their source in their own message.
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            cause = error.source();
        }
        let line = line.lines().collect::<Vec<_>>().join(" ");
        f.write_str(&short(&hide_passwords(&line)))
    }
}

/// A line that a person can read: of one with a megabyte of somebody's text in it, both ends.
fn short(line: &str) -> String {
    const END: usize = 1000;
    let ends = (line.char_indices().nth(END), line.char_indices().rev().nth(END));
    match ends {
        (Some((first, _)), Some((last, _))) if first < last => {
            format!("{} … {}", &line[..first], &line[last..])
        }
        _ => line.to_owned(),
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        let kind = load_kind(&error);
        Error::new(kind, error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Error::new(ErrorKind::Device, error)
    }
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        Error::new(ErrorKind::Device, error)
    }
}

impl From<NormalizeError> for Error {
    fn from(error: NormalizeError) -> Self {
        let kind = normalize_kind(&error);
        Error::new(kind, error)
    }
}

impl From<TrainError> for Error {
    fn from(error: TrainError) -> Self {
        let kind = train_kind(&error);
        Error::new(kind, error)
    }
}

impl From<PredictError> for Error {
    fn from(error: PredictError) -> Self {
        let kind = predict_kind(&error);
        Error::new(kind, error)
    }
}

impl From<EvaluateError> for Error {
    fn from(error: EvaluateError) -> Self {
        let kind = evaluate_file::kind(&error);
        Error::new(kind, error)
    }
}

impl From<PipelineError> for Error {
    fn from(error: PipelineError) -> Self {
        let source = error.source;
        let kind = if let Some(error) = source.downcast_ref::<LoadError>() {
            load_kind(error)
        } else if let Some(error) = source.downcast_ref::<NormalizeError>() {
            normalize_kind(error)
        } else if let Some(error) = source.downcast_ref::<TrainError>() {
            train_kind(error)
        } else if let Some(error) = source.downcast_ref::<PredictError>() {
            predict_kind(error)
        } else if source.is::<CudaError>() {
            ErrorKind::Device
        } else {
            ErrorKind::Other
        };
        Error { kind, source }
    }
}

fn predict_kind(error: &PredictError) -> ErrorKind {
    match error {
        PredictError::Model(error) => model_kind(error),
        PredictError::NotAFile { .. } | PredictError::TwoColumns(_) => ErrorKind::Settings,
        // A folder that is not there was misspelt.
        PredictError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            ErrorKind::Settings
        }
        PredictError::NoIntervals { .. } | PredictError::IntervalLevel { .. } => {
            ErrorKind::Settings
        }
        PredictError::WrongData { .. }
        | PredictError::TooFewToCalibrate { .. }
        | PredictError::Twice { .. } => ErrorKind::Data,
        PredictError::Sink { source } => sink_kind(&**source),
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "postgres")]
fn sink_kind(error: &(dyn StdError + 'static)) -> ErrorKind {
    use millstream_predictor::PostgresTableError;
    match error.downcast_ref::<PostgresTableError>() {
        Some(error) if error.is_interrupted() => ErrorKind::Interrupted,
        Some(error) if error.is_setting() => ErrorKind::Settings,
        _ => ErrorKind::Other,
    }
}

#[cfg(not(feature = "postgres"))]
fn sink_kind(_: &(dyn StdError + 'static)) -> ErrorKind {
    ErrorKind::Other
}

fn load_kind(error: &LoadError) -> ErrorKind {
    match error {
        LoadError::Interrupted => ErrorKind::Interrupted,
        error if error.is_setting() => ErrorKind::Settings,
        _ => ErrorKind::Data,
    }
}

/// What no data could make right is a setting, however late it is found.
fn normalize_kind(error: &NormalizeError) -> ErrorKind {
    match error {
        NormalizeError::Share { .. }
        | NormalizeError::BorderFormat { .. }
        | NormalizeError::Clip { .. }
        | NormalizeError::Conflict { .. }
        | NormalizeError::CurvedReference { .. }
        | NormalizeError::DeadBand { .. }
        | NormalizeError::Embargo { .. }
        | NormalizeError::ForecastColumns(_)
        | NormalizeError::Glob { .. }
        | NormalizeError::NoSuchFold { .. }
        | NormalizeError::NoRoom { .. }
        | NormalizeError::NoTarget
        | NormalizeError::PartNotKept { .. }
        | NormalizeError::Ranks { .. }
        | NormalizeError::TargetName(_)
        | NormalizeError::Threads(_)
        | NormalizeError::TooManyFolds { .. }
        | NormalizeError::WideTime { .. } => ErrorKind::Settings,
        NormalizeError::Slots(source) if source.is::<NoRoom>() => ErrorKind::Settings,
        NormalizeError::Slots(_) => ErrorKind::Device,
        _ => ErrorKind::Data,
    }
}

fn model_kind(error: &ModelError) -> ErrorKind {
    match error {
        ModelError::Setting { .. } | ModelError::OptionOfAnother { .. } => ErrorKind::Settings,
        ModelError::NoCuda { .. } | ModelError::Device(_) => ErrorKind::Device,
        _ => ErrorKind::Other,
    }
}

fn train_kind(error: &TrainError) -> ErrorKind {
    match error {
        TrainError::Setting { .. }
        | TrainError::Changed { .. }
        | TrainError::HoldsARun { .. }
        | TrainError::InUse { .. }
        | TrainError::NoCheckpoint { .. }
        | TrainError::NoTrainingBatch { .. }
        | TrainError::OtherModel { .. }
        | TrainError::TwoColumns(_) => ErrorKind::Settings,
        TrainError::Model(error) => model_kind(error),
        _ => ErrorKind::Other,
    }
}
