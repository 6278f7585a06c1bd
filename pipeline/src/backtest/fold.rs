//! What one fold of a backtest does: it trains, as far as it has not, and forecasts its test part into
//! its folder.

use super::{FoldReport, Refit, folder::fold_name, folds::FoldPlan};
use crate::{
    error::{Error, ErrorKind},
    forecast::{Asked, DEFAULT_OUTPUT, predict_run},
    run_dir::{self, RunDirError},
    settings::{Overrides, Settings},
    shared_panel::SharedPanel,
    training::{FoldOfBacktest, Training},
    watch::Watch,
};
use millstream_data::make_folder;
use millstream_trainer::clear_leftovers;
use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// What the folds of a backtest share.
pub(crate) struct Folds<'a> {
    /// The backtest's folder.
    pub(crate) path: &'a Path,
    pub(crate) settings: &'a Settings,
    pub(crate) refit: Refit,
    pub(crate) panel: &'a SharedPanel,
    pub(crate) watch: &'a Watch,
}

impl Folds<'_> {
    /// Runs a fold, or what is left of it; `None` when it was cut short.
    pub(crate) fn run(&self, plan: &FoldPlan) -> Result<Option<FoldReport>, Error> {
        let (watch, folder) = (self.watch.of_fold(plan.number), self.folder(plan.number));
        clear_leftovers(&folder);
        let model = match self.refit {
            Refit::Once => 1,
            _ => plan.number,
        };
        if model == plan.number && !self.train(plan, &watch)? {
            return Ok(None);
        }
        if !folder.join(DEFAULT_OUTPUT).is_file() && !self.forecast(plan, model, &watch)? {
            return Ok(None);
        }
        run_dir::keep_warnings(&folder, watch.warnings())?;
        FoldReport::read(plan, model, &folder).map(Some)
    }

    fn folder(&self, fold: usize) -> PathBuf {
        self.path.join(fold_name(fold))
    }

    /// Whether the fold has come to its end, now or before.
    fn train(&self, plan: &FoldPlan, watch: &Watch) -> Result<bool, Error> {
        let folder = self.folder(plan.number);
        if run_dir::has_final_report(&folder) && run_dir::has_model(&folder) {
            return Ok(true);
        }
        let training = if run_dir::can_go_on(&folder) {
            Training::resume(&folder, &Overrides::default())?
        } else {
            remove_unsaved(&folder)?;
            Training::new(self.settings_of(plan.number))?
        };
        let before = (self.refit == Refit::WarmStart && plan.number > 1)
            .then(|| self.folder(plan.number - 1));
        let training = training.in_backtest(FoldOfBacktest {
            number: plan.number,
            panel: self.panel.clone(),
            first_weights: before,
        });
        let trained = training.start()?.train(watch)?;
        Ok(!trained.report().interrupted)
    }

    /// The settings of a run that is this fold alone, in the backtest's folder.
    fn settings_of(&self, fold: usize) -> Settings {
        let mut settings = self.settings.clone();
        settings.split.fold = NonZeroUsize::new(fold).unwrap_or(NonZeroUsize::MIN);
        settings.run.dir = self.path.to_owned();
        settings
    }

    /// Whether the forecasts were not cut short. Where there is nothing to forecast, that is a warning.
    fn forecast(&self, plan: &FoldPlan, model: usize, watch: &Watch) -> Result<bool, Error> {
        let folder = self.folder(plan.number);
        make_folder(&folder).map_err(|source| unwritable(&folder, source))?;
        let output = folder.join(DEFAULT_OUTPUT);
        let of_another = (model != plan.number).then_some(plan.test_span);
        let asked = Asked::of_fold(self.panel, of_another, &output);
        match predict_run(&self.folder(model), self.settings_of(model), &asked, watch) {
            Ok(predicted) => Ok(!predicted.interrupted),
            Err(error) if error.is_nothing_to_forecast() => {
                watch.warnings().warn(error.to_string());
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

/// Removes what a fold left that was stopped before it saved anything.
fn remove_unsaved(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(source) if folder.exists() => Err(unwritable(folder, source)),
        _ => Ok(()),
    }
}

fn unwritable(folder: &Path, source: std::io::Error) -> Error {
    Error::new(ErrorKind::Other, RunDirError::Write { path: folder.to_owned(), source })
}
