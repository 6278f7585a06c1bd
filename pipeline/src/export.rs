//! `millstream export`: the model of a run in a format of others.

use crate::{
    cli::{ExportArgs, ExportFormat},
    failure::{Code, Failure},
    messages::print_json,
    progress::Display,
    report::path_as_text,
    run_dir,
    runs::{self, RunChoice},
    settings::Settings,
    warnings_on,
};
use millstream_predictor::export_torchscript;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The JSON result of `export`.
#[derive(Debug, Serialize)]
struct Exported<'a> {
    #[serde(serialize_with = "path_as_text")]
    run: PathBuf,
    #[serde(serialize_with = "path_as_text")]
    output: &'a Path,
    bytes: usize,
    warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("--output {} is in a checkpoint of the run; name another file, e.g. --output model.pt", .0.display())]
    InCheckpoint(PathBuf),
    #[error("--output {} is not a file; name one, e.g. --output model.pt", .0.display())]
    NotAFile(PathBuf),
}

/// Writes the best model of a run.
pub(crate) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let display = Display::new(args.quiet);
    let warnings = warnings_on(&display);
    let run = match &args.run {
        Some(run) => run.clone(),
        None => {
            let settings = Settings::load(args.config.as_deref(), &[])?;
            let RunChoice { run, remarks } = runs::newest(&settings.run.dir)?;
            remarks.into_iter().for_each(|remark| warnings.warn(remark));
            run
        }
    };
    let output = args.output.clone().unwrap_or_else(|| run.join("model.pt"));
    check_output(&output, &run).map_err(Failure::settings)?;
    let script = match args.format {
        ExportFormat::Torchscript => export_torchscript(&run_dir::best_checkpoint(&run))?,
    };
    run_dir::write_whole(&output, &script)?;
    if args.json {
        let (bytes, warnings) = (script.len(), warnings.all());
        print_json(&Exported { run, output: &output, bytes, warnings })?;
    } else {
        display.say(&format!(
            "the model of {} as TorchScript: {}",
            run.display(),
            output.display()
        ));
    }
    Ok(Code::Done)
}

fn check_output(output: &Path, run: &Path) -> Result<(), ExportError> {
    if output == Path::new("-") || output.exists() && !output.is_file() {
        return Err(ExportError::NotAFile(output.to_owned()));
    }
    let folder = output.parent().and_then(|folder| folder.canonicalize().ok());
    let checkpoints = run.join("checkpoints").canonicalize().ok();
    match (folder, checkpoints) {
        (Some(folder), Some(checkpoints)) if folder.starts_with(&checkpoints) => {
            Err(ExportError::InCheckpoint(output.to_owned()))
        }
        _ => Ok(()),
    }
}
