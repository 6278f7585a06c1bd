//! The folds of a backtest: where their parts lie in time, looked at before anything is trained.

use super::Refit;
use crate::{error::Error, settings::Settings, shared_panel::SharedPanel, watch::FoldProgress};
use millstream_data::{PanelSchema, Shard};
use millstream_normalize::{Span, Split};
use millstream_predictor::FOLD_COLUMN;
use serde::Serialize;

/// A part of the time, as people write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Period {
    /// The first time in it.
    pub from: String,
    /// The first time after it; `None` where it goes on as far as the data does.
    pub until: Option<String>,
}

/// One fold.
#[derive(Debug, Clone)]
pub(crate) struct FoldPlan {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) train: Period,
    /// `None` where nothing is validated.
    pub(crate) validation: Option<Period>,
    pub(crate) test: Period,
    /// The times of the test part.
    pub(crate) test_span: Span,
    /// About what share of all training comes before it, and is its own.
    before: f64,
    share: f64,
}

#[derive(Debug, thiserror::Error)]
enum FoldError {
    #[error(
        "fold {fold}: split.embargo = {embargo} leaves nothing of its {part} part; use a smaller embargo{}", if *.part == "test" { " or fewer folds" } else { " or a larger split.validation" }
    )]
    Eaten { fold: usize, embargo: usize, part: &'static str },
    #[error(
        "column {:?} of the source is called like the column of the forecasts that says of which fold they are; rename it",
        FOLD_COLUMN
    )]
    Name,
}

impl FoldPlan {
    /// Where a backtest of so many folds is when this begins.
    pub(crate) fn progress(&self, of: usize) -> FoldProgress {
        FoldProgress { fold: self.number, of, before: self.before, share: self.share }
    }
}

/// The folds that these settings make of a panel, in order.
///
/// # Errors
/// There are more of them than times, a part of one is empty, or a column is in the way.
pub(crate) fn plan(
    panel: &SharedPanel,
    settings: &Settings,
    refit: Refit,
) -> Result<Vec<FoldPlan>, Error> {
    let panel = panel.panel();
    let schema = panel.schema();
    check_names(schema, settings)?;
    let split = &settings.split;
    let parts = Split::walk_forward(panel, split)?;
    for (part, fold) in parts.iter().zip(1..) {
        let is_empty = |span: Span| span.from >= span.until;
        let eaten =
            |part| Err(Error::settings(FoldError::Eaten { fold, embargo: split.embargo, part }));
        if split.validation > 0.0 && split.embargo > 0 && is_empty(part.validation.span) {
            return eaten("validation");
        }
        if is_empty(part.test.span) {
            return eaten("test");
        }
    }
    let first = panel.shards().iter().flat_map(Shard::times).min().copied().unwrap_or(0);
    let period = |span: Span| {
        let format = |time: i64| schema.format_time(time);
        let until = (span.until != i64::MAX).then(|| format(span.until));
        Period { from: format(span.from.max(first)), until }
    };
    // How long training takes goes by how long the time is that is learned from.
    let length = |at: usize, span: Span| match refit {
        Refit::Once if at > 0 => 0.0,
        _ => span.until.saturating_sub(span.from.max(first)) as f64,
    };
    let lengths: Vec<f64> =
        parts.iter().enumerate().map(|(at, part)| length(at, part.train().part().span)).collect();
    let all: f64 = lengths.iter().sum();
    let folds = parts.iter().enumerate().map(|(at, part)| FoldPlan {
        number: at + 1,
        train: period(part.train().part().span),
        validation: (part.validation.span.from < part.validation.span.until)
            .then(|| period(part.validation.span)),
        test: period(part.test.span),
        test_span: part.test.span,
        before: lengths[..at].iter().sum::<f64>() / all,
        share: lengths[at] / all,
    });
    Ok(folds.collect())
}

/// Refuses a source whose forecasts would have a column of the same name as the fold's.
fn check_names(panel: &PanelSchema, settings: &Settings) -> Result<(), Error> {
    // A target that is not there is for normalize to say.
    let targets = panel.find_columns(&settings.target.columns).unwrap_or_default();
    let mut names = targets.iter().map(|at| panel.columns[*at].as_str());
    let is_taken = panel.time_column == FOLD_COLUMN
        || panel.series_column.as_deref() == Some(FOLD_COLUMN)
        || names.any(|name| name == FOLD_COLUMN);
    if is_taken { Err(Error::settings(FoldError::Name)) } else { Ok(()) }
}
