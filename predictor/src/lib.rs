//! Turns a checkpoint and a stream of batches into a file of forecasts.
//!
//! [`Predictor`] is a [`Sink`](millstream_stage::Sink): it runs a checkpoint's model on
//! each [`DeviceBatch`](millstream_data::DeviceBatch), brings the forecasts back to user units
//! and writes them to an [`Output`]. [`read_contract`] tells whoever prepares the batches what the
//! model wants. A checkpoint is a folder with `model.safetensors`, `schema.json`, `scaler.json` and
//! their `checksums.txt`; who made it is not known here.
//!
//! The file appears under its name only when it is complete. Forecasts are not judged here.
//!
//! ```
//! use millstream_predictor::{Output, Predictor};
//!
//! let folder = tempfile::tempdir()?;
//! let output = Output::Csv(folder.path().join("forecasts.csv"));
//! let error = Predictor::new(folder.path(), output, Box::new(|_| {})).unwrap_err();
//! assert!(error.to_string().contains("a checkpoint folder holds model.safetensors"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod checkpoint;
mod contract;
mod error;
mod export;
mod output;
mod predictor;
mod table;

pub use crate::{
    contract::{Contract, read_contract},
    error::PredictError,
    export::export_torchscript,
    output::Output,
    predictor::{PredictProgress, PredictReport, Predictor},
};
