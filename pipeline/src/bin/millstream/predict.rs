//! `millstream predict`: forecasts with a trained run.

use crate::{
    cli::{Part, PredictArgs},
    closed_stdout,
    display::Display,
    interrupt,
    messages::{print, print_json, tell},
    outcome::Code,
    preview,
    trace::Trace,
};
use millstream::{
    CheckpointChoice, Error, ErrorKind, Forecast, ForecastPart, Overrides, Predicted,
    RunCheckpoint, RunChoice, Settings, Warnings, newest,
};
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

/// What is said of one whose result is a file or a table.
const NOTHING: &str = "interrupted; nothing was written";

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
        closed_stdout::check()?;
        interrupt::nothing_to_wait_for(PART.to_owned());
    } else {
        interrupt::all_or_nothing(NOTHING.to_owned());
    }
    let overrides = Overrides::of_process(&args.common.set);
    let run = match &args.run {
        Some(run) => RunCheckpoint::parse(run)?,
        None => {
            let run = newest_run(args.common.config.as_deref(), &overrides, watch.warnings())?;
            RunCheckpoint { run, checkpoint: CheckpointChoice::Best }
        }
    };
    let forecast = Forecast::of_checkpoint(run).with(overrides).use_all_threads();
    let predicted = asked(forecast, args).write(&watch);
    interrupt::has_stopped();
    let predicted = predicted.map_err(|error| match error.kind() {
        // Whatever it was that was called off.
        ErrorKind::Interrupted if !to_stdout => Error::new(ErrorKind::Interrupted, NOTHING),
        _ => error,
    })?;
    if args.common.json {
        print_json(&PredictResult { predicted: &predicted, warnings: watch.warnings().all() })?;
    } else if to_stdout && predicted.interrupted {
        display.say(PART);
    } else if let Some(line) = predicted.line() {
        if !args.common.quiet {
            print(&preview::table(&predicted.preview, predicted.rows))?;
        }
        display.say(&line);
    }
    if predicted.interrupted && !to_stdout {
        // To a person who asked for quiet, too.
        tell(NOTHING);
    }
    Ok(Code::of(predicted.interrupted))
}

/// The forecasts that the flags ask for.
fn asked(forecast: Forecast, args: &PredictArgs) -> Forecast {
    let mut forecast = forecast.intervals(args.intervals.iter().copied());
    if let Some(path) = &args.output {
        forecast = forecast.output(path);
    }
    if !args.symbols.is_empty() {
        forecast = forecast.symbols(args.symbols.iter().map(|name| name.trim()));
    }
    if let Some(steps) = args.last {
        forecast = forecast.last(steps);
    }
    if let Some(part) = args.part {
        forecast = forecast.part(match part {
            Part::Test => ForecastPart::Test,
            Part::Validation => ForecastPart::Validation,
            Part::Train => ForecastPart::Train,
            Part::New => ForecastPart::New,
        });
    }
    if let Some(time) = &args.as_of {
        forecast = forecast.as_of(time);
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
    forecast
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
