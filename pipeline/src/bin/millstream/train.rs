//! `millstream train`, and `pipeline`, which also forecasts what it trained.

use crate::{
    cli::{Common, TrainArgs, TrialArgs},
    display::Display,
    interrupt,
    messages::{print, print_json, tell},
    outcome::Code,
    seeds, summary,
    trace::Trace,
};
use millstream::{
    Error, ErrorKind, NOTHING_SAVED, Overrides, Report, Run, Settings, Trained, Training, Trial,
    Watch, shell_word,
};
use std::{path::Path, time::Duration};

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Train,
    Pipeline,
}

/// What one of several runs has besides the flags.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    pub(crate) set: Vec<String>,
    pub(crate) max_time: Option<Duration>,
    /// Whether the source is read anew.
    pub(crate) refresh: bool,
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) report: Report,
    /// What was not done, and how it is done later.
    pub(crate) later: Option<String>,
}

pub(crate) fn train(args: &TrainArgs, mode: Mode) -> Result<Code, Error> {
    let display = Display::new(args.common.quiet);
    let watch = display.watch();
    interrupt::on_interrupt(&args.common, watch.stop_handle())?;
    if let Some(count) = args.trial.seeds {
        return seeds::train(args, mode, count, &watch);
    }
    let (refresh, max_time) = (args.refresh, args.trial.max_time);
    let besides = Besides { refresh, max_time, ..Besides::default() };
    let run = begin(args, mode, &display, &besides)?;
    let _trace = if args.trace {
        let file = run.path().join("trace.json");
        Trace::start_with_spans(args.common.verbose, &file, watch.warnings())?
    } else {
        Trace::start(args.common.verbose)
    };
    let Ended { report, later } = go(run, args, mode, &watch)?;
    match args.common {
        Common { json: true, .. } => print_json(&report)?,
        Common { quiet: false, .. } => print(&summary::table(&report))?,
        _ => {}
    }
    // This is told to a person who asked for quiet, too: it is how the work is not lost.
    if let Some(later) = &later {
        tell(&format!("interrupted; {later}"));
    }
    Ok(Code::of(later.is_some()))
}

/// Trains, and forecasts where that is asked for.
pub(crate) fn go(run: Run, args: &TrainArgs, mode: Mode, watch: &Watch) -> Result<Ended, Error> {
    let path = run.path().to_owned();
    let mut trained = run.train(watch)?;
    let cut_short = trained.report().interrupted
        || mode == Mode::Pipeline && !forecast(&mut trained, args, watch)?;
    let later = match cut_short {
        false => None,
        true if args.trial.fast_dev_run => Some(NOTHING_KEPT.to_owned()),
        true if trained.report().interrupted => Some(go_on_later(&path, mode)),
        true => Some(forecast_later(&path)),
    };
    Ok(Ended { report: trained.into_report(), later })
}

/// A new run, or one that goes on.
pub(crate) fn begin(
    args: &TrainArgs,
    mode: Mode,
    display: &Display,
    besides: &Besides,
) -> Result<Run, Error> {
    let overrides = Overrides::of_process(&[args.common.set.clone(), besides.set.clone()].concat());
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
    if besides.refresh {
        training = training.read_anew();
    }
    let mut trial = asked_for(&args.trial);
    trial.max_time = besides.max_time;
    let training = training.trying(trial)?;
    display.say(&format!("computing on {}", training.device()));
    let training = training.use_all_threads();
    interrupt::make_run(|| training.start(), Run::unsaved)
}

fn asked_for(args: &TrialArgs) -> Trial {
    match (args.fast_dev_run, args.limit_batches, args.overfit_batches) {
        (true, ..) => Trial::fast_dev_run(),
        (_, Some(most), _) => Trial::limit_batches(most),
        (_, _, Some(most)) => Trial::overfit_batches(most),
        _ => Trial::default(),
    }
}

/// Whether the forecasts of the test part were not cut short.
fn forecast(trained: &mut Trained, args: &TrainArgs, watch: &Watch) -> Result<bool, Error> {
    let later = match args.trial.fast_dev_run {
        true => NOTHING_KEPT.to_owned(),
        false => forecast_later(&trained.report().run),
    };
    interrupt::nothing_to_save(format!("interrupted; {later}"));
    match trained.forecast(&Display::new(args.common.quiet).watch_as(watch)) {
        Ok(predicted) => Ok(predicted.is_none_or(|predicted| !predicted.interrupted)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is left of a run that was only tried out.
const NOTHING_KEPT: &str = "nothing was kept";

/// How a run that was interrupted is gone on with.
fn go_on_later(run: &Path, mode: Mode) -> String {
    let command = if mode == Mode::Pipeline { "pipeline" } else { "train" };
    format!("go on with: millstream {command} --resume {}", shell_word(run))
}

fn forecast_later(run: &Path) -> String {
    format!("the model is trained; forecast with: millstream predict --run {}", shell_word(run))
}
