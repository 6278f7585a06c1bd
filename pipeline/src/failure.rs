//! What goes wrong, as one line and an exit code.

use crate::secrets::hide;
use millstream_loader::LoadError;
use millstream_model::ModelError;
use millstream_normalize::NormalizeError;
use millstream_predictor::PredictError;
use millstream_prefetch::{CudaError, DeviceError, NoRoom};
use millstream_stage::PipelineError;
use millstream_trainer::TrainError;
use std::{error::Error, fmt};

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done = 0,
    Other = 1,
    Settings = 2,
    Data = 3,
    Device = 4,
    Interrupted = 5,
}

impl Code {
    /// What kind of thing went wrong, in a word.
    fn name(self) -> &'static str {
        match self {
            Code::Done => "done",
            Code::Other => "other",
            Code::Settings => "settings",
            Code::Data => "data",
            Code::Device => "device",
            Code::Interrupted => "interrupted",
        }
    }
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    pub(crate) fn new(code: Code, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure { code, source: source.into() }
    }

    /// What `--json` shows in place of a result.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let (code, kind) = (self.code as u8, self.code.name());
        serde_json::json!({ "error": self.to_string(), "kind": kind, "exit_code": code })
    }

    /// Whether there was simply no window to forecast.
    pub(crate) fn is_nothing_to_forecast(&self) -> bool {
        let error = self.source.downcast_ref::<NormalizeError>();
        matches!(error, Some(NormalizeError::NothingToForecast { .. }))
    }

    pub(crate) fn settings(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::new(Code::Settings, source)
    }
}

/// One line: the error and what caused it, from the outside in.
impl fmt::Display for Failure {
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
        f.write_str(&short(&hide(&line)))
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

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = load_code(&error);
        Failure::new(code, error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Failure::new(Code::Device, error)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        Failure::new(Code::Device, error)
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        let code = train_code(&error);
        Failure::new(code, error)
    }
}

impl From<PredictError> for Failure {
    fn from(error: PredictError) -> Self {
        let code = predict_code(&error);
        Failure::new(code, error)
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        let source = error.source;
        let code = if let Some(error) = source.downcast_ref::<LoadError>() {
            load_code(error)
        } else if let Some(error) = source.downcast_ref::<NormalizeError>() {
            normalize_code(error)
        } else if let Some(error) = source.downcast_ref::<TrainError>() {
            train_code(error)
        } else if let Some(error) = source.downcast_ref::<PredictError>() {
            predict_code(error)
        } else if source.is::<CudaError>() {
            Code::Device
        } else {
            Code::Other
        };
        Failure { code, source }
    }
}

fn predict_code(error: &PredictError) -> Code {
    match error {
        PredictError::Model(error) => model_code(error),
        PredictError::NotAFile { .. } | PredictError::TwoColumns(_) => Code::Settings,
        PredictError::WrongData { .. } => Code::Data,
        _ => Code::Other,
    }
}

fn load_code(error: &LoadError) -> Code {
    match error {
        LoadError::Interrupted => Code::Interrupted,
        error if error.is_setting() => Code::Settings,
        _ => Code::Data,
    }
}

/// What no data could make right is a setting, however late it is found.
fn normalize_code(error: &NormalizeError) -> Code {
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
        | NormalizeError::Ranks { .. }
        | NormalizeError::TargetName(_)
        | NormalizeError::Threads(_)
        | NormalizeError::TooManyFolds { .. }
        | NormalizeError::WideTime { .. } => Code::Settings,
        NormalizeError::Slots(source) if source.is::<NoRoom>() => Code::Settings,
        NormalizeError::Slots(_) => Code::Device,
        _ => Code::Data,
    }
}

fn model_code(error: &ModelError) -> Code {
    match error {
        ModelError::Setting { .. } | ModelError::OptionOfAnother { .. } => Code::Settings,
        ModelError::NoCuda { .. } | ModelError::Device(_) => Code::Device,
        _ => Code::Other,
    }
}

fn train_code(error: &TrainError) -> Code {
    match error {
        TrainError::Setting { .. }
        | TrainError::Changed { .. }
        | TrainError::HoldsARun { .. }
        | TrainError::InUse { .. }
        | TrainError::NoCheckpoint { .. }
        | TrainError::NoTrainingBatch { .. } => Code::Settings,
        TrainError::Model(error) => model_code(error),
        _ => Code::Other,
    }
}
