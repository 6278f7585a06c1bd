//! [`History`]: the table that the series come from, for what the forecasts do not say: the values before
//! them.

use crate::{
    cells::Cells, column_names, columns::Role, error::EvaluateError, forecasts::Forecasts,
    series::SeriesCodes,
};
use arrow::array::RecordBatch;
use millstream_data::{TimeKind, table::KeyError};
use std::collections::HashSet;

/// The series of a table of forecasts as they were: a row for each series and time, and the targets under
/// their own names. Made once all forecasts are there, and given batches in any order.
#[derive(Debug)]
pub struct History {
    /// Those of the forecasts.
    codes: SeriesCodes,
    time_kind: Option<TimeKind>,
    columns: [Option<String>; 2],
    targets: Vec<String>,
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// By target; NaN where there is none.
    pub(crate) values: Vec<Vec<f64>>,
    rows: u64,
}

impl History {
    /// For tables with columns of these names, of which one must be called like the time of the forecasts, or
    /// as times are, and likewise the series; and those of the targets like these.
    ///
    /// # Errors
    /// When a column is not there.
    pub fn of(forecasts: &Forecasts, names: &[String]) -> Result<Self, EvaluateError> {
        let find = |role: Role, called: &str| {
            let exact = names.iter().find(|name| *name == called);
            let known = column_names::known(role);
            let mut alike = names.iter().filter(|n| known.contains(&n.to_lowercase().as_str()));
            let found = exact.or_else(|| alike.next().filter(|_| alike.next().is_none()));
            found.cloned().ok_or_else(|| EvaluateError::NoHistory {
                column: called.to_owned(),
                columns: names.to_vec(),
            })
        };
        let columns = &forecasts.columns;
        let series = columns.series.as_ref().map(|name| find(Role::Series, name)).transpose()?;
        let time = Some(find(Role::Time, &columns.time)?);
        let targets: Vec<String> =
            columns.targets.iter().map(|target| target.outcome.clone()).collect();
        if let Some(target) = targets.iter().find(|target| !names.contains(target)) {
            let (column, columns) = (target.clone(), names.to_vec());
            return Err(EvaluateError::NoHistory { column, columns });
        }
        Ok(History {
            codes: forecasts.series.clone(),
            time_kind: forecasts.time_kind,
            columns: [series, time],
            values: vec![Vec::new(); targets.len()],
            targets,
            series: Vec::new(),
            times: Vec::new(),
            rows: 0,
        })
    }

    /// The columns that are read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().flatten().chain(&self.targets).map(String::as_str)
    }

    /// What a person should know, where series that are forecast have no row.
    pub(crate) fn warning(&self) -> Option<String> {
        let (all, there) = (self.codes.len(), self.series.iter().collect::<HashSet<_>>().len());
        let what = "values before its first forecast and the scale of mase are not known";
        match there {
            _ if there == all => None,
            0 => Some(format!(
                "the history has none of the {all} series; {}",
                what.replace("its", "their")
            )),
            some => Some(format!("the history has {some} of the {all} series; of another, {what}")),
        }
    }

    /// Adds rows. Series that nobody forecasts are left out.
    ///
    /// # Errors
    /// For the first row that has no key, or a cell that is no number.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), EvaluateError> {
        let before = self.rows;
        let cells = |name: &String| match batch.column_by_name(name) {
            Some(column) => Ok(column),
            None => Err(EvaluateError::OtherColumns { column: name.clone() }),
        };
        self.rows += batch.num_rows() as u64;
        let [series, time] = &self.columns;
        let rows: Vec<Option<u32>> = match series {
            Some(name) => {
                let cells = Cells { column: cells(name)?, name, before };
                self.codes.known(&cells)?
            }
            None => vec![Some(0); batch.num_rows()],
        };
        let mut times = Vec::with_capacity(batch.num_rows());
        if let Some(name) = time {
            let cells = Cells { column: cells(name)?, name, before };
            let kind = cells.every_time(&mut times)?;
            let same = self
                .time_kind
                .is_none_or(|known| (known == TimeKind::Integer) == (kind == TimeKind::Integer));
            if !same && !times.is_empty() {
                return Err(cells.key(KeyError::MixedTimes));
            }
        }
        let known = || rows.iter().enumerate().filter_map(|(row, code)| Some((row, (*code)?)));
        self.series.extend(known().map(|(_, code)| code));
        self.times.extend(known().map(|(row, _)| times[row]));
        for (name, into) in self.targets.iter().zip(&mut self.values) {
            let mut numbers = Vec::with_capacity(batch.num_rows());
            Cells { column: cells(name)?, name, before }.numbers(&mut numbers)?;
            let finite = |number: f64| if number.is_finite() { number } else { f64::NAN };
            into.extend(known().map(|(row, _)| finite(numbers[row])));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::ColumnNames,
        test_tables::{batch, names},
    };

    fn history(text: &str) -> Result<History, String> {
        let rows = batch("symbol,trade_date,pred,close\nb,2020-01-01,1,2\n");
        let said = ColumnNames { actual: Some("close".to_owned()), ..ColumnNames::default() };
        let mut forecasts = Forecasts::new(&names(&rows), &said).unwrap();
        forecasts.add(&rows).unwrap();
        let rows = batch(text);
        let mut history =
            History::of(&forecasts, &names(&rows)).map_err(|error| error.to_string())?;
        history.add(&rows).map_err(|error| error.to_string())?;
        Ok(history)
    }

    #[test]
    fn only_series_that_are_forecast_are_kept() {
        let found =
            history("trade_date,ticker,close\n2020-01-01,a,1\n2020-01-02,b,2\n2020-01-03,b,\n");
        let found = found.unwrap();
        assert_eq!((found.series.as_slice(), found.values[0][0]), (&[0, 0][..], 2.0));
        assert!(found.values[0][1].is_nan());
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |text: &str, expected: &str| {
            let error = history(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("trade_date,symbol,open\n2020-01-01,b,1\n", "the history has no column \"close\"");
        check("trade_date,who,close\n2020-01-01,b,1\n", "the history has no column \"symbol\"");
        check("trade_date,symbol,close\n5,b,1\n", "column \"trade_date\"");
        check("trade_date,symbol,close\n2020-01-01,b,x\n", "row 1: column \"close\" holds \"x\"");
    }
}
