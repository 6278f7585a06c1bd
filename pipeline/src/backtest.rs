//! [`Backtest`]: every fold of a walk forward through time, one after another, as one thing: settings in,
//! a table of all forecasts and one report out.
//!
//! A fold is a run of its own, in a folder of its own within that of the backtest, and is equal bit for
//! bit to one that was trained by itself with `split.fold`; what folds share is the panel, which is loaded
//! once. Where the borders lie is in `folds.rs`, what one fold does in `fold.rs`, what is found in
//! `report.rs`.

mod evaluation;
mod fold;
pub(crate) mod folder;
mod folds;
mod report;

pub use folds::Period;
pub use report::{BacktestReport, FoldReport};

use crate::{
    error::{Error, ErrorKind},
    forecast::DEFAULT_OUTPUT,
    output,
    run_dir::{self, NewFolder, RunDir, RunDirError},
    runs::Started,
    settings::{Overrides, Settings},
    shared_panel::SharedPanel,
    texts::shell_word,
    training::{Finished, NOTHING_SAVED, Training},
    trial::Trial,
    unsaved::UnsavedRun,
    watch::{Event, Watch},
};
use fold::Folds;
use folder::BACKTEST_NAME;
use folds::FoldPlan;
use millstream_data::{WholeFile, remove_leftovers};
use millstream_loader::Refresh;
use millstream_normalize::Walk;
use millstream_predictor::{
    Combined, Contract, FoldForecasts, Output, combine_folds, read_contract,
};
use millstream_trainer::RunLock;
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// Where the folds of a backtest have their models from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refit {
    /// Each trains a new one.
    #[default]
    EveryFold,
    /// The first trains one, which forecasts the test parts of all, scaled as it was trained.
    Once,
    /// Each trains on from the best weights of the fold before. The scaling is fitted anew, and the
    /// optimizer and the schedule begin anew.
    WarmStart,
}

/// A backtest that can begin: its settings are checked, its device is there.
///
/// ```
/// use millstream::{Backtest, Settings, Watch};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let run = folder.path().display();
/// let settings = Settings::from_toml(&format!(
///     r#"
///     source = {{ cache = "", generate = {{ series = 20, rows = 160 }} }}
///     window.lookback = 20
///     split = {{ train = 0.6, folds = 2 }}
///     train = {{ epochs = 1, model_options.hidden = 4 }}
///     run.dir = "{run}"
///     "#
/// ))?;
/// let report = Backtest::new(settings)?.start()?.run(&Watch::default())?;
/// assert_eq!(report.folds.len(), 2);
/// println!("mse {:?} in {:?}", report.test["mse"], report.output);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
pub struct Backtest {
    begun: Instant,
    training: Training,
    note: Note,
    refresh: Refresh,
    /// Of one that goes on.
    resumed: Option<RunLock>,
}

/// A backtest with a folder of its own, which nobody else writes to. A new folder goes again when this is
/// dropped before any fold has saved anything.
#[derive(Debug)]
pub struct BacktestRun {
    backtest: Backtest,
    lock: RunLock,
    new: Option<RunDir>,
}

/// What `backtest.json` says.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    started: Started,
    refit: Refit,
    /// Where the forecasts of all folds go; `None` for the backtest's folder.
    output: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum BacktestError {
    #[error(
        "split.folds is {folds}, but a backtest walks through 2 folds at least; set split.folds, e.g. --set split.folds=5"
    )]
    FewFolds { folds: usize },
    #[error("split.fold = {fold} has no effect: a backtest runs every fold; leave it out")]
    OneFold { fold: usize },
    #[error(
        "split.walk = \"rolling\" has no effect: it needs a refit of later folds; leave it out, or do not refit once"
    )]
    NoWalk,
    #[error("{} is damaged: {reason}; start a new backtest", .path.display())]
    Note { path: PathBuf, reason: String },
    #[error(
        "cannot resume {}: the data was {was} and is now {is}; put it back or start a new backtest", .path.display()
    )]
    OtherData { path: PathBuf, was: String, is: String },
    #[error("no fold of {} has anything to forecast, so there is no table of forecasts", .path.display())]
    NoForecast { path: PathBuf },
}

