//! `millstream predict`: forecasts with a trained run.

use crate::{
    cli::PredictArgs, display::Display, interrupt, messages::print_json, outcome::Code,
    trace::Trace,
};
use millstream::{Error, Forecast, Overrides, Predicted, RunChoice, Settings, Warnings, newest};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The JSON result of `predict`.
#[derive(Debug, Serialize)]
struct PredictResult<'a> {
    #[serde(flatten)]
    predicted: &'a Predicted,
    warnings: Vec<String>,
}

/// What is said of an interrupted command whose result went out as it was made.
const PART: &str = "interrupted; stdout has a part of the forecasts";

/// Forecasts as the flags say.
pub(crate) fn predict(args: &PredictArgs) -> Result<Code, Error> {
    let display = Display::new(args.common.quiet);
    let watch = display.watch();
    interrupt::on_interrupt(&args.common, watch.stop_handle())?;
    let _trace = Trace::start(args.common.verbose);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && args.common.json {
        return Err(Error::settings(
            "--json and --output - both write to stdout; leave --json out, or name a file, e.g. --output forecasts.jsonl",
        ));
    }
    if to_stdout {
        interrupt::nothing_to_wait_for(PART.to_owned());
    } else {
        interrupt::nothing_to_save("interrupted; nothing was written".to_owned());
    }
    let overrides = Overrides::of_process(&args.common.set);
    let run = match &args.run {
        Some(run) => run.clone(),
        None => newest_run(args.common.config.as_deref(), &overrides, watch.warnings())?,
    };
    let mut forecast = Forecast::of(run).with(overrides).use_all_threads();
    if let Some(path) = &args.output {
        forecast = forecast.output(path);
    }
    if let Some(time) = &args.from {
        forecast = forecast.from(time);
    }
    if let Some(time) = &args.to {
        forecast = forecast.to(time);
    }
    if args.refresh {
        forecast = forecast.read_anew();
    }
    let predicted = forecast.write(&watch)?;
    if args.common.json {
        print_json(&PredictResult { predicted: &predicted, warnings: watch.warnings().all() })?;
    } else if to_stdout && predicted.interrupted {
        display.say(PART);
    } else if let Some(line) = predicted.line() {
        display.say(&line);
    }
    Ok(Code::of(predicted.interrupted))
}

/// The run to take where none is named; what should be known of the choice is a warning.
pub(crate) fn newest_run(
    config: Option<&Path>,
    overrides: &Overrides,
    warnings: &Warnings,
) -> Result<PathBuf, Error> {
    let settings = Settings::load(config, overrides)?;
    let RunChoice { run, remarks, .. } = newest(&settings.run.dir)?;
    remarks.into_iter().for_each(|remark| warnings.warn(remark));
    Ok(run)
}
