//! [`Forecasts`]: the rows of a table of forecasts, gathered batch by batch.
//!
//! All rows are kept, as correlations need those of a time together and a repeated row may lie anywhere:
//! 28 bytes for the keys of a row, and 8 for every number that is read. How good they are is worked out
//! in `evaluation.rs`.

use crate::{
    cells::Cells,
    columns::{ColumnNames, Columns, JudgedColumns},
    error::EvaluateError,
    series::SeriesCodes,
};
use arrow::array::{ArrayRef, RecordBatch};
use millstream_data::{TimeKind, table::KeyError};

/// The time that is forecast, where a row does not say it.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// Rows of forecasts with what came, to be judged.
///
/// Made for the columns of a table, given its batches in any order, then
/// [evaluated](Forecasts::evaluate).
#[derive(Debug)]
pub struct Forecasts {
    pub(crate) columns: Columns,
    pub(crate) series: SeriesCodes,
    pub(crate) time_kind: Option<TimeKind>,
    pub(crate) keys: Keys,
    pub(crate) targets: Vec<TargetValues>,
    /// Quantiles that cross and intervals whose bounds do, and outcomes that are infinite.
    pub(crate) odd: OddRows,
}

/// What tells a row from all others; one entry a row in each.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// [`NO_TIME`] where a row does not say it.
    pub(crate) target_times: Vec<i64>,
    pub(crate) steps: Vec<i32>,
    pub(crate) folds: Vec<i32>,
}

/// What was said of a target, and what came.
#[derive(Debug, Default)]
pub(crate) struct TargetValues {
    /// Whether forecasts and outcomes are in columns of 32 bits, so that what they are held against has to be.
    pub(crate) single: bool,
    pub(crate) forecasts: Vec<f64>,
    /// NaN where it is not known.
    pub(crate) outcomes: Vec<f64>,
    /// Those of [`JudgedColumns::quantiles`]; empty for the one that is the forecast itself.
    pub(crate) quantiles: Vec<Vec<f64>>,
    /// Lower and upper bounds; NaN where there is no interval.
    pub(crate) intervals: Vec<[Vec<f64>; 2]>,
}

/// Rows that are judged as they are, but should be known of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OddRows {
    pub(crate) infinite_outcomes: u64,
    pub(crate) crossing_quantiles: u64,
    pub(crate) crossing_bounds: u64,
    pub(crate) missing_bounds: u64,
}

impl OddRows {
    /// What a person should know of them.
    pub(crate) fn warnings(self) -> impl Iterator<Item = String> {
        let counts = [
            (self.infinite_outcomes, "outcomes are infinite, and taken for missing"),
            (self.crossing_quantiles, "rows have quantiles that do not rise"),
            (self.crossing_bounds, "intervals end below where they begin: no outcome lies in them"),
            (self.missing_bounds, "intervals lack a bound, and are left out of their figures"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, what)| format!("{count} {what}"))
    }
}

impl Forecasts {
    /// For tables with columns of these names.
    ///
    /// # Errors
    /// When it cannot be told which column is what.
    pub fn new(names: &[String], said: &ColumnNames) -> Result<Self, EvaluateError> {
        let columns = Columns::find(names, said)?;
        let targets = columns.targets.iter().map(TargetValues::of).collect();
        Ok(Forecasts {
            columns,
            series: SeriesCodes::default(),
            time_kind: None,
            keys: Keys::default(),
            targets,
            odd: OddRows::default(),
        })
    }

