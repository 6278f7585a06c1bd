//! A batch as tensors, and the models that forecast from it.
//!
//! [`BatchTensors`] sees a batch as tensors without copying it, and keeps its slot until the last
//! tensor is gone. A [`Model`] forecasts from its [`Inputs`]; its [`Parameters`] carry the names that
//! PyTorch would give them, and a [`TensorFile`] has them on disk. An [`Architecture`] says how large a
//! model is and builds it; [`ModelKind`] lists those of this crate, [`ModelOptions`] are the options of any
//! of them, and one of your own implements the same two traits. [`to_torchscript`] is for programs that have nothing of ours.
//! A [`Precision`] says which numbers a model computes with. [`fused`] has what a step of learning needs
//! and tch does not have; [`Operators`] counts, for tests, what libtorch runs.
//!
//! [`forecasts`] makes of a model's outputs what its [`Heads`](millstream_data::Heads) stand for; [`evaluate`]
//! does both for a batch, in one shape whatever is in it.
//!
//! How to learn is not known here.
//!
//! ```
//! use millstream_model::{Architecture, Inputs, LstmOptions, Mode, Shape};
//! use tch::{Device, Kind, Tensor};
//!
//! let shape = Shape::LEAST;
//! let model = LstmOptions::default().build(&shape, 42, Device::Cpu)?;
//! let values = Tensor::zeros([1, 1, 1], (Kind::Float, Device::Cpu));
//! let inputs = Inputs { values, lengths: None, mask: None, segments: None };
//! assert_eq!(model.forward(&inputs, Mode::Evaluate)?.size(), [1, 1, 1]);
//! # Ok::<(), millstream_model::ModelError>(())
//! ```

mod activation;
mod channels;
mod dropout;
mod error;
mod evaluate;
pub mod fused;
mod gradient_checkpoint;
mod heads;
mod json_text;
mod model;
mod model_options;
mod model_size;
mod models;
mod operators;
mod parameters;
mod precision;
mod recurrent;
mod recurrent_options;
mod target_column;
mod tensor;
mod tensor_file;
mod torch_text;
mod torchscript;

pub use crate::{
    activation::Activation,
    error::ModelError,
    evaluate::{Evaluated, evaluate},
    heads::{Forecasting, forecasts},
    json_text::json_reason,
    model::{Architecture, Mode, Model, ModelDescription, Shape},
    model_options::ModelOptions,
    models::*,
    operators::{Calls, Operators},
    parameters::Parameters,
    precision::{Autocast, Precision},
    target_column::{OwnInput, TargetColumn},
    tensor::{BatchTensors, Inputs, device, usable},
    tensor_file::TensorFile,
    torch_text::reason,
    torchscript::to_torchscript,
};
