//! [`Training`]: settings in, a trained run and its [`Report`] out. The training line, loader →
//! normalize → prefetch → trainer, is wired here.
//!
//! Nothing about the process is changed: no signal is caught, no allocator told anything, and
//! libtorch's threads are touched only where the settings give their number or
//! [`Training::use_all_threads`] is called.

use crate::{
    device::{device, ring},
    error::{Error, ErrorKind},
    forecast::{self, Asked, Predicted},
    report::Report,
    run_dir::{self, NewFolder, RunDir},
    settings::{Overrides, Settings},
    shared_panel::{Rows, SharedPanel},
    threads,
    trial::{Clock, Trial},
    unsaved::UnsavedRun,
    watch::{Event, Watch},
};
use millstream_loader::{Loader, Refresh};
use millstream_model::Architecture;
use millstream_normalize::{Normalize, NormalizeSettings, Rank, Resume, TrainPurpose};
use millstream_prefetch::Device;
use millstream_stage::{Ending, Outcome, Pipeline};
use millstream_trainer::{Progress, RunLock, TrainReport, Trainer};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// Trains with these settings, silently, and gives what it found; all of it is in a new folder in
/// `run.dir` too. For a look at what happens, a model of one's own or a run that goes on, there is
/// [`Training`].
///
/// # Errors
/// Whatever is wrong with the settings, the data or the device, in one line.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let run = folder.path().display();
/// let settings = millstream::Settings::from_toml(&format!(
///     r#"
///     source = {{ cache = "", generate = {{ series = 20, rows = 120 }} }}
///     window.lookback = 20
///     train = {{ epochs = 1, model_options.hidden = 8 }}
///     run.dir = "{run}"
///     "#
/// ))?;
/// let report = millstream::train(settings)?;
/// assert!(report.test.is_some_and(|test| test.overall.mse.is_some()));
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn train(settings: Settings) -> Result<Report, Error> {
    Ok(Training::new(settings)?.start()?.train(&Watch::default())?.into_report())
}

/// A training run that can begin: its settings are checked, its device is there.
#[derive(Debug)]
pub struct Training {
    begun: Instant,
    settings: Settings,
    device: Device,
    /// Of a run that goes on.
    resumed: Option<RunLock>,
    model: Option<Box<dyn Architecture>>,
    refresh: Refresh,
    trial: Trial,
    fold: Option<FoldOfBacktest>,
}

/// What a run has as a fold of a backtest.
#[derive(Debug)]
pub(crate) struct FoldOfBacktest {
    pub(crate) number: usize,
    /// Loaded once for all.
    pub(crate) panel: SharedPanel,
    /// The run with whose best weights it begins; `None` for those that the seed draws.
    pub(crate) first_weights: Option<PathBuf>,
}

/// A run with a folder of its own, which nobody else writes to. The folder of a new run goes again
/// when the run is dropped before it has saved anything.
#[derive(Debug)]
pub struct Run {
    training: Training,
    lock: RunLock,
    resume: Option<Resume>,
    new: Option<RunDir>,
}

/// A run that was trained, or was stopped. It stays locked while this is there.
#[derive(Debug)]
pub struct Trained {
    begun: Instant,
    settings: Settings,
    lock: RunLock,
    report: Report,
    /// The folder of a run of which nothing is kept; it goes with this.
    discarded: Option<RunDir>,
}

#[derive(Debug, thiserror::Error)]
#[error("{} has finished; there is nothing to resume", .0.display())]
pub(crate) struct Finished(pub(crate) PathBuf);

/// What is said of a run that was stopped before there was anything to save.
pub const NOTHING_SAVED: &str = "interrupted before the first step; nothing was saved";

