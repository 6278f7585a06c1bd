//! [`Grouping`]: by what figures are taken, and which group each row is in.

use crate::{error::EvaluateError, forecasts::Forecasts, sections::Sections};
use millstream_data::{
    TimeKind,
    time::{DAY, days_from_civil},
};
use serde::Serialize;
use std::str::FromStr;

/// By what figures are taken besides those of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// How many rows ahead.
    Step,
    /// What is forecast.
    Target,
    /// The series.
    Series,
    /// The day on which the forecast was made; of plain numbers each is a day.
    Day,
    /// The month in which it was made.
    Month,
    /// The fold of a backtest.
    Fold,
    /// The tenth of the forecasts of its time, step and target, from the lowest.
    Decile,
}

impl Grouping {
    /// All there are.
    pub const ALL: [Grouping; 7] = [
        Grouping::Step,
        Grouping::Target,
        Grouping::Series,
        Grouping::Day,
        Grouping::Month,
        Grouping::Fold,
        Grouping::Decile,
    ];

    /// In a word, as `--by` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Step => "step",
            Grouping::Target => "target",
            Grouping::Series => "series",
            Grouping::Day => "day",
            Grouping::Month => "month",
            Grouping::Fold => "fold",
            Grouping::Decile => "decile",
        }
    }
}

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Grouping::ALL.into_iter().find(|grouping| grouping.name() == text);
        found.ok_or_else(|| {
            let names = Grouping::ALL.map(Grouping::name).join(", ");
            format!("expected one of {names}")
        })
    }
}

/// The groups of one grouping, and which of them each row is in.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) by: Grouping,
    pub(crate) labels: Vec<String>,
    /// By row; of targets there is none.
    of_row: Vec<u32>,
}

impl Groups {
    /// Of deciles there are none here: they are of pairs, and no row knows its own.
    pub(crate) fn new(
        by: Grouping,
        forecasts: &Forecasts,
        sections: &Sections,
    ) -> Result<Groups, EvaluateError> {
        let keys = &forecasts.keys;
        let kind = forecasts.time_kind.unwrap_or(TimeKind::Integer);
        let numbers =
            |all: &[i32]| -> Vec<String> { all.iter().map(ToString::to_string).collect() };
        let (labels, of_row) = match by {
            Grouping::Step => (numbers(&sections.steps), sections.step_of.clone()),
            Grouping::Target => {
                let targets = forecasts.columns.targets.iter();
                (targets.map(|target| target.outcome.clone()).collect(), Vec::new())
            }
            Grouping::Series => series(forecasts),
            Grouping::Day if kind == TimeKind::Integer => {
                spans(&keys.times, |time| time, |time| time.to_string())
            }
            Grouping::Day => {
                let label = |day: i64| TimeKind::Date.format(day.saturating_mul(DAY));
                spans(&keys.times, |time| time.div_euclid(DAY), label)
            }
            Grouping::Month if kind == TimeKind::Integer => {
                let what = "--by month: times that are plain numbers have no months";
                return Err(EvaluateError::NoGroups { what });
            }
            Grouping::Month => {
                let label = |day: i64| {
                    let date = TimeKind::Date.format(day.saturating_mul(DAY));
                    date.rsplit_once('-').map_or(date.clone(), |(month, _)| month.to_owned())
                };
                spans(&keys.times, first_of_month, label)
            }
            Grouping::Fold if sections.folds.is_empty() => {
                let what = "--by fold: the table has no column of folds; name it with --fold";
                return Err(EvaluateError::NoGroups { what });
            }
            Grouping::Fold => (numbers(&sections.folds), sections.fold_of.clone()),
            Grouping::Decile => (Vec::new(), Vec::new()),
        };
        Ok(Groups { by, labels, of_row })
    }

    pub(crate) fn of(&self, row: usize, target: usize) -> usize {
        match self.by {
            Grouping::Target => target,
            _ => self.of_row[row] as usize,
        }
    }
}

