//! Why a model may fail: the crate's one error type.
//!
//! It does not cover failures inside libtorch's kernels (a device out of memory, say): tch raises
//! those as panics, and no caller could carry on after one.

use std::io;

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
    /// libtorch could not trace the model for `model.pt`.
    #[error("cannot trace the model: {reason}")]
    Trace {
        /// What libtorch says.
        reason: String,
    },
    /// libtorch could not write the traced model.
    #[error("cannot write model.pt: {reason}")]
    WriteScript {
        /// What libtorch says.
        reason: String,
    },
    /// The system has no memory for the traced model.
    #[error("cannot write model.pt: {source}")]
    ScriptMemory {
        /// What the system says.
        source: io::Error,
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