impl Backtest {
    /// Checks the settings and chooses the device. Nothing is read or written yet.
    ///
    /// # Errors
    /// As for [`Training::new`]; also that there are no folds, or settings that one fold alone has.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Backtest::checked(Training::new(settings)?, Refit::default())
    }

    /// Goes on with a backtest that was interrupted, by its own settings: folds that were finished stay as
    /// they are, and the one that was under way goes on. Its forecasts end as those of one that was not
    /// interrupted, bit for bit on the CPU with the same number of threads.
    ///
    /// # Errors
    /// There is no such backtest, it has finished, another program works on it, or `overrides` would
    /// change a setting.
    pub fn resume(path: &Path, overrides: &Overrides) -> Result<Self, Error> {
        let (lock, note) = folder::lock(path)?;
        if run_dir::has_final_report(path) {
            return Err(Error::settings(Finished(path.to_owned())));
        }
        let note: Note = serde_json::from_slice(&note).map_err(|error| {
            let (path, reason) = (path.join(folder::BACKTEST), error.to_string());
            Error::settings(BacktestError::Note { path, reason })
        })?;
        let settings = folder::settings(path, overrides)?;
        let mut backtest = Backtest::checked(Training::kept(settings)?, note.refit)?;
        (backtest.note, backtest.resumed) = (note, Some(lock));
        Ok(backtest)
    }

    fn checked(training: Training, refit: Refit) -> Result<Self, Error> {
        let split = &training.settings().split;
        if split.folds < 2 {
            return Err(Error::settings(BacktestError::FewFolds { folds: split.folds }));
        }
        if split.fold.get() != 1 {
            let fold = split.fold.get();
            return Err(Error::settings(BacktestError::OneFold { fold }));
        }
        let note = Note { started: Started::now(), refit, output: None };
        let (begun, refresh) = (Instant::now(), Refresh::Never);
        Ok(Backtest { begun, training, note, refresh, resumed: None })
    }

    /// Says where the folds have their models from. One that goes on keeps what it was started with.
    ///
    /// # Errors
    /// A setting has no effect then.
    pub fn refit(mut self, refit: Refit) -> Result<Self, Error> {
        if self.resumed.is_some() {
            return Ok(self);
        }
        if refit == Refit::Once && self.settings().split.walk == Walk::Rolling {
            return Err(Error::settings(BacktestError::NoWalk));
        }
        self.note.refit = refit;
        Ok(self)
    }

    /// Writes the forecasts of all folds to this file, `.csv` or `.parquet`, and not into the backtest's
    /// folder.
    #[must_use]
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.note.output = Some(path.into());
        self
    }

    /// Reads the source anew, whatever is in the cache.
    #[must_use]
    pub fn read_anew(mut self) -> Self {
        self.refresh = Refresh::Always;
        self
    }

    /// As [`Training::use_all_threads`].
    #[must_use]
    pub fn use_all_threads(mut self) -> Self {
        self.training = self.training.use_all_threads();
        self
    }

    /// What computes, and why.
    #[must_use]
    pub fn device(&self) -> &str {
        self.training.device()
    }

    fn settings(&self) -> &Settings {
        self.training.settings()
    }

    /// Makes the folder of a new backtest, or takes that of one that goes on.
    ///
    /// # Errors
    /// The folder cannot be made, or the forecasts cannot be written where they are to go.
    pub fn start(mut self) -> Result<BacktestRun, Error> {
        if let Some(path) = &mut self.note.output {
            let settings = self.training.settings();
            output::named_file(path, &settings.run.dir.join(BACKTEST_NAME), &settings.source)?;
            // One that goes on from elsewhere writes to the same place.
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
            // After hours of training is no time to learn that there is no such folder.
            WholeFile::create(path).map(drop).map_err(|source| {
                let path = path.clone();
                Error::settings(RunDirError::Write { path, source })
            })?;
        }
        let (lock, new) = match self.resumed.take() {
            Some(lock) => (lock, None),
            None => {
                let note = serde_json::to_vec_pretty(&self.note);
                let note = note.map_err(|error| Error::new(ErrorKind::Other, error))?;
                let (what, trial) = (NewFolder::Backtest(&note), Trial::default());
                let new = RunDir::create(what, self.settings(), &trial)?;
                (new.lock().clone(), Some(new))
            }
        };
        Ok(BacktestRun { backtest: self, lock, new })
    }
}

