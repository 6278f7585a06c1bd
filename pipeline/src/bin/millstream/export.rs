//! `millstream export`: the model of a run in a format of others.

use crate::{
    cli::{ExportArgs, Format},
    display::Display,
    messages::print_json,
    predict::newest_run,
};
use millstream::{Error, ExportFormat, Exported, Overrides, Warnings};
use serde::Serialize;

/// The JSON result of `export`.
#[derive(Debug, Serialize)]
struct ExportResult<'a> {
    #[serde(flatten)]
    exported: &'a Exported,
    warnings: Vec<String>,
}

/// Writes the best model of a run.
pub(crate) fn export(args: &ExportArgs) -> Result<(), Error> {
    let display = Display::new(args.quiet);
    let warnings = {
        let display = display.clone();
        Warnings::telling(move |line| display.warn(line))
    };
    let run = match &args.run {
        Some(run) => run.clone(),
        None => newest_run(args.config.as_deref(), &Overrides::of_process(&[]), &warnings)?,
    };
    let format = match args.format {
        Format::Torchscript => ExportFormat::Torchscript,
    };
    let exported = millstream::export(&run, format, args.output.as_deref(), &warnings)?;
    if args.json {
        return print_json(&ExportResult { exported: &exported, warnings: warnings.all() });
    }
    let (run, output) = (exported.run.display(), exported.output.display());
    display.say(&format!("the model of {run} as TorchScript: {output}"));
    Ok(())
}
