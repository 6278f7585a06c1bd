//! A checkpoint with the trainer's model, weights at random.

use crate::harness::Failure;
use millstream_data::{Checksums, Plan};
use millstream_model::{Architecture as _, LstmOptions, ModelDescription, Shape};
use std::{fs, num::NonZeroUsize, path::Path};
use tch::{Device, Tensor};

/// The file of weights.
pub(crate) const WEIGHTS: &str = "model.safetensors";

/// Writes the files that a predictor reads.
pub(crate) fn write(
    folder: &Path,
    plan: &Plan,
    shape: &Shape,
    hidden: NonZeroUsize,
) -> Result<(), Failure> {
    let mut options = LstmOptions::default();
    options.hidden = hidden;
    let model = options.build(shape, 42, Device::Cpu)?;
    let parameters = model.parameters();
    let named: Vec<(&str, &Tensor)> =
        parameters.names.iter().map(String::as_str).zip(&parameters.tensors).collect();
    Tensor::write_safetensors(&named, folder.join(WEIGHTS))?;
    let mut schema = serde_json::to_value(&plan.schema)?;
    schema["model"] = serde_json::to_value(ModelDescription::of(&options))?;
    fs::write(folder.join("schema.json"), schema.to_string())?;
    fs::write(folder.join("scaler.json"), serde_json::to_vec(&plan.scaling)?)?;
    let mut checksums = Checksums::default();
    for name in [WEIGHTS, "schema.json", "scaler.json"] {
        checksums.add(name, &fs::read(folder.join(name))?);
    }
    fs::write(folder.join(Checksums::FILE), checksums.to_text())?;
    Ok(())
}
