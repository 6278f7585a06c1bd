//! How good forecasts are: plain functions on host numbers.
//!
//! Where a figure is not defined (no data, one series, no variance) it is `None`, never NaN.
//! Collecting the numbers on the device is the business of `pass.rs`.

use serde::{Deserialize, Serialize};

/// How good the forecasts of one pass are.
///
/// Errors are over every step and target. Units are scaled ones, except for `*_raw`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Mean squared error.
    pub mse: Option<f64>,
    /// Mean absolute error.
    pub mae: Option<f64>,
    /// Share of forecasts with the sign of their outcome, in raw units, among outcomes that are
    /// not 0; `None` when all outcomes have one sign.
    pub directional_accuracy: Option<f64>,
    /// Information coefficient: the correlation across series of forecasts and outcomes (first
    /// target, first step), averaged over the times with at least three series.
    pub ic: Option<f64>,
    /// The same for ranks.
    pub rank_ic: Option<f64>,
    /// Mean squared error in user units, averaged over the targets; `None` where a target's
    /// scaling is not one affine function for all series.
    pub mse_raw: Option<f64>,
    /// Mean absolute error in user units, averaged over the targets; `None` likewise.
    pub mae_raw: Option<f64>,
}

/// Sums over a pass, one entry per target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ErrorSums {
    pub(crate) squared: Vec<f64>,
    pub(crate) absolute: Vec<f64>,
    /// Forecasts per target.
    pub(crate) count: f64,
}

/// How often forecasts had the right sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Directions {
    pub(crate) right: f64,
    pub(crate) rises: f64,
    pub(crate) falls: f64,
}

/// Forecasts and outcomes of the first target's first step, with the time of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrossSection<'a> {
    pub(crate) times: &'a [i64],
    pub(crate) forecasts: &'a [f64],
    pub(crate) outcomes: &'a [f64],
}

impl Metrics {
    /// `units` is what one scaled unit of each target is in user units, where there is such a
    /// number.
    pub(crate) fn new(
        sums: &ErrorSums,
        directions: Directions,
        section: Option<CrossSection<'_>>,
        units: Option<&[f64]>,
    ) -> Self {
        let ones = vec![1.0; sums.squared.len()];
        let raw = |sums: &[f64], count, power| {
            let units: Vec<f64> = units?.iter().map(|unit| unit.abs().powi(power)).collect();
            mean_error(sums, &units, count)
        };
        Metrics {
            mse: mean_error(&sums.squared, &ones, sums.count),
            mae: mean_error(&sums.absolute, &ones, sums.count),
            directional_accuracy: directional_accuracy(directions),
            ic: section.and_then(|section| mean_over_times(section, pearson)),
            rank_ic: section.and_then(|section| mean_over_times(section, spearman)),
            mse_raw: raw(&sums.squared, sums.count, 2),
            mae_raw: raw(&sums.absolute, sums.count, 1),
        }
    }
}

/// The mean over targets of each target's mean error times its unit.
fn mean_error(sums: &[f64], units: &[f64], count: f64) -> Option<f64> {
    let total: f64 = sums.iter().zip(units).map(|(sum, unit)| sum * unit).sum();
    let mean = total / (count * sums.len() as f64);
    mean.is_finite().then_some(mean)
}

/// See [`Metrics::directional_accuracy`].
fn directional_accuracy(counts: Directions) -> Option<f64> {
    let Directions { right, rises, falls } = counts;
    (rises > 0.0 && falls > 0.0).then(|| right / (rises + falls))
}

/// Averages a correlation over the times at which it is defined.
fn mean_over_times(
    section: CrossSection<'_>,
    correlation: fn(&[f64], &[f64]) -> Option<f64>,
) -> Option<f64> {
    let CrossSection { times, forecasts, outcomes } = section;
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|&i| times[i]);
    let (mut sum, mut count) = (0.0, 0u64);
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for group in order.chunk_by(|&a, &b| times[a] == times[b]) {
        if group.len() < 3 {
            continue;
        }
        xs.clear();
        ys.clear();
        xs.extend(group.iter().map(|&i| forecasts[i]));
        ys.extend(group.iter().map(|&i| outcomes[i]));
        if let Some(value) = correlation(&xs, &ys) {
            sum += value;
            count += 1;
        }
    }
    (count > 0).then(|| sum / count as f64)
}

