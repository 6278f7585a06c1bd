//! The model of a run in a format of others.

use crate::{error::Error, report::path_as_text, run_dir};
use millstream_predictor::export_torchscript;
use millstream_stage::Warnings;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What a model can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// For `torch.jit.load`, in Python or C++.
    Torchscript,
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// The run whose model it is.
    #[serde(serialize_with = "path_as_text")]
    pub run: PathBuf,
    /// The file.
    #[serde(serialize_with = "path_as_text")]
    pub output: PathBuf,
    /// Its size.
    pub bytes: usize,
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("--output {} does not end in .pt; name a file for the model, e.g. --output model.pt", .0.display())]
    Ending(PathBuf),
    #[error("--output {} is in a checkpoint of the run; name another file, e.g. --output model.pt", .0.display())]
    InCheckpoint(PathBuf),
    #[error("--output {} is not a file; name one, e.g. --output model.pt", .0.display())]
    NotAFile(PathBuf),
}

/// Writes the best model of a run to `output`, or to `model.pt` in its folder.
///
/// # Errors
/// The run has no model, or what is at `output` is not a model's file to replace.
pub fn export(
    run: &Path,
    format: ExportFormat,
    output: Option<&Path>,
    warnings: &Warnings,
) -> Result<Exported, Error> {
    let output = output.map_or_else(|| run.join("model.pt"), Path::to_owned);
    check_output(&output, run).map_err(Error::settings)?;
    run_dir::check_model(run)?;
    run_dir::warn_of_unfinished(run, "best", warnings);
    let script = match format {
        ExportFormat::Torchscript => export_torchscript(&run_dir::best_checkpoint(run))?,
    };
    run_dir::write_whole(&output, &script)?;
    Ok(Exported { run: run.to_owned(), output, bytes: script.len() })
}

/// Refuses to replace what is no model: with that ending nothing else of ours, nor a table, is.
fn check_output(output: &Path, run: &Path) -> Result<(), ExportError> {
    if output.exists() && !output.is_file() {
        return Err(ExportError::NotAFile(output.to_owned()));
    }
    if output.extension().is_none_or(|ending| ending != "pt") {
        return Err(ExportError::Ending(output.to_owned()));
    }
    // What is not there yet is in no checkpoint.
    let folder = output.parent().and_then(|folder| folder.canonicalize().ok());
    let checkpoints = run.join("checkpoints").canonicalize().ok();
    match (folder, checkpoints) {
        (Some(folder), Some(checkpoints)) if folder.starts_with(&checkpoints) => {
            Err(ExportError::InCheckpoint(output.to_owned()))
        }
        _ => Ok(()),
    }
}
