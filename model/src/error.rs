//! Why a model may fail: the crate's one error type.

use crate::torch_text::reason;
use std::{io, path::PathBuf};
use tch::TchError;

/// Why a model, or a batch as tensors, cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A setting is out of range.
    #[error("{key} is {value}, but must be {expected}")]
    Setting {
        /// The key, with its section.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: String,
    },
    /// An option is of another model than the one that was chosen.
    #[error("train.model_options.{option} is of {owner:?}, not of {model:?}")]
    OptionOfAnother {
        /// The option.
        option: String,
        /// Whose it is.
        owner: &'static str,
        /// The model that was chosen.
        model: &'static str,
    },
    /// No model has this name.
    #[error("there is no model {kind:?} here; forecast with the program that trained it")]
    Unknown {
        /// What `schema.json` calls it.
        kind: String,
    },
    /// A model has no such options.
    #[error("model {kind:?} has no options {options}; restore the checkpoint or train again")]
    Options {
        /// What `schema.json` calls it.
        kind: String,
        /// What it says of it.
        options: String,
    },
    /// libtorch failed.
    #[error("libtorch: {reason}")]
    Torch {
        /// What it says.
        reason: String,
    },
    /// libtorch could not trace the model.
    #[error("cannot trace the model: {reason}")]
    Trace {
        /// What libtorch says.
        reason: String,
    },
    /// The system has no memory for the traced model.
    #[error("cannot make a TorchScript: {source}")]
    ScriptMemory {
        /// What the system says.
        source: io::Error,
    },
    /// A tensor file does not parse.
    #[error("{path} is damaged: {reason}; restore the checkpoint or start a new run")]
    DamagedTensors {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// A tensor file does not hold what the model needs.
    #[error(
        "{path} does not fit the model: tensor {name:?} should be {expected} and is {found}; restore the checkpoint or start a new run"
    )]
    WrongTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The shape and kind the model needs.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// Batches lie on a CUDA device, and this libtorch cannot compute there.
    #[error(
        "batches are on cuda:{index}, but this libtorch cannot compute with CUDA; set prefetch.device to \"cpu\" or \"auto\", or set LIBTORCH to one that can"
    )]
    NoCuda {
        /// The device's number.
        index: usize,
    },
    /// The device failed under a batch.
    #[error("the device failed under a batch")]
    Device(#[from] millstream_data::DeviceFault),
    /// libtorch does not take a batch's memory.
    #[error("libtorch refused the memory of a batch on {place}: {reason}")]
    BatchMemory {
        /// Where the batch lies.
        place: String,
        /// What libtorch says.
        reason: String,
    },
}

impl From<TchError> for ModelError {
    fn from(error: TchError) -> Self {
        ModelError::Torch { reason: reason(&error) }
    }
}
