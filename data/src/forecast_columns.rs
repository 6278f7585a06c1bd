//! [`ForecastColumns`]: what the columns of a table of forecasts are called.
//!
//! Known before a model is trained, so that names that clash are refused then and not by the first
//! prediction. A column is named for what it holds: the return of `close` is not `close`, but a
//! difference is given back as the level it leads to.

use crate::{
    heads::{Heads, MEDIAN},
    plan::{DataSchema, TargetKind},
    scaling::CrossSection,
};
use std::collections::HashSet;

/// The names of a table of forecasts, a row per window and step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastColumns {
    /// The series; `None` when there is only one.
    pub series: Option<String>,
    /// The moment the forecast is made: the time of the window's last row.
    pub time: String,
    /// How many rows ahead.
    pub step: String,
    /// The time that is forecast, where the source has such a row.
    pub target_time: String,
    /// For each target what is said of it, and the outcome.
    pub targets: Vec<TargetColumns>,
}

/// The columns of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumns {
    /// What the model says; with quantiles, the median. One whose outputs are scores has no forecast in
    /// units, and the column then is called a score.
    pub forecast: String,
    /// What it says of the other quantiles, rising.
    pub quantiles: Vec<String>,
    /// The ends of the intervals that were asked for, by level.
    pub intervals: Vec<IntervalColumns>,
    /// What came, where it is known.
    pub outcome: String,
}

/// The columns of an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalColumns {
    /// Its lower end.
    pub lower: String,
    /// Its upper end.
    pub upper: String,
}

/// Two columns of the forecasts would have the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the forecasts would have two columns named {name:?}; name every target once, and rename a column of the source that is called like one of the forecasts"
)]
pub struct SameName {
    /// The name.
    pub name: String,
}

impl ForecastColumns {
    /// The columns of a model's forecasts. `cross_section` is that of its targets, `heads` are what its
    /// outputs stand for.
    ///
    /// # Errors
    /// [`SameName`] with the first name that stands for two columns.
    pub fn of(
        schema: &DataSchema,
        cross_section: CrossSection,
        heads: &Heads,
    ) -> Result<Self, SameName> {
        let said = if heads.have_units() { "forecast" } else { "score" };
        let targets = schema.targets.iter().map(|target| {
            let outcome = format!("{target}{}", suffix(schema.target_kind, cross_section));
            let others = heads.quantiles().iter().filter(|quantile| **quantile != MEDIAN);
            let quantiles = others.map(|quantile| format!("{outcome}_q{quantile}")).collect();
            let forecast = format!("{outcome}_{said}");
            TargetColumns { forecast, quantiles, intervals: Vec::new(), outcome }
        });
        let columns = ForecastColumns {
            series: schema.series_column.clone(),
            time: schema.time_column.clone(),
            step: "step".to_owned(),
            target_time: "target_time".to_owned(),
            targets: targets.collect(),
        };
        columns.each_once()
    }

    /// The same with intervals of these levels.
    ///
    /// # Errors
    /// As for [`of`](ForecastColumns::of).
    pub fn with_intervals(mut self, levels: &[f64]) -> Result<Self, SameName> {
        for target in &mut self.targets {
            let outcome = &target.outcome;
            let interval = |level: &f64| IntervalColumns {
                lower: format!("{outcome}_lower_{level}"),
                upper: format!("{outcome}_upper_{level}"),
            };
            target.intervals = levels.iter().map(interval).collect();
        }
        self.each_once()
    }

    fn each_once(self) -> Result<Self, SameName> {
        let mut seen = HashSet::new();
        let twice = self.names().find(|name| !seen.insert(*name)).map(str::to_owned);
        twice.map_or(Ok(self), |name| Err(SameName { name }))
    }

    /// All names, in the order of the table.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let keys = [&self.time, &self.step, &self.target_time];
        let targets = self.targets.iter().flat_map(TargetColumns::names);
        self.series.iter().chain(keys).chain(targets).map(String::as_str)
    }
}

/// Whether a column is called like one that a model or its intervals fill, of whatever target.
#[must_use]
pub fn is_said_by_a_model(column: &str) -> bool {
    let numbered = ["_q", "_lower_", "_upper_"].into_iter().any(|mark| {
        let number = column.rsplit_once(mark).map(|(_, number)| number);
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    });
    numbered || column.ends_with("_forecast") || column.ends_with("_score")
}

/// What a table of forecasts holds for a target of kind [`TargetKind::Difference`]: the level that it was
/// last known to have and the change that is forecast.
#[must_use]
pub fn level_after(last_known: f32, change: f64) -> f32 {
    (f64::from(last_known) + change) as f32
}

