//! The training line: loader → normalize → prefetch → trainer.

use crate::{
    cli::TrainArgs,
    device::{device, ring},
    failure::{Code, Failure},
    interrupt,
    progress::Display,
    run_dir::{self, RunDir},
    settings::Settings,
    threads::share,
    trace::Trace,
};
use crossbeam_channel::Receiver;
use millstream_loader::Loader;
use millstream_normalize::{MakeSlots, Normalize, NormalizeSettings, Purpose, Rank, Resume};
use millstream_prefetch::Ring;
use millstream_stage::{Ending, Outcome, Pipeline, StageReport};
use millstream_trainer::{TrainReport, Trainer, read_position};
use std::path::PathBuf;

/// What a training run leaves, besides its directory.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) run: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) report: TrainReport,
    pub(crate) stages: Vec<StageReport>,
    pub(crate) interrupted: bool,
}

/// Trains into a new run directory, or goes on with an interrupted run.
pub(crate) fn train(
    args: &TrainArgs,
    display: &Display,
    stop: &Receiver<()>,
) -> Result<Trained, Failure> {
    let settings = match &args.resume {
        Some(run) => run_dir::resumed_settings(run)?,
        None => {
            let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
            settings.check_effects("")?;
            settings
        }
    };
    settings.train.validate()?;
    settings.split.validate().map_err(Failure::settings)?;
    let device = device(settings.prefetch.device)?;
    let ring = ring(&device, &settings.prefetch)?;
    display.say(&format!("computing on {}", device.reason));
    let threads = share(&settings.run);
    tch::set_num_threads(i32::try_from(threads.train.get()).unwrap_or(i32::MAX));

    let (run, new_run, resume) = match &args.resume {
        Some(run) => {
            let position = read_position(run)?;
            if position.finished {
                return Err(Failure::settings(format!(
                    "{} has finished; there is nothing to resume",
                    run.display()
                )));
            }
            let resume = Resume { epoch: position.epoch, batch: position.index };
            (run.clone(), None, Some(resume))
        }
        None => {
            let new = RunDir::create(&settings)?;
            (new.path().to_owned(), Some(new), None)
        }
    };
    display.say(&format!("run       {}", run.display()));
    let _trace = args.trace.then(|| Trace::start(&run.join("trace.json")));

    let mut bar = display.training();
    let observer = Box::new(move |progress: &_| bar.show(progress));
    let trainer = match resume {
        Some(_) => Trainer::resume(settings.train.clone(), run.clone(), observer)?,
        None => Trainer::new(settings.train.clone(), run.clone(), observer)?,
    };
    let outcome = run_line(&settings, threads.normalize, resume, display, stop, ring, trainer);
    display.done();
    let Outcome { report, ending, stages } = outcome?;
    if let Some(new_run) = new_run {
        if !report.saved {
            return Err(Failure::new(
                Code::Interrupted,
                "interrupted before the first step; nothing was saved",
            ));
        }
        new_run.keep();
    }
    Ok(Trained { run, settings, report, stages, interrupted: ending == Ending::Interrupted })
}

fn run_line(
    settings: &Settings,
    threads: std::num::NonZeroUsize,
    resume: Option<Resume>,
    display: &Display,
    stop: &Receiver<()>,
    (ring, make_slots): (Ring, MakeSlots),
    trainer: Trainer,
) -> Result<Outcome<TrainReport>, Failure> {
    let normalize = NormalizeSettings {
        fit: settings.fit(),
        batch_size: settings.train.batch_size,
        rank: Rank::ALONE,
        threads,
        purpose: Purpose::Train {
            split: settings.split.clone(),
            epochs: settings.train.epochs,
            seed: settings.train.seed,
            resume,
        },
    };
    let depth = settings.prefetch.depth.get();
    let outcome = Pipeline::from("loader", loader(settings, display), depth)
        .then("normalize", Normalize::new(normalize, make_slots))
        .then("prefetch", ring)
        .stop_on(stop.clone())
        .run("trainer", trainer)?;
    Ok(outcome)
}

/// The source every line starts with.
pub(crate) fn loader(settings: &Settings, display: &Display) -> Loader {
    let mut bar = display.loading();
    Loader::new(settings.source.clone(), settings.required_columns()).on_progress(Box::new(
        move |progress| {
            bar.show(progress);
            interrupt::go_on()
        },
    ))
}
