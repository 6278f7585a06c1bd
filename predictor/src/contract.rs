//! The contract of a checkpoint: what data its model wants and how that data was scaled.
//!
//! Read from `schema.json` and `scaler.json`, once `checksums.txt` has said that they are what was
//! written; whoever prepares the batches needs it before the model is loaded. What else is in those
//! files is not looked at.

use crate::error::PredictError;
use millstream_stage::{Checksums, DataSchema, Scaling};
use serde::de::DeserializeOwned;
use std::path::Path;

/// What data a model wants and how it was scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Contract {
    /// Columns, lookback and horizon.
    pub schema: DataSchema,
    /// The scaling that was fitted on the training rows.
    pub scaling: Scaling,
}

/// Reads a checkpoint's contract.
///
/// # Errors
/// A file is missing or damaged, or the two do not belong together.
pub fn read_contract(checkpoint_dir: &Path) -> Result<Contract, PredictError> {
    let checksums = Checksums::read(checkpoint_dir)?;
    let schema_path = checkpoint_dir.join("schema.json");
    let schema: DataSchema = parse(&schema_path, &checksums.read_file("schema.json")?)?;
    let path = checkpoint_dir.join("scaler.json");
    let scaling: Scaling = parse(&path, &checksums.read_file("scaler.json")?)?;
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
    Ok(Contract { schema, scaling })
}

impl Contract {
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
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
        check("features", text(&wanted.features), text(&given.features))?;
        check("targets", text(&wanted.targets), text(&given.targets))?;
        check("lookback", text(&wanted.lookback), text(&given.lookback))?;
        check("horizon", text(&wanted.horizon), text(&given.horizon))?;
        check("targets of kind", text(&wanted.target_kind), text(&given.target_kind))?;
        check("padding", text(&wanted.padding), text(&given.padding))?;
        check("segment column", text(&wanted.segment), text(&given.segment))?;
        check("series column", text(&wanted.series_column), text(&given.series_column))?;
        check("time column", text(&wanted.time_column), text(&given.time_column))?;
        check("times of kind", text(&wanted.time_kind), text(&given.time_kind))
    }
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, PredictError> {
    serde_json::from_slice(text)
        .map_err(|source| PredictError::DamagedJson { path: path.into(), source })
}
