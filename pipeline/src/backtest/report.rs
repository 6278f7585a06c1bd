//! [`BacktestReport`]: what all folds found, each by itself and together.

use super::{
    Refit,
    evaluation::evaluate,
    folds::{FoldPlan, Period},
};
use crate::{
    error::{Error, ErrorKind},
    memory::peak_rss_mb,
    report::{path_as_text, some_path_as_text},
    run_dir::{self, RunDirError},
    seeds::{Spread, spreads},
    watch::without_fold,
};
use millstream_data::{DataSchema, TargetKind, plain_file};
use millstream_evaluate::{EvaluateError, Evaluation};
use millstream_predictor::Combined;
use millstream_trainer::{Baseline, Figures};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What a backtest found.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct BacktestReport {
    /// The backtest's folder.
    #[serde(serialize_with = "path_as_text")]
    pub run: PathBuf,
    /// Whether it was cut short, to be resumed.
    pub interrupted: bool,
    /// Where the folds have their models from.
    pub refit: Refit,
    /// How many folds there are; [`folds`](Self::folds) has those that are done.
    pub of: usize,
    /// What of the targets is forecast: says what `directional_accuracy` counts.
    pub target_kind: TargetKind,
    /// Each fold by itself.
    pub folds: Vec<FoldReport>,
    /// Where the test figures of the folds lie, by name. A figure that some fold lacks is of the others.
    pub test: BTreeMap<String, Spread>,
    /// The same of naive forecasts of the same windows: `mean`, `last`, `season` and `ridge`.
    pub baseline: BTreeMap<&'static str, BTreeMap<String, Spread>>,
    /// How good the table of all forecasts is, in the units of the source: all rows, each fold, and mean and
    /// standard deviation of the folds. `None` when there is none yet.
    pub evaluation: Option<Evaluation>,
    /// Rows of the table of forecasts.
    pub rows: u64,
    /// Series in it.
    pub series: u64,
    /// The table of all forecasts; `None` when there is none yet.
    #[serde(serialize_with = "some_path_as_text")]
    pub output: Option<PathBuf>,
    /// What the folds' training took together.
    pub training_seconds: f64,
    /// From the start to the last of it.
    pub seconds: f64,
    /// The most memory that the process has had.
    pub peak_rss_mb: f64,
    /// What a person was warned of, with the folds that it is of.
    pub warnings: Vec<String>,
}

/// What one fold found.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct FoldReport {
    /// From 1.
    pub fold: usize,
    /// Its folder.
    #[serde(serialize_with = "path_as_text")]
    pub run: PathBuf,
    /// The fold whose model forecasts it.
    pub model_of: usize,
    /// What is learned from.
    pub train: Period,
    /// What is looked at after every epoch.
    pub validation: Option<Period>,
    /// What is tested and forecast.
    pub test_period: Period,
    /// Steps taken; 0 where nothing was trained.
    pub steps: u64,
    /// The epoch whose weights forecast.
    pub best_epoch: Option<u32>,
    /// Validation figures of the best epoch.
    pub validated: Option<Figures>,
    /// Test figures of the best epoch.
    pub test: Option<Figures>,
    /// What naive forecasts reach on the test windows.
    pub baseline: Baseline,
    /// Its rows of the table of forecasts.
    pub rows: u64,
    /// What its training took, the last part of it where it was interrupted.
    pub seconds: f64,
    /// What a person was warned of.
    pub warnings: Vec<String>,
    #[serde(skip)]
    target_kind: TargetKind,
}

/// What the report of a fold's run says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kept {
    steps: u64,
    best_epoch: Option<u32>,
    target_kind: TargetKind,
    validation: Option<Figures>,
    test: Option<Figures>,
    baseline: Baseline,
    seconds: f64,
}

impl FoldReport {
    /// Of a fold that is done, which has kept all of it in its folder.
    pub(super) fn read(plan: &FoldPlan, model_of: usize, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(run_dir::REPORT);
        let kept: Kept = match model_of == plan.number {
            false => Kept::default(),
            true => {
                let failed = |source| {
                    Error::new(ErrorKind::Other, RunDirError::Read { path: path.clone(), source })
                };
                let json = plain_file::read(&path).map_err(failed)?;
                serde_json::from_slice(&json).map_err(|error| failed(error.into()))?
            }
        };
        let warnings = plain_file::read(&folder.join("warnings.txt")).unwrap_or_default();
        let warnings = String::from_utf8_lossy(&warnings).lines().map(str::to_owned).collect();
        Ok(FoldReport {
            fold: plan.number,
            run: folder.to_owned(),
            model_of,
            train: plan.train.clone(),
            validation: plan.validation.clone(),
            test_period: plan.test.clone(),
            steps: kept.steps,
            best_epoch: kept.best_epoch,
            validated: kept.validation,
            test: kept.test,
            baseline: kept.baseline,
            rows: 0,
            seconds: kept.seconds,
            warnings,
            target_kind: kept.target_kind,
        })
    }
}

