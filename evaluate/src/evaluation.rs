//! [`Evaluation`]: what was found of a table of forecasts, and the settings that it is asked by.

use crate::{
    columns::Columns,
    error::EvaluateError,
    figures::{Figures, OverFolds},
    forecasts::Forecasts,
    grouping::Grouping,
    history::History,
    judge,
    references::NaiveForecaster,
};
use arrow::array::RecordBatch;
use serde::Serialize;
use std::num::NonZeroUsize;

/// What a direction is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The value itself, which is a change.
    Sign,
    /// The change of the value, which is a level, since it was last known.
    Change,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvaluateSettings {
    /// By what figures are taken besides those of all rows. Folds are, wherever a table has them.
    pub by: Vec<Grouping>,
    /// What directions are of; without it by the names of the targets, `…_return` and `…_direction` being
    /// changes.
    pub direction: Option<Direction>,
    /// How many rows a season has: for a seasonal naive forecast, and for the scale of `mase`, which goes by
    /// the row before without it.
    pub season: Option<NonZeroUsize>,
    /// Of a table of ours, judge also windows of which some steps or targets are still to come. Training does
    /// not; of other tables it is always so.
    pub partial: bool,
}

/// By step, target and fold.
impl Default for EvaluateSettings {
    fn default() -> Self {
        EvaluateSettings {
            by: vec![Grouping::Step, Grouping::Target],
            direction: None,
            season: None,
            partial: false,
        }
    }
}

/// How good the forecasts of a table are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Rows of the table.
    pub rows: u64,
    /// Rows without an outcome, of which there are no figures.
    pub without_outcome: u64,
    /// Rows with an outcome that are not judged, as other steps or targets of their window have none; of tables of
    /// ours, unless [`EvaluateSettings::partial`].
    pub unfinished: u64,
    /// Series.
    pub series: u64,
    /// Times at which forecasts were made.
    pub times: u64,
    /// Which column was taken for what.
    pub columns: Columns,
    /// Of all steps and targets.
    pub overall: Figures,
    /// Naive forecasts of the same rows.
    pub naive: Vec<Naive>,
    /// The figures of groups, as they were asked for.
    pub by: Vec<Grouped>,
    /// All folds together, where the table has a column of them.
    pub folds: Option<OverFolds>,
    /// The tenths of the forecasts of a time, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deciles: Option<Deciles>,
    /// How it was taken.
    pub notes: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// The figures of a naive forecast.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Naive {
    /// Who forecasts.
    pub forecaster: NaiveForecaster,
    /// Pairs of which it could not say anything: what it needs was not known.
    pub unknown: u64,
    /// Its figures, of the others.
    pub figures: Figures,
    /// The model's figures of these others, but for correlations, quantiles and intervals, where they are not
    /// all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Figures>,
}

/// The figures of all groups of a grouping.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grouped {
    /// What tells them apart.
    pub by: Grouping,
    /// In the order of what tells them apart.
    pub groups: Vec<Group>,
}

/// The figures of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// A step, a target, a series, a day, a month or a fold.
    pub group: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What came of the tenths of the forecasts of a time, step and target, from the lowest forecasts to the
/// highest. Equal forecasts share the mean of what came of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Deciles {
    /// Each tenth of each target: the mean over the times of what each has.
    pub overall: Vec<Decile>,
    /// Each tenth of each time, step and fold.
    pub by_time: Vec<DecileOfTime>,
    /// Times, steps and folds with fewer than ten series, which have none.
    pub too_few: u64,
}

/// A tenth of the forecasts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decile {
    /// The target.
    pub target: String,
    /// Which, from 1.
    pub decile: usize,
    /// Pairs.
    pub count: u64,
    /// Times, each of every step and fold, that this is the mean of.
    pub times: u64,
    /// Mean of what was said.
    pub mean_forecast: f64,
    /// Mean of what came.
    pub mean_outcome: f64,
}

/// A tenth of the forecasts of a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecileOfTime {
    /// When they were made.
    pub time: String,
    /// How many rows ahead.
    pub step: i32,
    /// In which fold, where there are folds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<i32>,
    /// The target.
    pub target: String,
    /// Which, from 1.
    pub decile: usize,
    /// Pairs.
    pub count: u64,
    /// Mean of what was said.
    pub mean_forecast: f64,
    /// Mean of what came.
    pub mean_outcome: f64,
}

impl Evaluation {
    /// The groups of a grouping, if they were asked for.
    #[must_use]
    pub fn groups(&self, by: Grouping) -> Option<&[Group]> {
        self.by.iter().find(|grouped| grouped.by == by).map(|grouped| grouped.groups.as_slice())
    }
}

impl Forecasts {
    /// How good the forecasts are.
    ///
    /// # Errors
    /// When a forecast is there twice, no row has an outcome, or groups are asked for that the table does not
    /// have.
    pub fn evaluate(
        &self,
        settings: &EvaluateSettings,
        history: Option<&History>,
    ) -> Result<Evaluation, EvaluateError> {
        judge::judge(self, settings, history)
    }
}

/// How good the forecasts of a table in memory are, which says by the names of its columns what they are.
///
/// # Errors
/// When it cannot be told which column is what, for rows that are no forecasts, and as
/// [`Forecasts::evaluate`] has it.
pub fn evaluate(
    batches: &[RecordBatch],
    settings: &EvaluateSettings,
) -> Result<Evaluation, EvaluateError> {
    let schema = batches.first().map(RecordBatch::schema);
    let names = schema.iter().flat_map(|schema| schema.fields().iter());
    let names: Vec<String> = names.map(|field| field.name().clone()).collect();
    let mut forecasts = Forecasts::new(&names, &Default::default())?;
    for batch in batches {
        forecasts.add(batch)?;
    }
    forecasts.evaluate(settings, None)
}
