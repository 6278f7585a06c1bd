//! A batch as tensors, and the models that forecast from it.
//!
//! [`BatchTensors`] sees a batch as tensors without copying it, and keeps its slot until the last
//! tensor is gone. A [`Model`] forecasts from them; its [`Parameters`] carry the names that PyTorch
//! would give them. How to learn is not known here, nor is where weights are kept.

mod error;
mod lstm;
mod model;
mod model_size;
mod options;
mod script;
mod tensor;
mod torch_text;

pub use crate::{
    error::ModelError,
    lstm::Lstm,
    model::{Model, Parameters},
    model_size::Surroundings,
    options::{ModelKind, ModelOptions},
    script::to_bytes,
    tensor::{BatchTensors, device, usable},
    torch_text::reason,
};