    /// What was taken for what.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.keys.times.len() as u64
    }

    /// Adds rows. Columns that are not read may be left out of a batch.
    ///
    /// # Errors
    /// For the first row that has no key, no forecast, or a cell that is no number. Nothing should be
    /// added after an error.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), EvaluateError> {
        let before = self.rows();
        let columns = &self.columns;
        let name = columns.time.as_str();
        let time = Cells { column: find(batch, name)?, name, before };
        let kind = time.every_time(&mut self.keys.times)?;
        if batch.num_rows() > 0 {
            let common = TimeKind::common(self.time_kind, kind);
            self.time_kind = Some(common.ok_or_else(|| time.key(KeyError::MixedTimes))?);
        }
        match &columns.series {
            Some(name) => {
                let cells = Cells { column: find(batch, name)?, name, before };
                self.series.add(&cells, &mut self.keys.series)?;
            }
            None => {
                let code = self.series.only();
                self.keys.series.resize(self.keys.times.len(), code);
            }
        }
        if let Some(name) = &columns.target_time {
            let cells = Cells { column: find(batch, name)?, name, before };
            let mut times = Vec::with_capacity(batch.num_rows());
            let found = cells.times(&mut times)?;
            if found.is_some_and(|found| TimeKind::common(self.time_kind, found).is_none()) {
                return Err(cells.key(KeyError::MixedTimes));
            }
            let times = times.into_iter().map(|time| time.unwrap_or(NO_TIME));
            self.keys.target_times.extend(times);
        }
        for (name, into) in
            [(&columns.step, &mut self.keys.steps), (&columns.fold, &mut self.keys.folds)]
        {
            if let Some(name) = name {
                Cells { column: find(batch, name)?, name, before }.integers(into)?;
            }
        }
        for (target, values) in columns.targets.iter().zip(&mut self.targets) {
            values.add(batch, target, before, &mut self.odd)?;
        }
        self.check_ahead(before as usize)
    }

    /// What is forecast is still to come, in every row from here on.
    fn check_ahead(&self, first: usize) -> Result<(), EvaluateError> {
        let kind = self.time_kind.unwrap_or(TimeKind::Integer);
        let times = &self.keys.times;
        let refused = |row: usize, column: &Option<String>, value: String, expected: String| {
            let column = column.clone().unwrap_or_default();
            Err(EvaluateError::NotAhead { row: row as u64 + 1, column, value, expected })
        };
        for (row, &time) in times.iter().enumerate().skip(first) {
            let ahead = self.keys.target_times.get(row);
            if let Some(&ahead) = ahead.filter(|ahead| **ahead != NO_TIME && **ahead <= time) {
                let expected =
                    format!("a time after {}, its {}", kind.format(time), self.columns.time);
                return refused(row, &self.columns.target_time, kind.format(ahead), expected);
            }
            if let Some(step) = self.keys.steps.get(row).filter(|step| **step < 1) {
                return refused(row, &self.columns.step, step.to_string(), "1 or more".to_owned());
            }
        }
        Ok(())
    }
}

fn find<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, EvaluateError> {
    let column = batch.column_by_name(name);
    column.ok_or_else(|| EvaluateError::OtherColumns { column: name.to_owned() })
}

impl TargetValues {
    fn of(columns: &JudgedColumns) -> TargetValues {
        TargetValues {
            quantiles: vec![Vec::new(); columns.quantiles.len()],
            intervals: vec![Default::default(); columns.intervals.len()],
            ..TargetValues::default()
        }
    }

    /// What quantile number `at` of these columns says.
    pub(crate) fn quantile(&self, columns: &JudgedColumns, at: usize) -> &[f64] {
        match columns.quantiles[at].column == columns.forecast {
            true => &self.forecasts,
            false => &self.quantiles[at],
        }
    }