/// Pearson's correlation; `None` when either side has no variance.
fn pearson(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let n = xs.len() as f64;
    let (mx, my) = (xs.iter().sum::<f64>() / n, ys.iter().sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in xs.iter().zip(ys) {
        xx += (x - mx) * (x - mx);
        yy += (y - my) * (y - my);
        xy += (x - mx) * (y - my);
    }
    // Equal values can leave a rounding error in place of a zero variance.
    let varies = |values: &[f64]| values.iter().any(|value| *value != values[0]);
    let value = xy / (xx * yy).sqrt();
    (varies(xs) && varies(ys) && value.is_finite()).then(|| value.clamp(-1.0, 1.0))
}

/// Spearman's correlation, tied values sharing their average rank.
fn spearman(xs: &[f64], ys: &[f64]) -> Option<f64> {
    pearson(&ranks(xs), &ranks(ys))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0;
        for &i in tied {
            ranks[i] = rank;
        }
        below += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn section_of(times: &[i64], forecasts: &[f64], outcomes: &[f64]) -> Metrics {
        let sums = ErrorSums { squared: vec![0.0], absolute: vec![0.0], count: 1.0 };
        let directions = Directions { right: 0.0, rises: 0.0, falls: 0.0 };
        let section = CrossSection { times, forecasts, outcomes };
        Metrics::new(&sums, directions, Some(section), Some(&[1.0]))
    }

    #[test]
    fn raw_errors_are_in_each_targets_own_unit() {
        let sums = ErrorSums { squared: vec![8.0, 2.0], absolute: vec![4.0, 2.0], count: 2.0 };
        let directions = Directions { right: 3.0, rises: 2.0, falls: 2.0 };
        let found = Metrics::new(&sums, directions, None, Some(&[10.0, 0.5]));
        assert_eq!(found.mse, Some(2.5));
        assert_eq!(found.mae, Some(1.5));
        assert_eq!(found.mse_raw, Some((400.0 + 0.25) / 2.0));
        assert_eq!(found.mae_raw, Some((20.0 + 0.5) / 2.0));
        assert_eq!(found.directional_accuracy, Some(0.75));
        assert_eq!((found.ic, found.rank_ic), (None, None));
        let no_unit = Metrics::new(&sums, directions, None, None);
        assert_eq!(no_unit, Metrics { mse_raw: None, mae_raw: None, ..found });
    }

    #[test]
    fn what_is_not_defined_is_none() {
        let sums = ErrorSums { squared: vec![0.0], absolute: vec![0.0], count: 0.0 };
        let one_sign = Directions { right: 5.0, rises: 5.0, falls: 0.0 };
        let found = Metrics::new(&sums, one_sign, None, Some(&[1.0]));
        assert_eq!(found, Metrics::default());
        let one_series = section_of(&[1, 2, 3], &[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]);
        assert_eq!((one_series.ic, one_series.rank_ic), (None, None));
        let constant = section_of(&[1, 1, 1], &[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0]);
        assert_eq!((constant.ic, constant.rank_ic), (None, None));
    }

    #[test]
    fn times_are_grouped_wherever_their_rows_lie() {
        let times = [5, 1, 5, 1, 5, 1];
        let found =
            section_of(&times, &[1.0, 3.0, 2.0, 2.0, 3.0, 1.0], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(found.ic, Some(0.0), "one time is perfect, the other perfectly wrong");
    }

    #[test]
    fn tied_values_share_their_average_rank() {
        assert_eq!(ranks(&[10.0, 20.0, 10.0, 5.0]), [2.5, 4.0, 2.5, 1.0]);
    }

    /// From the definition: the covariance over the product of the standard deviations.
    fn naive_pearson(xs: &[f64], ys: &[f64]) -> Option<f64> {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let product = |a: &[f64], b: &[f64]| {
            mean(&a.iter().zip(b).map(|(x, y)| x * y).collect::<Vec<_>>()) - mean(a) * mean(b)
        };
        let variance = product(xs, xs) * product(ys, ys);
        (variance > 1e-9).then(|| product(xs, ys) / variance.sqrt())
    }

    /// From the definition: how many values are below, and half of the others that are equal.
    fn naive_ranks(values: &[f64]) -> Vec<f64> {
        let rank = |x: &f64| {
            let below = values.iter().filter(|v| *v < x).count() as f64;
            let equal = values.iter().filter(|v| *v == x).count() as f64;
            below + (equal + 1.0) / 2.0
        };
        values.iter().map(rank).collect()
    }

    fn naive_ic(rows: &[(i64, f64, f64)], ranked: bool) -> Option<f64> {
        let mut found = Vec::new();
        for time in 0..4 {
            let group: Vec<_> = rows.iter().filter(|row| row.0 == time).collect();
            let mut xs: Vec<f64> = group.iter().map(|row| row.1).collect();
            let mut ys: Vec<f64> = group.iter().map(|row| row.2).collect();
            if ranked {
                (xs, ys) = (naive_ranks(&xs), naive_ranks(&ys));
            }
            if group.len() >= 3 {
                found.extend(naive_pearson(&xs, &ys));
            }
        }
        (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    }

    fn close(found: Option<f64>, expected: Option<f64>) -> bool {
        match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
            (found, expected) => found == expected,
        }
    }

    proptest! {
        #[test]
        fn ic_and_rank_ic_follow_their_definitions(
            // Small whole numbers, so that ties and constant groups come up.
            rows in prop::collection::vec((0i64..4, -5i32..5, -5i32..5), 0..40)
        ) {
            let rows: Vec<(i64, f64, f64)> =
                rows.into_iter().map(|(t, x, y)| (t, f64::from(x), f64::from(y))).collect();
            let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let forecasts: Vec<f64> = rows.iter().map(|row| row.1).collect();
            let outcomes: Vec<f64> = rows.iter().map(|row| row.2).collect();
            let found = section_of(&times, &forecasts, &outcomes);
            prop_assert!(close(found.ic, naive_ic(&rows, false)), "{:?}", found.ic);
            prop_assert!(close(found.rank_ic, naive_ic(&rows, true)), "{:?}", found.rank_ic);
        }
    }
}