impl TargetColumns {
    /// In the order of the table.
    fn names(&self) -> impl Iterator<Item = &String> {
        let said = std::iter::once(&self.forecast).chain(&self.quantiles);
        let intervals = self.intervals.iter().flat_map(|ends| [&ends.lower, &ends.upper]);
        said.chain(intervals).chain(std::iter::once(&self.outcome))
    }
}

fn suffix(kind: TargetKind, cross_section: CrossSection) -> String {
    let kind = match kind {
        TargetKind::Value | TargetKind::Difference => "",
        TargetKind::Return => "_return",
        TargetKind::Direction => "_direction",
    };
    let cross_section = match cross_section {
        CrossSection::None => "",
        CrossSection::Rank => "_rank",
        CrossSection::Zscore => "_zscore",
    };
    format!("{kind}{cross_section}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(series: &str, time: &str, targets: &[&str]) -> DataSchema {
        DataSchema {
            series_column: Some(series.into()),
            time_column: time.into(),
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            ..DataSchema::default()
        }
    }

    #[test]
    fn a_column_is_named_for_what_it_holds() {
        let check = |target_kind, cross_section, expected: [&str; 2]| {
            let schema = DataSchema { target_kind, ..schema("symbol", "day", &["close"]) };
            let columns = ForecastColumns::of(&schema, cross_section, &Heads::Value).unwrap();
            let names: Vec<&str> = columns.names().collect();
            assert_eq!(names[..4], ["symbol", "day", "step", "target_time"]);
            assert_eq!(names[4..], expected);
        };
        check(TargetKind::Value, CrossSection::None, ["close_forecast", "close"]);
        check(TargetKind::Difference, CrossSection::None, ["close_forecast", "close"]);
        check(TargetKind::Return, CrossSection::None, ["close_return_forecast", "close_return"]);
        check(
            TargetKind::Direction,
            CrossSection::None,
            ["close_direction_forecast", "close_direction"],
        );
        check(
            TargetKind::Return,
            CrossSection::Rank,
            ["close_return_rank_forecast", "close_return_rank"],
        );
    }

    #[test]
    fn what_a_model_says_is_named_after_its_heads() {
        let check = |heads: Heads, kind, expected: &[&str]| {
            let schema = DataSchema { target_kind: kind, ..schema("symbol", "day", &["close"]) };
            let columns = ForecastColumns::of(&schema, CrossSection::None, &heads).unwrap();
            let names: Vec<&str> = columns.names().collect();
            assert_eq!(names[4..], *expected);
        };
        let quantiles = |of: &[f64]| Heads::Quantiles(of.to_vec());
        let expected = ["close_forecast", "close_q0.1", "close_q0.975", "close"];
        check(quantiles(&[0.1, 0.5, 0.975]), TargetKind::Value, &expected);
        check(quantiles(&[0.5]), TargetKind::Value, &["close_forecast", "close"]);
        let direction = ["close_direction_forecast", "close_direction"];
        check(Heads::Logit, TargetKind::Direction, &direction);
        check(Heads::Score, TargetKind::Return, &["close_return_score", "close_return"]);
        let schema = schema("symbol", "day", &["y", "y_q0.1"]);
        let heads = quantiles(&[0.1, 0.5]);
        let found = ForecastColumns::of(&schema, CrossSection::None, &heads).unwrap_err();
        assert_eq!(found.name, "y_q0.1");
    }

    #[test]
    fn intervals_are_named_after_their_level() {
        let schema = schema("symbol", "day", &["y"]);
        let of = || ForecastColumns::of(&schema, CrossSection::Rank, &Heads::Value).unwrap();
        let columns = of().with_intervals(&[0.5, 0.95]).unwrap();
        let names: Vec<&str> = columns.names().skip(4).collect();
        let expected = [
            "y_rank_forecast",
            "y_rank_lower_0.5",
            "y_rank_upper_0.5",
            "y_rank_lower_0.95",
            "y_rank_upper_0.95",
            "y_rank",
        ];
        assert_eq!(names, expected);
        let twice = of().with_intervals(&[0.5, 0.5]).unwrap_err();
        assert_eq!(twice.name, "y_rank_lower_0.5");
    }

    #[test]
    fn names_that_clash_are_refused() {
        let check = |series, time, targets: &[&str], name: &str| {
            let schema = schema(series, time, targets);
            let found = ForecastColumns::of(&schema, CrossSection::None, &Heads::Value);
            let found = found.unwrap_err();
            assert_eq!(found.name, name);
        };
        check("symbol", "step", &["y"], "step");
        check("y_forecast", "day", &["y"], "y_forecast");
        check("symbol", "day", &["y", "y"], "y_forecast");
        check("symbol", "day", &["y", "y_forecast"], "y_forecast");
        check("symbol", "target_time", &["y"], "target_time");
    }
}
