//! The training line: loader → normalize → prefetch → trainer.

use crate::{
    cli::TrainArgs,
    device::{device, ring},
    failure::{Code, Failure},
    interrupt,
    memory::peak_rss_mb,
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
use millstream_trainer::{Baseline, Metrics, TrainReport, Trainer, read_position};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

/// What a training run leaves, besides its directory.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) run: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) report: TrainReport,
    pub(crate) stages: Vec<StageReport>,
    pub(crate) interrupted: bool,
}

/// The JSON result of `train`, as documented in DESIGN.md.
#[derive(Debug, Serialize)]
pub(crate) struct TrainResult<'a> {
    run: &'a PathBuf,
    steps: u64,
    train_loss: Option<f64>,
    validation: Option<&'a Metrics>,
    test: Option<&'a Metrics>,
    baseline: &'a Baseline,
    samples_per_s: f64,
    wait_share: f64,
    stages: BTreeMap<&'a str, &'a StageReport>,
    peak_rss_mb: f64,
}

impl Trained {
    pub(crate) fn samples_per_s(&self) -> f64 {
        let TrainReport { samples, train_seconds, .. } = self.report;
        if train_seconds > 0.0 { samples as f64 / train_seconds } else { 0.0 }
    }

    /// Share of the time that the trainer waited for data.
    pub(crate) fn wait_share(&self) -> f64 {
        self.stages.last().map_or(0.0, StageReport::wait_share)
    }

    pub(crate) fn result(&self) -> TrainResult<'_> {
        TrainResult {
            run: &self.run,
            steps: self.report.steps,
            train_loss: self.report.train_loss,
            validation: self.report.validation.as_ref(),
            test: self.report.test.as_ref(),
            baseline: &self.report.baseline,
            samples_per_s: self.samples_per_s(),
            wait_share: self.wait_share(),
            stages: self.stages.iter().map(|stage| (stage.name.as_str(), stage)).collect(),
            peak_rss_mb: peak_rss_mb(),
        }
    }
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

    let observer = {
        let display = display.clone();
        Box::new(move |progress: &_| display.training(progress))
    };
    let trainer = match resume {
        Some(_) => Trainer::resume(settings.train.clone(), run.clone(), observer)?,
        None => Trainer::new(settings.train.clone(), run.clone(), observer)?,
    };
    let outcome = run_line(&settings, threads.normalize, resume, display, stop, ring, trainer);
    display.done();
    let Outcome { report, ending, stages } = outcome?;
    if let Some(new_run) = new_run {
        if report.steps == 0 && ending == Ending::Interrupted {
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
    let display = display.clone();
    Loader::new(settings.source.clone(), settings.required_columns()).on_progress(Box::new(
        move |progress| {
            display.loading(progress);
            interrupt::go_on()
        },
    ))
}