impl BacktestRun {
    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.lock.run_dir()
    }

    /// For a program that ends without dropping what it has: removes the folder of a new backtest in which
    /// nothing has been saved. `None` for one that goes on.
    #[must_use]
    pub fn unsaved(&self) -> Option<UnsavedRun> {
        self.new.as_ref().map(RunDir::unsaved)
    }

    /// Runs all folds to the end, or until `watch` stops it, and leaves all it found in its folder. The
    /// table of forecasts is written when all folds are done, whole or not at all.
    ///
    /// # Errors
    /// Whatever is wrong with the data, the device or a fold, by its number; folds that were finished
    /// before are kept. [`ErrorKind::Interrupted`] when it was stopped before there was anything to save.
    pub fn run(mut self, watch: &Watch) -> Result<BacktestReport, Error> {
        let path = self.path().to_owned();
        let Backtest { begun, ref note, ref training, refresh, .. } = self.backtest;
        let settings = training.settings();
        remove_leftovers(&path);
        let panel = SharedPanel::load(settings, refresh, watch)?;
        watch.tell(Event::Started(&path));
        let plans = folds::plan(&panel, settings, note.refit)?;
        self.check_data(&panel)?;
        let folds = Folds { path: &path, settings, refit: note.refit, panel: &panel, watch };
        let (mut found, mut interrupted) = (Vec::new(), false);
        for plan in &plans {
            watch.tell(Event::Fold(plan.progress(plans.len())));
            match folds.run(plan) {
                Ok(Some(fold)) => found.push(fold),
                Ok(None) => interrupted = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => interrupted = true,
                Err(error) => return Err(error.in_fold(plan.number)),
            }
            if interrupted {
                break;
            }
        }
        if interrupted && !folder::fold_folders(&path).iter().any(|f| run_dir::can_go_on(f)) {
            return Err(Error::new(ErrorKind::Interrupted, NOTHING_SAVED));
        }
        let mut report = BacktestReport::new(&path, note.refit, plans.len(), found);
        report.interrupted = interrupted;
        if !interrupted {
            let files = forecasts(&plans, &path);
            let folds: Vec<usize> = files.iter().map(|file| file.fold).collect();
            let contract = self.contract()?;
            report.add_forecasts(self.combine(&contract, &files)?, &folds);
            let season = settings.target.season;
            if let Some(Err(error)) = report.evaluate(&contract.schema, season) {
                let line = format!("the table of forecasts was not evaluated: {error}");
                watch.warnings().warn(line);
            }
        }
        run_dir::keep_warnings(&path, watch.warnings())?;
        report.close(&watch.warnings().all(), begun.elapsed().as_secs_f64());
        let json = serde_json::to_vec_pretty(&report);
        let json = json.map_err(|error| Error::new(ErrorKind::Other, error))?;
        run_dir::write_whole(&path.join(run_dir::REPORT), &json)?;
        if let Some(new) = self.new.take() {
            new.keep();
        }
        Ok(report)
    }

    /// Refuses to go on with other rows than those that folds were trained on.
    fn check_data(&self, panel: &SharedPanel) -> Result<(), Error> {
        let is = &panel.panel().schema().fingerprint;
        for fold in folder::fold_folders(self.path()).iter().filter(|fold| run_dir::has_model(fold))
        {
            let was = read_contract(&run_dir::best_checkpoint(fold))?.schema.fingerprint;
            if was != *is {
                let (path, is) = (self.path().to_owned(), is.clone());
                return Err(Error::settings(BacktestError::OtherData { path, was, is }));
            }
        }
        Ok(())
    }

    /// Where the table of all forecasts goes.
    fn table(&self) -> Result<Output, Error> {
        match &self.backtest.note.output {
            Some(path) => output::named_file(path, self.path(), &self.backtest.settings().source),
            None => Ok(Output::file(self.path().join(DEFAULT_OUTPUT))?),
        }
    }

    /// Makes one table of the forecasts of all folds.
    fn combine(&self, contract: &Contract, files: &[FoldForecasts]) -> Result<Combined, Error> {
        if files.is_empty() {
            let path = self.path().to_owned();
            return Err(Error::new(ErrorKind::Data, BacktestError::NoForecast { path }));
        }
        Ok(combine_folds(contract, files, self.table()?)?)
    }

    /// What the models of all folds forecast, and of what.
    fn contract(&self) -> Result<Contract, Error> {
        let first = self.path().join(folder::fold_name(1));
        Ok(read_contract(&run_dir::best_checkpoint(&first))?)
    }
}

/// The files of forecasts of these folds, as far as there are any.
fn forecasts(plans: &[FoldPlan], path: &Path) -> Vec<FoldForecasts> {
    let files = plans.iter().map(|FoldPlan { number: fold, .. }| {
        let path = path.join(folder::fold_name(*fold)).join(DEFAULT_OUTPUT);
        FoldForecasts { fold: *fold, path }
    });
    files.filter(|file| file.path.is_file()).collect()
}

/// How a backtest that was interrupted is gone on with.
#[must_use]
pub fn resume_command(backtest: &Path) -> String {
    format!("millstream backtest --resume {}", shell_word(backtest))
}
