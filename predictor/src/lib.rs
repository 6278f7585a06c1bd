//! Turns a checkpoint and a stream of batches into forecasts, in a file or wherever you want them.
//!
//! [`Predictor`] is a [`Sink`](millstream_stage::Sink): it runs a checkpoint's model on
//! each [`DeviceBatch`](millstream_data::DeviceBatch), brings the forecasts back to user units
//! and writes them to an [`Output`]. [`read_contract`] tells whoever prepares the batches what the
//! model wants. A checkpoint is a folder with `model.safetensors`, `schema.json`, `scaler.json` and
//! their `checksums.txt`; who made it is not known here.
//!
//! A [`Forecaster`] is the same within a program: windows in user units, or batches, in, record batches out,
//! and nothing on disk.
//!
//! A file appears under its name only when it is complete; its ending says in what format. A
//! [`PostgresTable`] has all forecasts or none. A sink of your own implements [`ForecastSink`]. [`combine_folds`] makes one
//! table of the forecasts of many folds. Forecasts are not judged here.
//!
//! ```
//! use millstream_predictor::{Output, Predictor};
//!
//! let folder = tempfile::tempdir()?;
//! let output = Output::file(folder.path().join("forecasts.csv"))?;
//! let error = Predictor::new(folder.path(), output, Box::new(|_| {})).unwrap_err();
//! assert!(error.to_string().contains("a checkpoint folder holds model.safetensors"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod combine;
mod contract;
mod error;
mod export;
mod forecast_table;
mod forecaster;
mod intervals;
mod output;
mod predictor;
mod preview;
mod sinks;
mod windows;

#[cfg(feature = "postgres")]
pub use crate::sinks::postgres::{PostgresTable, PostgresTableError};
pub use crate::{
    combine::{Combined, FOLD_COLUMN, FoldForecasts, combine_folds},
    contract::{Contract, read_contract},
    error::PredictError,
    export::export_torchscript,
    forecaster::Forecaster,
    output::Output,
    predictor::{PredictProgress, PredictReport, Predictor},
    sinks::{ForecastSink, WriteError},
    windows::Windows,
};
