//! The training line: loader → normalize → prefetch → trainer.

use crate::{
    cli::TrainArgs,
    device::{device, ring},
    failure::{Code, Failure},
    interrupt,
    predict::Watch,
    progress::{Display, left_out},
    run_dir::{self, RunDir},
    settings::Settings,
    threads::share,
    trace::Trace,
    unsaved::NewRun,
};
use crossbeam_channel::Receiver;
use millstream_loader::{Loader, Refresh};
use millstream_normalize::{MakeSlots, Normalize, NormalizeSettings, Purpose, Rank, Resume};
use millstream_prefetch::Ring;
use millstream_stage::{Ending, Outcome, Pipeline, StageReport, Warnings};
use millstream_trainer::{Progress, RunLock, TrainReport, Trainer};
use std::path::{Path, PathBuf};

/// What a training run leaves, besides its directory.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) run: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) report: TrainReport,
    pub(crate) stages: Vec<StageReport>,
    pub(crate) interrupted: bool,
    /// Held until all that belongs to the run has been written.
    pub(crate) _lock: RunLock,
}

const NOTHING_SAVED: &str = "interrupted before the first step; nothing was saved";

/// How a run that was interrupted is gone on with.
pub(crate) fn go_on_later(run: &Path) -> String {
    format!("go on with: {} --resume {}", run_dir::command(), run.display())
}

/// Trains into a new run directory, or goes on with an interrupted run.
pub(crate) fn train(args: &TrainArgs, watch: Watch<'_>) -> Result<Trained, Failure> {
    let Watch { display, warnings, .. } = watch;
    // Before anything of the run is read.
    let held = args.resume.as_deref().map(run_dir::lock).transpose()?;
    let settings = match &args.resume {
        Some(run) => run_dir::resumed_settings(run)?,
        None => {
            let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
            settings.check_effects("")?;
            settings
        }
    };
    let settings = settings.with_absolute_paths();
    settings.train.validate()?;
    settings.split.validate().map_err(Failure::settings)?;
    let device = device(settings.prefetch.device)?;
    let ring = ring(&device, &settings.prefetch)?;
    display.say(&format!("computing on {}", device.reason));
    let threads = share(&settings.run);
    tch::set_num_threads(i32::try_from(threads.train.get()).unwrap_or(i32::MAX));

    let (lock, new_run, resume) = match held {
        Some(lock) => {
            interrupt::nothing_to_save(format!("interrupted; {}", go_on_later(lock.run_dir())));
            let position = lock.position()?;
            if position.finished && run_dir::has_final_report(lock.run_dir()) {
                return Err(Failure::settings(format!(
                    "{} has finished; there is nothing to resume",
                    lock.run_dir().display()
                )));
            }
            let resume = Resume { epoch: position.epoch, batch: position.index };
            (lock, None, Some(resume))
        }
        None => {
            interrupt::nothing_to_save(NOTHING_SAVED.to_owned());
            let is_first = !settings.run.dir.exists();
            let new = interrupt::make_run(
                || RunDir::create(&settings),
                |new| NewRun::new(new.path(), is_first),
            )?;
            (new.lock().clone(), Some(new), None)
        }
    };
    let run = lock.run_dir().to_owned();
    let _trace = if args.trace {
        Trace::start_with_spans(args.common.verbose, &run.join("trace.json"), warnings)?
    } else {
        Trace::start(args.common.verbose)
    };

    let observer = {
        let (mut bar, warnings) = (display.training(), warnings.clone());
        let (display, run) = (display.clone(), run.clone());
        Box::new(move |progress: &Progress| {
            if let Progress::Started { plan, .. } = progress {
                interrupt::is_under_way();
                // Not before: a run that finds no data leaves no folder.
                display.say(&format!("run       {}", run.display()));
                let left_out = left_out(&plan.windows);
                plan.warnings.iter().cloned().chain(left_out).for_each(|line| warnings.warn(line));
            }
            bar.show(progress);
        })
    };
    let trainer = match resume {
        Some(_) => Trainer::resume_in(lock.clone(), settings.train.clone(), observer)?,
        None => Trainer::new_in(lock.clone(), settings.train.clone(), observer)?,
    };
    let trainer = trainer.warn_to(warnings.clone());
    let refresh = if args.refresh { Refresh::Always } else { Refresh::Never };
    let loader = loader(&settings, refresh, display, warnings);
    let outcome = run_line(&settings, threads.normalize, resume, loader, watch.stop, ring, trainer);
    display.done();
    let Outcome { report, ending, stages } = outcome?;
    if let Some(new_run) = new_run {
        if !report.saved {
            return Err(Failure::new(Code::Interrupted, NOTHING_SAVED));
        }
        new_run.keep();
    }
    let interrupted = ending == Ending::Interrupted;
    Ok(Trained { run, settings, report, stages, interrupted, _lock: lock })
}

fn run_line(
    settings: &Settings,
    threads: std::num::NonZeroUsize,
    resume: Option<Resume>,
    loader: Loader,
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
    let outcome = Pipeline::from("loader", loader, depth)
        .then("normalize", Normalize::new(normalize, make_slots))
        .then("prefetch", ring)
        .stop_on(stop.clone())
        .run("trainer", trainer)?;
    Ok(outcome)
}

/// The source every line starts with.
pub(crate) fn loader(
    settings: &Settings,
    refresh: Refresh,
    display: &Display,
    warnings: &Warnings,
) -> Loader {
    let mut bar = display.loading();
    Loader::new(settings.source.clone(), settings.required_columns())
        .refresh(refresh)
        .warn_to(warnings.clone())
        .on_progress(Box::new(move |progress| {
            bar.show(progress);
            interrupt::go_on()
        }))
}
