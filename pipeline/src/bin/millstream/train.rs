//! `millstream train`, and `pipeline`, which also forecasts what it trained.

use crate::{
    cli::{Common, TrainArgs},
    display::Display,
    interrupt,
    messages::{print, print_json, tell},
    outcome::Code,
    summary,
    trace::Trace,
};
use millstream::{
    Error, ErrorKind, NOTHING_SAVED, Overrides, Report, Run, Settings, Trained, Training, Watch,
    shell_word,
};
use std::path::Path;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Train,
    Pipeline,
}

pub(crate) fn train(args: &TrainArgs, mode: Mode) -> Result<Code, Error> {
    let display = Display::new(args.common.quiet);
    let watch = display.watch();
    interrupt::on_interrupt(&args.common, watch.stop_handle())?;
    let run = begin(args, mode, &display)?;
    let path = run.path().to_owned();
    let _trace = if args.trace {
        let file = path.join("trace.json");
        Trace::start_with_spans(args.common.verbose, &file, watch.warnings())?
    } else {
        Trace::start(args.common.verbose)
    };
    let mut trained = run.train(&watch)?;
    // This is told to a person who asked for quiet, too: it is how the work is not lost.
    let later = if trained.report().interrupted {
        Some(go_on_later(&path, mode))
    } else if mode == Mode::Pipeline && !forecast(&mut trained, args, &watch)? {
        Some(forecast_later(&path))
    } else {
        None
    };
    show(trained.report(), &args.common)?;
    if let Some(later) = &later {
        tell(&format!("interrupted; {later}"));
    }
    Ok(Code::of(later.is_some()))
}

/// A new run, or one that goes on.
fn begin(args: &TrainArgs, mode: Mode, display: &Display) -> Result<Run, Error> {
    let overrides = Overrides::of_process(&args.common.set);
    let mut training = match &args.resume {
        Some(run) => {
            let training = Training::resume(run, &overrides)?;
            interrupt::nothing_to_save(format!("interrupted; {}", go_on_later(run, mode)));
            training
        }
        None => {
            let training =
                Training::new(Settings::load(args.common.config.as_deref(), &overrides)?)?;
            interrupt::nothing_to_save(NOTHING_SAVED.to_owned());
            training
        }
    };
    if args.refresh {
        training = training.read_anew();
    }
    display.say(&format!("computing on {}", training.device()));
    let training = training.use_all_threads();
    interrupt::make_run(|| training.start(), Run::unsaved)
}

/// Whether the forecasts of the test part were not cut short.
fn forecast(trained: &mut Trained, args: &TrainArgs, watch: &Watch) -> Result<bool, Error> {
    let later = forecast_later(&trained.report().run);
    interrupt::nothing_to_save(format!("interrupted; {later}"));
    match trained.forecast(&Display::new(args.common.quiet).watch_as(watch)) {
        Ok(predicted) => Ok(predicted.is_none_or(|predicted| !predicted.interrupted)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

fn show(report: &Report, common: &Common) -> Result<(), Error> {
    match common {
        Common { json: true, .. } => print_json(report),
        Common { quiet: false, .. } => print(&summary::table(report)),
        _ => Ok(()),
    }
}

/// How a run that was interrupted is gone on with.
fn go_on_later(run: &Path, mode: Mode) -> String {
    let command = if mode == Mode::Pipeline { "pipeline" } else { "train" };
    format!("go on with: millstream {command} --resume {}", shell_word(run))
}

fn forecast_later(run: &Path) -> String {
    format!("the model is trained; forecast with: millstream predict --run {}", shell_word(run))
}
