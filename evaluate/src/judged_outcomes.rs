//! [`JudgedOutcomes`]: the outcomes that forecasts are held against.
//!
//! Of a table of ours these are of windows of which everything has come: training judges no others, and a
//! figure of one step is then of the same windows as that of another. What is known besides is still known
//! to naive forecasts.

use crate::forecasts::{Forecasts, Keys};
use std::{borrow::Cow, collections::HashSet};

/// By target and row; NaN where a forecast is not judged.
pub(crate) struct JudgedOutcomes<'a> {
    targets: Vec<Cow<'a, [f64]>>,
    /// Rows that have no outcome of any target.
    pub(crate) without: u64,
    /// Rows that have one, and are not judged as others of their window have none.
    pub(crate) unfinished: u64,
}

impl<'a> JudgedOutcomes<'a> {
    /// All there are, or of whole windows.
    pub(crate) fn new(forecasts: &'a Forecasts, whole: bool) -> JudgedOutcomes<'a> {
        let keys = &forecasts.keys;
        let known =
            |row: usize| forecasts.targets.iter().map(move |all| !all.outcomes[row].is_nan());
        let rows = 0..keys.times.len();
        let all = forecasts.targets.iter().map(|target| Cow::Borrowed(target.outcomes.as_slice()));
        let without = rows.clone().filter(|row| !known(*row).any(|known| known)).count() as u64;
        let mut judged = JudgedOutcomes { targets: all.collect(), without, unfinished: 0 };
        if !whole {
            return judged;
        }
        let lacking = rows.clone().filter(|row| !known(*row).all(|known| known));
        let lacking: HashSet<_> = lacking.map(|row| window(keys, row)).collect();
        if lacking.is_empty() {
            return judged;
        }
        let left_out: Vec<usize> =
            rows.filter(|row| lacking.contains(&window(keys, *row))).collect();
        judged.unfinished = left_out.len() as u64 - without;
        for outcomes in &mut judged.targets {
            let outcomes = outcomes.to_mut();
            left_out.iter().for_each(|row| outcomes[*row] = f64::NAN);
        }
        judged
    }

    pub(crate) fn of(&self, target: usize) -> &[f64] {
        &self.targets[target]
    }
}

/// What was forecast together: series, fold and time.
fn window(keys: &Keys, row: usize) -> (u32, i32, i64) {
    (keys.series[row], keys.folds.get(row).copied().unwrap_or_default(), keys.times[row])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::ColumnNames,
        test_tables::{batch, names},
    };

    #[test]
    fn a_window_of_which_something_is_to_come_is_left_out() {
        let rows = batch(
            "s,t,step,a_forecast,a,b_forecast,b\nx,1,1,0,1,0,2\nx,1,2,0,3,0,4\nx,2,1,0,5,0,6\n\
             x,2,2,0,7,0,\ny,2,1,0,8,0,9\nx,3,1,0,,0,\n",
        );
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        forecasts.add(&rows).unwrap();
        let known = |judged: &JudgedOutcomes<'_>, target| -> Vec<f64> {
            judged.of(target).iter().copied().filter(|outcome| !outcome.is_nan()).collect()
        };
        let whole = JudgedOutcomes::new(&forecasts, true);
        assert_eq!((whole.without, whole.unfinished), (1, 2));
        assert_eq!(
            (known(&whole, 0), known(&whole, 1)),
            (vec![1.0, 3.0, 8.0], vec![2.0, 4.0, 9.0])
        );
        let all = JudgedOutcomes::new(&forecasts, false);
        assert_eq!((all.without, all.unfinished), (1, 0));
        assert_eq!(known(&all, 0), [1.0, 3.0, 5.0, 7.0, 8.0]);
    }
}
