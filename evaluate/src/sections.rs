//! [`Sections`]: the rows in the order of their keys, cut where step, fold or time change. A section is what
//! is forecast at one time, one step ahead: the cross-section that correlations are taken over.

use crate::{
    columns::Columns,
    error::EvaluateError,
    forecasts::{Forecasts, Keys, NO_TIME},
};
use millstream_data::TimeKind;
use std::{collections::BTreeSet, ops::Range};

/// The rows of a table, by what they forecast.
#[derive(Debug)]
pub(crate) struct Sections {
    /// All steps, rising.
    pub(crate) steps: Vec<i32>,
    /// All folds, rising; empty where the table has none.
    pub(crate) folds: Vec<i32>,
    /// Which of the steps each row is.
    pub(crate) step_of: Vec<u32>,
    /// Which of the folds each row is in; empty where the table has none.
    pub(crate) fold_of: Vec<u32>,
    /// Rows by step, fold, time and series.
    pub(crate) order: Vec<u32>,
    /// Where in `order` each section is.
    pub(crate) sections: Vec<Section>,
}

/// What is forecast at one time, one step ahead, in one fold.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Which of the steps.
    pub(crate) step: u32,
    pub(crate) time: i64,
    pub(crate) rows: Range<usize>,
}

/// Step, fold, time, series, row: in memory side by side, as they are sorted.
type SortKey = (i32, i32, i64, u32, u32);

impl Sections {
    /// # Errors
    /// [`EvaluateError::Twice`] for the first forecast that is there twice.
    pub(crate) fn new(forecasts: &Forecasts) -> Result<Sections, EvaluateError> {
        let Keys { series, times, steps, folds, .. } = &forecasts.keys;
        let counted;
        let steps = match forecasts.columns.step {
            Some(_) => steps,
            None => {
                counted = counted_steps(&forecasts.columns, &forecasts.keys);
                &counted
            }
        };
        let fold = |row: usize| folds.get(row).copied().unwrap_or_default();
        let mut sorted: Vec<SortKey> = (0..times.len())
            .map(|row| (steps[row], fold(row), times[row], series[row], row as u32))
            .collect();
        sorted.sort_unstable();
        check_twice(forecasts, &sorted)?;
        let mut sections = Vec::new();
        let mut start = 0;
        let found: Vec<i32> = distinct(steps);
        let place = |all: &[i32], of: i32| all.partition_point(|known| *known < of) as u32;
        for group in sorted.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
            let rows = start..start + group.len();
            start = rows.end;
            let (step, _, time, ..) = group[0];
            sections.push(Section { step: place(&found, step), time, rows });
        }
        let all_folds = distinct(folds);
        Ok(Sections {
            step_of: steps.iter().map(|step| place(&found, *step)).collect(),
            fold_of: folds.iter().map(|fold| place(&all_folds, *fold)).collect(),
            order: sorted.iter().map(|key| key.4).collect(),
            steps: found,
            folds: all_folds,
            sections,
        })
    }

    /// The rows of a section.
    pub(crate) fn rows(&self, section: &Section) -> impl Iterator<Item = usize> + Clone {
        self.order[section.rows.clone()].iter().map(|row| *row as usize)
    }
}

fn distinct(numbers: &[i32]) -> Vec<i32> {
    numbers.iter().copied().collect::<BTreeSet<i32>>().into_iter().collect()
}

/// The steps of rows that do not say them: their places among the forecasts made at a time of a series, if
/// the times that are forecast are known, and else 1.
fn counted_steps(columns: &Columns, keys: &Keys) -> Vec<i32> {
    let mut steps = vec![1; keys.times.len()];
    if columns.target_time.is_none() {
        return steps;
    }
    let fold = |row: usize| keys.folds.get(row).copied().unwrap_or_default();
    let made = |row: usize| (keys.series[row], fold(row), keys.times[row]);
    let mut order: Vec<usize> = (0..keys.times.len()).collect();
    order.sort_by_key(|&row| (made(row), keys.target_times[row]));
    for pair in order.windows(2) {
        let (before, row) = (pair[0], pair[1]);
        if made(before) == made(row) {
            let again = keys.target_times[before] == keys.target_times[row];
            steps[row] = steps[before] + i32::from(!again);
        }
    }
    steps
}

fn check_twice(forecasts: &Forecasts, sorted: &[SortKey]) -> Result<(), EvaluateError> {
    let same = |pair: &&[SortKey]| {
        let (a, b) = (pair[0], pair[1]);
        (a.0, a.1, a.2, a.3) == (b.0, b.1, b.2, b.3)
    };
    let twice = sorted.windows(2).filter(same).min_by_key(|pair| pair[1].4);
    let Some(pair) = twice else { return Ok(()) };
    let (step, fold, time, series, row) = pair[1];
    let kind = forecasts.time_kind.unwrap_or(TimeKind::Integer);
    let fold = match forecasts.columns.fold {
        Some(_) => format!(", fold {fold}"),
        None => String::new(),
    };
    Err(EvaluateError::Twice {
        first: u64::from(pair[0].4) + 1,
        row: u64::from(row) + 1,
        series: forecasts.series.name(series).to_owned(),
        time: kind.format(time),
        step,
        fold,
    })
}

/// Whether a row says what time it forecasts.
pub(crate) fn target_time(keys: &Keys, row: usize) -> Option<i64> {
    keys.target_times.get(row).copied().filter(|time| *time != NO_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::ColumnNames,
        test_tables::{batch, names},
    };

    fn sections(text: &str) -> Result<Sections, String> {
        let rows = batch(text);
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        forecasts.add(&rows).unwrap();
        Sections::new(&forecasts).map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_is_of_one_time_step_and_fold() {
        let text = "id,date,step,fold,pred,y\nb,1,1,0,1,1\na,2,1,0,1,1\na,1,1,0,1,1\na,1,2,0,1,1\n\
                    a,1,1,3,1,1\n";
        let found = sections(text).unwrap();
        assert_eq!((found.steps.as_slice(), found.folds.as_slice()), (&[1, 2][..], &[0, 3][..]));
        let rows: Vec<Vec<usize>> =
            found.sections.iter().map(|section| found.rows(section).collect()).collect();
        // The series b was met first.
        assert_eq!(rows, [vec![0, 2], vec![1], vec![4], vec![3]]);
        assert_eq!(found.fold_of, [0, 0, 0, 0, 1]);
    }

    #[test]
    fn steps_that_nobody_says_are_counted() {
        let text = "unique_id,cutoff,ds,yhat,y\na,1,3,1,1\na,1,2,1,1\na,2,5,1,1\nb,1,2,1,1\n";
        let found = sections(text).unwrap();
        assert_eq!(found.step_of, [1, 0, 0, 0]);
    }

    #[test]
    fn the_first_forecast_that_is_there_twice_is_named() {
        let check = |text: &str, expected: &str| {
            let error = sections(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        let text = "id,date,pred,y\na,2020-01-01,1,1\nb,2020-01-01,1,1\nb,2020-01-01,1,1\na,2020-01-01,1,1\n";
        check(text, "rows 2 and 3 both forecast \"b\" at 2020-01-01, step 1; where");
        let text = "id,date,step,fold,pred,y\na,1,2,7,1,1\na,1,2,8,1,1\na,1,2,7,1,1\n";
        check(text, "rows 1 and 3 both forecast \"a\" at 1, step 2, fold 7;");
        let text = "unique_id,cutoff,ds,yhat,y\na,1,2,1,1\na,1,2,1,1\n";
        check(text, "rows 1 and 2 both forecast \"a\" at 1, step 1;");
    }
}