impl Training {
    /// Checks the settings and chooses the device. Nothing is read or written yet.
    ///
    /// # Errors
    /// What is out of range or has no effect, by its key; a device that is not there.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let settings = settings.with_fields_noted()?;
        settings.check_effects("")?;
        Training::checked(settings, None)
    }

    /// Goes on with a run that was interrupted, by its own settings: it ends with the weights of a
    /// run that was not, bit for bit on the CPU with the same number of threads. What `overrides`
    /// would change is refused by name.
    ///
    /// # Errors
    /// As for [`Training::new`]; also that there is no such run, or another program works on it.
    pub fn resume(run: &Path, overrides: &Overrides) -> Result<Self, Error> {
        // Before anything of the run is read.
        let lock = run_dir::lock(run)?;
        let mut training =
            Training::checked(run_dir::resumed_settings(run, overrides)?, Some(lock))?;
        training.trial.limit = run_dir::limit(run)?;
        Ok(training)
    }

    /// With settings that were checked when they were kept.
    pub(crate) fn kept(settings: Settings) -> Result<Self, Error> {
        Training::checked(settings, None)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn checked(settings: Settings, resumed: Option<RunLock>) -> Result<Self, Error> {
        let begun = Instant::now();
        let settings = settings.with_absolute_paths();
        settings.train.validate()?;
        settings.split.validate().map_err(Error::settings)?;
        let device = device(settings.prefetch.device)?;
        let refresh = Refresh::Never;
        let trial = Trial::default();
        let (model, fold) = (None, None);
        Ok(Training { begun, settings, device, resumed, model, refresh, trial, fold })
    }

    /// Trains a model of your own; `train.model` and its options are then not read. A run goes on
    /// with the model it was begun with.
    #[must_use]
    pub fn with_model(mut self, architecture: impl Architecture + 'static) -> Self {
        self.model = Some(Box::new(architecture));
        self
    }

    /// Tries a run out: a part of each pass, for a limited time, or without keeping it.
    ///
    /// # Errors
    /// A run that goes on keeps its limit, and is kept itself.
    pub fn trying(mut self, trial: Trial) -> Result<Self, Error> {
        self.trial = match self.resumed {
            Some(_) => trial.with_limit_of_run(self.trial.limit)?,
            None => trial,
        };
        if trial.discard {
            self.settings.train.epochs = 1;
        }
        Ok(self)
    }

    /// Makes it a fold of a backtest: `run.dir` is then the backtest's folder.
    pub(crate) fn in_backtest(mut self, fold: FoldOfBacktest) -> Self {
        self.fold = Some(fold);
        self
    }

    /// Reads the source anew, whatever is in the cache.
    #[must_use]
    pub fn read_anew(mut self) -> Self {
        self.refresh = Refresh::Always;
        self
    }

    /// Gives libtorch all the threads of the settings, by default every core. That holds for the
    /// whole process, so a program of your own must ask for it.
    #[must_use]
    pub fn use_all_threads(self) -> Self {
        threads::claim(&self.settings.run);
        self
    }

    /// What computes, and why.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device.reason
    }

    /// Makes the folder of a new run, or finds the place where a run goes on.
    ///
    /// # Errors
    /// The folder cannot be made, or the run has come to its end.
    pub fn start(mut self) -> Result<Run, Error> {
        let Some(lock) = self.resumed.take() else {
            let what = match &self.fold {
                Some(fold) => NewFolder::Fold(fold.number),
                None => NewFolder::Run,
            };
            let new = RunDir::create(what, &self.settings, &self.trial)?;
            let lock = new.lock().clone();
            return Ok(Run { training: self, lock, resume: None, new: Some(new) });
        };
        let position = lock.position()?;
        if position.finished && run_dir::has_final_report(lock.run_dir()) {
            return Err(Error::settings(Finished(lock.run_dir().to_owned())));
        }
        let resume = Resume { epoch: position.epoch, batch: position.index };
        Ok(Run { training: self, lock, resume: Some(resume), new: None })
    }
}

impl Run {
    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.lock.run_dir()
    }

    /// For a program that ends without dropping what it has: removes the folder of a new run in which
    /// nothing has been saved. `None` for a run that goes on.
    #[must_use]
    pub fn unsaved(&self) -> Option<UnsavedRun> {
        self.new.as_ref().map(RunDir::unsaved)
    }

    /// Trains to the end, or until `watch` stops it, and leaves all it found in the run's folder.
    ///
    /// # Errors
    /// Whatever is wrong with the data or the device; what had been saved before is kept.
    /// [`ErrorKind::Interrupted`] when it was stopped before there was anything to save.
    pub fn train(self, watch: &Watch) -> Result<Trained, Error> {
        let Run { mut training, lock, resume, new } = self;
        let run = lock.run_dir().to_owned();
        let outcome = training.run_line(&lock, resume, watch);
        watch.tell(Event::Ended);
        let Outcome { report, ending, stages } = outcome?;
        if new.is_some() && !report.saved {
            return Err(Error::new(ErrorKind::Interrupted, NOTHING_SAVED));
        }
        let Training { begun, settings, trial, .. } = training;
        let discarded = match new {
            Some(new) if trial.discard => Some(new),
            Some(new) => {
                new.keep();
                None
            }
            None => None,
        };
        let (kind, interrupted) = (settings.target.kind, ending == Ending::Interrupted);
        let mut report = Report::new(run, interrupted, kind, report, stages);
        report.limit = trial.limit;
        let mut trained = Trained { begun, settings, lock, report, discarded };
        trained.keep(watch)?;
        Ok(trained)
    }
}

