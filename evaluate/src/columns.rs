//! Which column of a table is what: [`Columns`], and what a person says of it, [`ColumnNames`]. How they are
//! found is in `column_search.rs`. No values are looked at.

use crate::error::EvaluateError;
use millstream_data::{MEDIAN, list_names};
use serde::Serialize;
use std::fmt;

/// Names that a message lists.
const LISTED: usize = 12;

/// What a column can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The series.
    Series,
    /// When the forecast was made.
    Time,
    /// When what is forecast comes.
    TargetTime,
    /// How many rows ahead.
    Step,
    /// The fold of a backtest.
    Fold,
    /// What was said.
    Forecast,
    /// What came.
    Actual,
}

impl Role {
    /// The flag that names such a column.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Role::Series => "series",
            Role::Time => "time",
            Role::TargetTime => "target-time",
            Role::Step => "step",
            Role::Fold => "fold",
            Role::Forecast => "forecast",
            Role::Actual => "actual",
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Role::Series => "the series",
            Role::Time => "the time of a forecast",
            Role::TargetTime => "the time that is forecast",
            Role::Step => "the step",
            Role::Fold => "the fold",
            Role::Forecast => "the forecast",
            Role::Actual => "the outcome",
        }
    }
}

/// Which column is what, as far as a person says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    /// The series.
    pub series: Option<String>,
    /// When the forecast was made.
    pub time: Option<String>,
    /// When what is forecast comes.
    pub target_time: Option<String>,
    /// How many rows ahead.
    pub step: Option<String>,
    /// The fold of a backtest.
    pub fold: Option<String>,
    /// What was said.
    pub forecast: Option<String>,
    /// What came.
    pub actual: Option<String>,
}

/// Which column of a table is what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Columns {
    /// The series; `None` where all rows are one.
    pub series: Option<String>,
    /// When the forecast was made.
    pub time: String,
    /// When what is forecast comes.
    pub target_time: Option<String>,
    /// How many rows ahead; without it, counted by the times that are forecast, or 1.
    pub step: Option<String>,
    /// The fold of a backtest.
    pub fold: Option<String>,
    /// Whether the table is one of ours, by the names of its columns.
    pub ours: bool,
    /// What is forecast.
    pub targets: Vec<JudgedColumns>,
    /// Columns that are called like parts of forecasts, and are not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
}

/// The columns of one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedColumns {
    /// What came; its name is the target's.
    pub outcome: String,
    /// What was said.
    pub forecast: String,
    /// Whether that is a score, which orders the series of a time and has no unit.
    pub score: bool,
    /// Quantiles, rising.
    pub quantiles: Vec<QuantileColumn>,
    /// Intervals, by rising level.
    pub intervals: Vec<IntervalColumns>,
}

/// The column of a quantile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuantileColumn {
    /// Which one, between 0 and 1.
    pub quantile: f64,
    /// Its name.
    pub column: String,
}

/// The columns of an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IntervalColumns {
    /// The share of outcomes that should lie in it.
    pub level: f64,
    /// Its lower bound.
    pub lower: String,
    /// Its upper bound.
    pub upper: String,
}

impl Columns {
    /// The columns that are read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let keys = [&self.series, &self.target_time, &self.step, &self.fold];
        let keys = keys.into_iter().flatten().map(String::as_str);
        let targets = self.targets.iter().flat_map(JudgedColumns::names);
        keys.chain(std::iter::once(self.time.as_str())).chain(targets)
    }

    fn roles(&self) -> impl Iterator<Item = (Role, &str)> {
        let keys = [
            (Role::Series, self.series.as_deref()),
            (Role::Time, Some(self.time.as_str())),
            (Role::TargetTime, self.target_time.as_deref()),
            (Role::Step, self.step.as_deref()),
            (Role::Fold, self.fold.as_deref()),
        ];
        let keys = keys.into_iter().filter_map(|(role, name)| Some((role, name?)));
        let targets = self.targets.iter().flat_map(|target| {
            [(Role::Forecast, target.forecast.as_str()), (Role::Actual, target.outcome.as_str())]
        });
        keys.chain(targets)
    }

    /// What a person should know of columns that are not read.
    pub(crate) fn unused_warning(&self) -> Option<String> {
        let names = || list_names(&self.unused, LISTED);
        (!self.unused.is_empty())
            .then(|| format!("columns that look like parts of forecasts are not read: {}", names()))
    }

    pub(crate) fn check_apart(&self, names: &[String]) -> Result<(), EvaluateError> {
        let roles: Vec<_> = self.roles().collect();
        for (role, name) in &roles {
            let alike: Vec<String> = names.iter().filter(|known| known == name).cloned().collect();
            if alike.len() > 1 {
                return Err(EvaluateError::Ambiguous { role: *role, columns: alike });
            }
        }
        for (at, (role, name)) in roles.iter().enumerate() {
            if let Some((other, _)) = roles[..at].iter().find(|(_, other)| other == name) {
                let (column, roles) = ((*name).to_owned(), (*other, *role));
                return Err(EvaluateError::OneForTwo { column, roles });
            }
        }
        Ok(())
    }
}

/// What was taken for what, in a line.
impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.series {
            Some(series) => write!(f, "series {series}, ")?,
            None => write!(f, "one series, ")?,
        }
        write!(f, "time {}", self.time)?;
        let more = [
            ("time that is forecast", &self.target_time),
            ("step", &self.step),
            ("fold", &self.fold),
        ];
        for (what, name) in more {
            if let Some(name) = name {
                write!(f, ", {what} {name}")?;
            }
        }
        match (&self.step, &self.target_time) {
            (None, Some(ahead)) => write!(f, ", steps counted by {ahead}")?,
            (None, None) => write!(f, ", all of step 1")?,
            (Some(_), _) => {}
        }
        for target in &self.targets {
            let what = if target.score { "score" } else { "forecast" };
            write!(f, "; {what} {} of {}", target.forecast, target.outcome)?;
            let counts =
                [(target.quantiles.len(), "quantile"), (target.intervals.len(), "interval")];
            for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
                write!(f, ", {count} {what}{}", if count == 1 { "" } else { "s" })?;
            }
            if target.quantiles.iter().any(|quantile| quantile.column == target.forecast) {
                let forecast = &target.forecast;
                write!(
                    f,
                    ", of which {MEDIAN} is {forecast} itself (not with --forecast {forecast})"
                )?;
            }
        }
        Ok(())
    }
}

impl JudgedColumns {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let said = [self.outcome.as_str(), self.forecast.as_str()].into_iter();
        let quantiles = self.quantiles.iter().map(|quantile| quantile.column.as_str());
        let bounds = self.intervals.iter();
        let bounds = bounds.flat_map(|interval| [interval.lower.as_str(), interval.upper.as_str()]);
        // The median is the forecast, where that is one of the quantiles.
        said.chain(quantiles.filter(|name| *name != self.forecast)).chain(bounds)
    }
}