    fn add(
        &mut self,
        batch: &RecordBatch,
        columns: &JudgedColumns,
        before: u64,
        odd: &mut OddRows,
    ) -> Result<(), EvaluateError> {
        let first = self.forecasts.len();
        let is_single = |name: &str| -> Result<bool, EvaluateError> {
            Ok(Cells { column: find(batch, name)?, name, before }.is_single())
        };
        let single = is_single(&columns.forecast)? && is_single(&columns.outcome)?;
        self.single = single && (self.single || first == 0);
        let said = |name: &str, into: &mut Vec<f64>| {
            Cells { column: find(batch, name)?, name, before }.numbers(into)?;
            match into[first..].iter().position(|number| !number.is_finite()) {
                None => Ok(()),
                Some(row) => {
                    let value = into[first + row].to_string();
                    let (column, row) = (name.to_owned(), before + row as u64 + 1);
                    Err(EvaluateError::NoForecast { row, column, value })
                }
            }
        };
        said(&columns.forecast, &mut self.forecasts)?;
        for (quantile, into) in columns.quantiles.iter().zip(&mut self.quantiles) {
            if quantile.column != columns.forecast {
                said(&quantile.column, into)?;
            }
        }
        let name = columns.outcome.as_str();
        Cells { column: find(batch, name)?, name, before }.numbers(&mut self.outcomes)?;
        for outcome in &mut self.outcomes[first..] {
            // A value that is not finite is missing.
            if outcome.is_infinite() {
                odd.infinite_outcomes += 1;
                *outcome = f64::NAN;
            }
        }
        for (interval, into) in columns.intervals.iter().zip(&mut self.intervals) {
            for (name, into) in [&interval.lower, &interval.upper].into_iter().zip(&mut *into) {
                Cells { column: find(batch, name)?, name, before }.numbers(into)?;
            }
            for (lower, upper) in into[0][first..].iter().zip(&into[1][first..]) {
                odd.crossing_bounds += u64::from(lower > upper);
                odd.missing_bounds += u64::from(lower.is_nan() || upper.is_nan());
            }
        }
        for row in first..self.forecasts.len() {
            let said = (0..columns.quantiles.len()).map(|at| self.quantile(columns, at)[row]);
            odd.crossing_quantiles += u64::from(!said.is_sorted());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tables::{batch, names};

    fn add(text: &str) -> Result<Forecasts, String> {
        let rows = batch(text);
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        let added = forecasts.add(&rows);
        added.map(|()| forecasts).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error} {}", cause.unwrap_or_default())
        })
    }

    #[test]
    fn rows_are_gathered_batch_by_batch() {
        let rows = batch("symbol,date,pred,y\nb,2020-01-01,1,2\na,2020-01-02,3,\n");
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        forecasts.add(&rows).unwrap();
        forecasts.add(&rows.slice(1, 1)).unwrap();
        assert_eq!(forecasts.rows(), 3);
        assert_eq!(forecasts.keys.series, [0, 1, 1]);
        assert_eq!(forecasts.targets[0].forecasts, [1.0, 3.0, 3.0]);
        assert!(forecasts.targets[0].outcomes[1].is_nan());
    }

    #[test]
    fn rows_without_a_key_or_a_forecast_are_refused_by_number() {
        let check = |text: &str, expected: &str| {
            let error = add(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("symbol,date,pred,y\na,1,1,2\n,2,1,1\n", "column \"symbol\" row 2 is empty");
        check("symbol,date,pred,y\na,1,1,2\na,,1,1\n", "column \"date\" row 2 is empty");
        check("date,pred,y\n1,1,2\n2,NaN,1\n", "row 2: column \"pred\" holds NaN");
        check("date,pred,y\n1,inf,2\n", "row 1: column \"pred\" holds inf");
        check("date,pred,y\n1,1,much\n", "row 1: column \"y\" holds \"much\"; expected a number");
        check("date,pred,y\n1,1,1\n2020-01-01,1,1\n", "both dates and plain numbers");
        check("date,target_time,pred,y\n1,2020-01-01,1,1\n", "both dates and plain numbers");
        check("date,step,pred,y\n1,,1,1\n", "row 1: column \"step\" holds \"\"");
        check(
            "date,step,pred,y\n1,1,1,1\n1,0,1,1\n",
            "row 2: column \"step\" holds 0; expected 1 or more: a forecast is of what is still to come",
        );
        let expected = "row 1: column \"target_time\" holds 2020-01-02; expected a time after \
                        2020-01-02, its date:";
        check("date,target_time,pred,y\n2020-01-02,2020-01-02,1,1\n", expected);
        check(
            "date,target_time,pred,y\n1,,1,1\n7,5,1,1\n",
            "row 2: column \"target_time\" holds 5",
        );
        check("date,pred,0.1,0.9,y\n1,1,1,,1\n", "row 1: column \"0.9\" holds NaN");
    }

    #[test]
    fn what_is_odd_is_counted() {
        let text = "date,pred,0.1,0.9,pred-lo-90,pred-hi-90,y\n\
                    1,1,0,2,0,2,inf\n2,1,2,0,2,0,1\n3,1,0,2,,1,1\n";
        let expected = OddRows {
            infinite_outcomes: 1,
            crossing_quantiles: 1,
            crossing_bounds: 1,
            missing_bounds: 1,
        };
        assert_eq!(add(text).unwrap().odd, expected);
    }

    #[test]
    fn a_batch_of_another_table_is_refused() {
        let rows = batch("symbol,date,pred,y\nb,1,1,2\n");
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        let error = forecasts.add(&batch("date,pred,y\n1,1,2\n")).unwrap_err().to_string();
        assert_eq!(error, "a batch has no column \"symbol\", which the first one had");
    }
}
