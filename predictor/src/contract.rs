//! The contract of a checkpoint: what data its model wants and how that data was scaled.
//!
//! Read from `schema.json` and `scaler.json`, once `checksums.txt` has said that they are what was
//! written; whoever prepares the batches needs it before the model is loaded. What else is in those
//! files is not looked at.

use crate::{
    checkpoint::{self, Files},
    error::PredictError,
};
use millstream_data::{DataSchema, Scaling};
use millstream_model::{ModelDescription, Precision, json_reason};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::path::Path;

/// Files of a checkpoint.
pub(crate) const SCHEMA: &str = "schema.json";
pub(crate) const SCALER: &str = "scaler.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";

/// What data a model wants and how it was scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Contract {
    /// Columns, lookback and horizon.
    pub schema: DataSchema,
    /// The scaling that was fitted on the training rows.
    pub scaling: Scaling,
    /// Which model, and how large.
    pub model: ModelDescription,
    /// What it computes with, as it learned.
    pub precision: Precision,
}

/// `schema.json`.
#[derive(Deserialize)]
struct SchemaFile {
    #[serde(flatten)]
    schema: DataSchema,
    model: ModelDescription,
    /// Files of older versions do not say; they were made with `f32`.
    #[serde(default)]
    precision: Precision,
}

/// Reads a checkpoint's contract. Its run may go on meanwhile.
///
/// # Errors
/// A file is missing or damaged, or the two do not belong together.
pub fn read_contract(checkpoint_dir: &Path) -> Result<Contract, PredictError> {
    let Files { folder, contents: [schema, scaler] } =
        checkpoint::read(checkpoint_dir, [SCHEMA, SCALER])?;
    Contract::parse(&folder, &schema, &scaler)
}

impl Contract {
    /// The contract in the files of this folder.
    ///
    /// # Errors
    /// They do not parse, or do not belong together.
    pub(crate) fn parse(folder: &Path, schema: &[u8], scaler: &[u8]) -> Result<Self, PredictError> {
        let (schema_path, path) = (folder.join(SCHEMA), folder.join(SCALER));
        let SchemaFile { schema, model, precision } = parse(&schema_path, schema)?;
        let scaling: Scaling = parse(&path, scaler)?;
        let found: Vec<String> = scaling.targets.iter().map(|column| column.name.clone()).collect();
        if found != schema.targets {
            return Err(PredictError::MixedCheckpoint { path, expected: schema.targets, found });
        }
        // Checkpoints from before there was a hash have none.
        let (found, expected) = (&scaling.schema_hash, schema.hash());
        if !found.is_empty() && *found != expected {
            let (scaler, found) = (path, found.clone());
            return Err(PredictError::OtherSchema { scaler, schema: schema_path, expected, found });
        }
        Ok(Contract { schema, scaling, model, precision })
    }

    /// Refuses batches that are not what the model was trained on. The fingerprint may differ:
    /// forecasting new data is the point.
    ///
    /// # Errors
    /// [`PredictError::WrongData`] with the first difference.
    pub(crate) fn check(&self, given: &DataSchema) -> Result<(), PredictError> {
        let wanted = &self.schema;
        let check = |what, expected: String, found: String| {
            if expected == found {
                return Ok(());
            }
            Err(PredictError::WrongData { what, expected, found })
        };
        check("features", text(&wanted.features), text(&given.features))?;
        check("targets", text(&wanted.targets), text(&given.targets))?;
        check("lookback", text(&wanted.lookback), text(&given.lookback))?;
        check("horizon", text(&wanted.horizon), text(&given.horizon))?;
        check("targets of kind", text(&wanted.target_kind), text(&given.target_kind))?;
        check("delay", text(&wanted.delay), text(&given.delay))?;
        check("padding", text(&wanted.padding), text(&given.padding))?;
        check("segment column", text(&wanted.segment), text(&given.segment))?;
        check("series column", text(&wanted.series_column), text(&given.series_column))?;
        check("time column", text(&wanted.time_column), text(&given.time_column))?;
        check("times of kind", text(&wanted.time_kind), text(&given.time_kind))
    }
}

/// A value as the files have it, and not as the program.
fn text(value: &impl Serialize) -> String {
    let plain = serde_json::to_value(value).expect("plain values always serialise");
    match plain {
        Value::Null => "none".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            format!("[{}]", items.join(", "))
        }
        plain => plain.to_string(),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, PredictError> {
    serde_json::from_slice(text).map_err(|error| PredictError::DamagedJson {
        path: path.into(),
        reason: json_reason(&error),
    })
}