/// Series by their names.
fn series(forecasts: &Forecasts) -> (Vec<String>, Vec<u32>) {
    let mut codes: Vec<u32> = (0..forecasts.series.len() as u32).collect();
    codes.sort_by_key(|code| forecasts.series.name(*code));
    let mut place = vec![0; codes.len()];
    for (at, code) in codes.iter().enumerate() {
        place[*code as usize] = at as u32;
    }
    let labels = codes.iter().map(|code| forecasts.series.name(*code).to_owned()).collect();
    (labels, forecasts.keys.series.iter().map(|code| place[*code as usize]).collect())
}

/// Rows by something of their times, rising.
fn spans(
    times: &[i64],
    of: impl Fn(i64) -> i64,
    label: impl Fn(i64) -> String,
) -> (Vec<String>, Vec<u32>) {
    let mut distinct = times.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut spans: Vec<i64> = Vec::new();
    let place = |time: &i64| {
        let span = of(*time);
        if spans.last() != Some(&span) {
            spans.push(span);
        }
        spans.len() as u32 - 1
    };
    let of_time: Vec<u32> = distinct.iter().map(place).collect();
    let of_row = times.iter().map(|time| of_time[distinct.partition_point(|t| t < time)]);
    let of_row = of_row.collect();
    (spans.into_iter().map(label).collect(), of_row)
}

/// The first day of the month of a time, in days since 1970.
fn first_of_month(time: i64) -> i64 {
    let date = TimeKind::Date.format(time.div_euclid(DAY) * DAY);
    let mut parts = date.rsplitn(3, '-');
    let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok());
    let (_, month, year) = (number(), number(), number());
    // What has no date, a hundred thousand years from now, is a month of its own.
    let first = year.zip(month).map(|(year, month)| days_from_civil(year, month, 1));
    first.unwrap_or_else(|| time.div_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::ColumnNames,
        test_tables::{batch, names},
    };

    fn groups(by: Grouping, text: &str) -> Result<(Vec<String>, Vec<u32>), String> {
        let rows = batch(text);
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        forecasts.add(&rows).unwrap();
        let sections = Sections::new(&forecasts).unwrap();
        let found = Groups::new(by, &forecasts, &sections).map_err(|error| error.to_string())?;
        Ok((found.labels, found.of_row))
    }

    #[test]
    fn days_and_months_are_those_of_the_time() {
        let text = "date,pred,y\n2020-02-29 23:00:00,1,1\n2020-02-01,1,1\n2020-02-29,1,1\n\
                    2019-12-31,1,1\n";
        let strings = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (labels, of_row) = groups(Grouping::Day, text).unwrap();
        assert_eq!(labels, strings(&["2019-12-31", "2020-02-01", "2020-02-29"]));
        assert_eq!(of_row, [2, 1, 2, 0]);
        let (labels, of_row) = groups(Grouping::Month, text).unwrap();
        assert_eq!((labels, of_row), (strings(&["2019-12", "2020-02"]), vec![1, 1, 1, 0]));
    }

    #[test]
    fn what_the_table_does_not_have_is_said() {
        let text = "date,pred,y\n7,1,1\n5,1,1\n";
        let (labels, of_row) = groups(Grouping::Day, text).unwrap();
        assert_eq!((labels[0].as_str(), of_row), ("5", vec![1, 0]));
        let error = groups(Grouping::Month, text).unwrap_err();
        assert!(error.contains("plain numbers have no months"), "{error}");
        let error = groups(Grouping::Fold, text).unwrap_err();
        assert!(error.contains("no column of folds"), "{error}");
    }

    #[test]
    fn series_are_in_the_order_of_their_names() {
        let (labels, of_row) =
            groups(Grouping::Series, "id,date,pred,y\nb,1,1,1\na,1,1,1\n").unwrap();
        assert_eq!((labels.join(","), of_row), ("a,b".to_owned(), vec![1, 0]));
    }

    #[test]
    fn groupings_are_read_by_their_names() {
        for grouping in Grouping::ALL {
            assert_eq!(grouping.name().parse(), Ok(grouping));
        }
        let error = "week".parse::<Grouping>().unwrap_err();
        assert!(error.contains("step, target, series, day, month, fold, decile"), "{error}");
    }
}