impl BacktestReport {
    /// Of these folds, those that are done of so many.
    pub(super) fn new(run: &Path, refit: Refit, of: usize, folds: Vec<FoldReport>) -> Self {
        type Naive = (&'static str, fn(&Baseline) -> Option<&Figures>);
        let naive: [Naive; 4] = [
            ("mean", |baseline| baseline.mean.as_ref()),
            ("last", |baseline| baseline.last.as_ref()),
            ("season", |baseline| baseline.season.as_ref()),
            ("ridge", |baseline| baseline.ridge.as_ref()),
        ];
        let baseline = naive.into_iter().filter_map(|(name, figures)| {
            let found = spreads(folds.iter().filter_map(|fold| figures(&fold.baseline)));
            (!found.is_empty()).then_some((name, found))
        });
        BacktestReport {
            run: run.to_owned(),
            refit,
            of,
            target_kind: folds.first().map(|fold| fold.target_kind).unwrap_or_default(),
            test: spreads(folds.iter().filter_map(|fold| fold.test.as_ref())),
            baseline: baseline.collect(),
            training_seconds: folds.iter().map(|fold| fold.seconds).sum(),
            folds,
            ..BacktestReport::default()
        }
    }

    /// Notes what the table of forecasts has.
    pub(super) fn add_forecasts(&mut self, combined: Combined, folds: &[usize]) {
        for (fold, rows) in folds.iter().zip(&combined.rows_by_fold) {
            if let Some(found) = self.folds.iter_mut().find(|found| found.fold == *fold) {
                found.rows = *rows;
            }
        }
        (self.rows, self.series, self.output) = (combined.rows, combined.series, combined.output);
    }

    /// Judges the table of forecasts, which models with this schema made. `None` where there is none.
    pub(super) fn evaluate(
        &mut self,
        schema: &DataSchema,
        season: usize,
    ) -> Option<Result<(), EvaluateError>> {
        let table = self.output.as_ref()?;
        Some(evaluate(table, schema, season).map(|found| self.evaluation = Some(found)))
    }

    /// Notes what is known at the end alone. `of_all` are the warnings that are of no fold, and some that
    /// are.
    pub(super) fn close(&mut self, of_all: &[String], seconds: f64) {
        self.warnings = warnings(of_all, &self.folds);
        self.warnings.extend(self.evaluation.iter().flat_map(|found| found.warnings.clone()));
        (self.seconds, self.peak_rss_mb) = (seconds, peak_rss_mb());
    }
}

/// Every warning once, with the folds that it is of.
fn warnings(of_all: &[String], folds: &[FoldReport]) -> Vec<String> {
    let mut lines: Vec<String> =
        of_all.iter().filter(|line| without_fold(line) == **line).cloned().collect();
    let mut of_folds: Vec<(&str, Vec<usize>)> = Vec::new();
    for fold in folds {
        for line in fold.warnings.iter().filter(|line| !of_all.contains(line)) {
            match of_folds.iter_mut().find(|(said, _)| said == line) {
                Some((_, folds)) => folds.push(fold.fold),
                None => of_folds.push((line, vec![fold.fold])),
            }
        }
    }
    lines.extend(of_folds.iter().map(|(line, folds)| format!("{}: {line}", named(folds))));
    lines
}

/// Folds in their order, as words.
fn named(folds: &[usize]) -> String {
    match folds {
        [] => String::new(),
        [fold] => format!("fold {fold}"),
        [first, .., last] if last - first + 1 == folds.len() => format!("folds {first} to {last}"),
        folds => {
            let numbers: Vec<String> = folds.iter().map(usize::to_string).collect();
            format!("folds {}", numbers.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_trainer::Metrics;

    fn fold(fold: usize, mse: f64, warnings: &[&str]) -> FoldReport {
        let overall = Metrics { mse: Some(mse), ..Metrics::default() };
        let figures = || Some(Figures { overall, ..Figures::default() });
        let mut report =
            FoldReport { fold, test: figures(), seconds: 2.0, ..FoldReport::default() };
        report.baseline.last = figures();
        report.warnings = warnings.iter().map(|line| (*line).to_owned()).collect();
        report
    }

    #[test]
    fn figures_are_of_all_folds_and_warnings_name_theirs() {
        let folds = vec![
            fold(1, 1.0, &["a column is constant", "odd", "all"]),
            fold(2, 3.0, &["all"]),
            fold(3, 5.0, &["odd", "all", "last"]),
        ];
        let mut report = BacktestReport::new(Path::new("b"), Refit::EveryFold, 4, folds);
        let expected = Spread { mean: 3.0, std: Some(2.0), count: 3 };
        assert_eq!(report.test["mse"], expected);
        assert_eq!(report.baseline["last"]["mse"], expected);
        assert_eq!((report.baseline.len(), report.training_seconds), (1, 6.0));
        let said = ["a column is constant".to_owned(), "fold 1: odd".to_owned()];
        report.close(&said, 7.0);
        let expected =
            ["a column is constant", "folds 1, 3: odd", "folds 1 to 3: all", "fold 3: last"];
        assert_eq!(report.warnings, expected);
    }
}
