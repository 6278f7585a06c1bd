//! Why training may fail: the crate's one error type.

use millstream_data::ChecksumError;
use millstream_model::ModelError;
use std::{io, path::PathBuf};
use tch::TchError;

/// Why training failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
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
    /// Two columns of the forecasts would have the same name.
    #[error(transparent)]
    TwoColumns(#[from] millstream_data::SameName),
    /// There is nothing to learn from.
    #[error(
        "no batch to learn from: {windows} training windows for batches of {batch_size}; use more data, a shorter window.lookback or a smaller train.batch_size"
    )]
    NoTrainingBatch {
        /// Windows in the training part.
        windows: u64,
        /// Windows in a full batch.
        batch_size: usize,
    },
    /// The stream ended without a single batch.
    #[error("the stream held no batch; check that the source has rows")]
    EmptyStream,
    /// A batch came that does not follow the one before it.
    #[error(
        "expected {expected} but got {found}; the stream must start at the saved position and keep its order"
    )]
    OutOfOrder {
        /// The batch that should have come.
        expected: String,
        /// The batch that came.
        found: String,
    },
    /// The stream ended before the last epoch.
    #[error("the stream ended before {expected}; its plan announced more batches than came")]
    EndedEarly {
        /// The batch that should have come.
        expected: String,
    },
    /// A loss or a gradient of a step is no number.
    #[error(
        "{what} at step {step} of epoch {epoch}, of {windows}; look for extreme values in the data, lower train.learning_rate, set train.clip_norm, or leave such steps out with train.nonfinite = \"skip\""
    )]
    NotFinite {
        /// What is none: the training loss or a gradient.
        what: String,
        /// The step, which changed nothing.
        step: u64,
        /// The epoch.
        epoch: u32,
        /// Some windows of its batch, or of one of its batches.
        windows: String,
    },
    /// No step of an epoch could be taken.
    #[error(
        "none of the {steps} steps of epoch {epoch} could be taken, as the training loss is no number; look for extreme values in the data or lower train.learning_rate"
    )]
    NothingLearned {
        /// The epoch.
        epoch: u32,
        /// Its steps.
        steps: u64,
    },
    /// The loss is no longer a number.
    #[error(
        "the {part} loss is {loss} after step {step} of epoch {epoch}; lower train.learning_rate, set train.clip_norm, or look for extreme values in the data"
    )]
    Diverged {
        /// Which loss.
        part: &'static str,
        /// Steps done.
        step: u64,
        /// The epoch.
        epoch: u32,
        /// The loss, infinite or not a number.
        loss: f64,
    },
    /// A run cannot go on with other settings or other data than it was started with.
    #[error(
        "cannot resume {path}: {what} was {saved} and is now {given}; put it back or start a new run"
    )]
    Changed {
        /// The checkpoint.
        path: PathBuf,
        /// What changed.
        what: String,
        /// What the checkpoint says.
        saved: String,
        /// What the caller says.
        given: String,
    },
    /// A run is to begin with weights that are not of its model.
    #[error(
        "cannot begin with the weights of {path}: they are of another model, or of one that is shown other columns or windows"
    )]
    OtherModel {
        /// The checkpoint.
        path: PathBuf,
    },
    /// There is no checkpoint where one should be.
    #[error("no checkpoint at {path}; nothing to resume there")]
    NoCheckpoint {
        /// The checkpoint.
        path: PathBuf,
    },
    /// Somebody else is writing into the run folder.
    #[error("{} is in use by {holder}; wait until that ends, or stop it first", .path.display())]
    InUse {
        /// The run folder.
        path: PathBuf,
        /// Who, since when.
        holder: String,
    },
    /// A new run would overwrite another.
    #[error(
        "{} already holds a run; resume it, or choose another folder for a new one", .path.display()
    )]
    HoldsARun {
        /// The run folder.
        path: PathBuf,
    },
    /// A file of a checkpoint is missing or not what was written there.
    #[error("{source}; restore the checkpoint or start a new run")]
    Damaged {
        /// Which file, and what is wrong with it.
        #[from]
        source: ChecksumError,
    },
    /// A JSON file of a checkpoint does not parse.
    #[error("{path} is damaged: {reason}; restore the checkpoint or start a new run")]
    DamagedJson {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// libtorch could not write a file.
    #[error("cannot write {path}: {reason}")]
    WriteTensors {
        /// The file.
        path: PathBuf,
        /// What libtorch says.
        reason: String,
    },
    /// The model failed, or a batch or a file as its tensors cannot be had.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl From<TchError> for TrainError {
    fn from(error: TchError) -> Self {
        TrainError::Model(error.into())
    }
}