impl Training {
    fn run_line(
        &mut self,
        lock: &RunLock,
        resume: Option<Resume>,
        watch: &Watch,
    ) -> Result<Outcome<TrainReport>, Error> {
        let (settings, stop) = (&self.settings, watch.begin()?);
        let left = self.trial.max_time.map(|time| time.saturating_sub(self.begun.elapsed()));
        let _clock = left.map(|left| Clock::start(left, watch)).transpose()?;
        let (ring, make_slots) = ring(&self.device, &settings.prefetch)?;
        threads::claim_what_is_set(&settings.run);
        let observer = {
            let (watch, run) = (watch.clone(), lock.run_dir().to_owned());
            Box::new(move |progress: &Progress| {
                if let Progress::Started { plan, .. } = progress {
                    watch.tell(Event::Started(&run));
                    watch.warn_of(plan, true);
                }
                watch.tell(Event::Training(progress));
            })
        };
        let train = settings.train.clone();
        let trainer = match resume {
            Some(_) => Trainer::resume_in(lock.clone(), train, observer)?,
            None => Trainer::new_in(lock.clone(), train, observer)?,
        };
        let trainer = trainer.warn_to(watch.warnings().clone());
        let text = format!("```toml\n{}\n```", settings.to_toml());
        let mut trainer = trainer.with_settings_text(text);
        if let Some(model) = self.model.take() {
            trainer = trainer.with_model(model);
        }
        let fold = self.fold.as_ref();
        if let Some(run) = fold.and_then(|fold| fold.first_weights.as_deref()) {
            trainer = trainer.with_first_weights_of(run)?;
        }
        let normalize = NormalizeSettings {
            fit: settings.fit(),
            batch_size: settings.train.batch_size,
            rank: Rank::ALONE,
            threads: threads::share(&settings.run).normalize,
            purpose: TrainPurpose {
                split: settings.split.clone(),
                epochs: settings.train.epochs,
                seed: settings.train.seed,
                resume,
            }
            .into(),
            limit: self.trial.limit,
            ridge: true,
        };
        let shared = fold.map(|fold| &fold.panel);
        let rows = Rows::of(shared, watch, || loader(settings, self.refresh, watch));
        let line = Pipeline::from("loader", rows, settings.prefetch.depth.get())
            .then("normalize", Normalize::new(normalize, make_slots))
            .then("prefetch", ring)
            .stop_on(stop);
        watch.tell(Event::Running(&line.counters()));
        Ok(line.run("trainer", trainer)?)
    }
}

impl Trained {
    /// What was found so far.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Lets go of the run.
    #[must_use]
    pub fn into_report(self) -> Report {
        self.report
    }

    /// Forecasts the run's test part into its folder. `None` when it has none, which is a warning.
    ///
    /// # Errors
    /// As for [`Forecast::write`](crate::Forecast::write).
    pub fn forecast(&mut self, watch: &Watch) -> Result<Option<&Predicted>, Error> {
        let (run, settings) = (self.lock.run_dir().to_owned(), self.settings.clone());
        run_dir::check_model(&run)?;
        let asked = Asked::of_limited(self.report.limit);
        match forecast::predict_run(&run, settings, &asked, watch) {
            Ok(predicted) => self.report.add_forecasts(predicted),
            Err(error) if error.is_nothing_to_forecast() => {
                watch.warnings().warn(error.to_string());
            }
            Err(error) => return Err(error),
        }
        self.keep(watch)?;
        Ok(self.report.predict.as_ref())
    }

    /// Writes what was found, and what was to be said of it, into the run's folder.
    fn keep(&mut self, watch: &Watch) -> Result<(), Error> {
        let run = self.lock.run_dir();
        run_dir::keep_warnings(run, watch.warnings())?;
        let warnings = run_dir::with_warnings_of_report(run, watch.warnings().all());
        self.report.close(warnings, self.begun.elapsed().as_secs_f64());
        let json = serde_json::to_vec_pretty(&self.report);
        let json = json.map_err(|error| Error::new(ErrorKind::Other, error))?;
        run_dir::write_whole(&run.join(run_dir::REPORT), &json)?;
        if self.discarded.is_some() {
            self.report.forget_folder();
        }
        Ok(())
    }
}

/// The source every line starts with.
pub(crate) fn loader(settings: &Settings, refresh: Refresh, watch: &Watch) -> Loader {
    let watch = watch.clone();
    Loader::new(settings.source.clone(), settings.required_columns())
        .refresh(refresh)
        .warn_to(watch.warnings().clone())
        .on_progress(Box::new(move |progress| {
            watch.tell(Event::Loading(progress));
            watch.go_on()
        }))
}
