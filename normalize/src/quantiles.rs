//! ColumnFit one column from its collected values: what needs them sorted, or has few of them.

use crate::{
    column_fit::{ColumnFit, Spread},
    moments::{log1p, mean_and_deviation},
    settings::ScaleMethod,
};
use millstream_data::Curve;

/// Quantiles kept of a column that is scaled by rank: every tenth of a percent.
const KNOTS: usize = 1001;

/// Fits `values`, which are all known. Their order does not matter, and is lost.
pub(crate) fn fit_values(method: ScaleMethod, values: &mut [f32]) -> ColumnFit {
    if values.is_empty() {
        return if method == ScaleMethod::None {
            ColumnFit::identity()
        } else {
            ColumnFit::no_value()
        };
    }
    let (mean, deviation) = mean_and_deviation(values.iter().map(|x| f64::from(*x)));
    match method {
        ScaleMethod::None => ColumnFit { mean, ..ColumnFit::identity() },
        ScaleMethod::Zscore => ColumnFit::affine(Curve::Linear, mean, deviation, mean),
        ScaleMethod::Minmax => {
            let min = values.iter().copied().fold(f32::INFINITY, f32::min);
            let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            ColumnFit::affine(Curve::Linear, min.into(), f64::from(max) - f64::from(min), mean)
        }
        ScaleMethod::Log1p => {
            let logs = values.iter().map(|x| f64::from(log1p(*x)));
            let (offset, scale) = mean_and_deviation(logs);
            ColumnFit::affine(Curve::Log1p, offset, scale, mean)
        }
        ScaleMethod::Robust => {
            values.sort_unstable_by(f32::total_cmp);
            let [low, median, high] = [1, 2, 3].map(|quarter| quantile(values, quarter, 4));
            // Half of the values or more can be equal; the others still tell how far they reach.
            let scale = if high > low { high - low } else { deviation };
            ColumnFit::affine(Curve::Linear, median, scale, mean)
        }
        ScaleMethod::RankNormal => {
            values.sort_unstable_by(f32::total_cmp);
            let knots = KNOTS.min(values.len());
            let last = (knots - 1).max(1);
            let knots: Vec<f64> = (0..knots).map(|i| quantile(values, i, last)).collect();
            let is_spread = knots[0] < knots[knots.len() - 1];
            let spread = if is_spread { Spread::Some } else { Spread::none_around(mean) };
            ColumnFit { spread, ..ColumnFit::affine(Curve::Quantiles(knots), 0.0, 1.0, mean) }
        }
    }
}

/// The value below which `part` of `parts` of the sorted values lie, between the two nearest.
fn quantile(sorted: &[f32], part: usize, parts: usize) -> f64 {
    // In whole numbers: a place that is one of the values must be exactly that value, or equal
    // values would make knots that differ.
    let place = part as u128 * (sorted.len() - 1) as u128;
    let (at, rest) = ((place / parts as u128) as usize, (place % parts as u128) as f64);
    let below = f64::from(sorted[at]);
    if rest == 0.0 {
        return below;
    }
    below + (f64::from(sorted[at + 1]) - below) * (rest / parts as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy() {
        let fitting = fit_values(ScaleMethod::Robust, &mut [4.0, 1.0, 2.0, 3.0, 100.0, 5.0]);
        // numpy.quantile([1, 2, 3, 4, 5, 100], [.25, .5, .75]) is [2.25, 3.5, 4.75].
        assert_eq!((fitting.fit.offset, fitting.fit.scale), (3.5, 2.5));
    }

    #[test]
    fn equal_quartiles_leave_the_deviation() {
        let fitting = fit_values(ScaleMethod::Robust, &mut [1.0, 1.0, 1.0, 1.0, 6.0]);
        assert_eq!((fitting.fit.offset, fitting.fit.scale), (1.0, 2.0));
    }

    #[test]
    fn ranks_become_normal_scores() {
        let mut values: Vec<f32> = (0..2001).rev().map(|i| (i as f32 / 100.0).exp()).collect();
        let fitting = fit_values(ScaleMethod::RankNormal, &mut values);
        let score = |i: usize| fitting.fit.apply(f64::from((i as f32 / 100.0).exp()));
        assert!(score(1000).abs() < 1e-6, "{}", score(1000));
        assert!((score(1950) - 1.959_96).abs() < 1e-4, "{}", score(1950));
        assert!(score(2000) > 5.0);
    }
}
