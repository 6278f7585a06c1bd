//! `rank_normal`: the normal score of the value's rank.

use super::{ColumnFit, Curve, Measured, Needs, Scaler};
use crate::column_fit::Spread;

/// Quantiles kept of a column: every tenth of a percent.
const KNOTS: usize = 1001;

pub(super) struct RankNormal;

impl Scaler for RankNormal {
    fn needs(&self) -> Needs {
        Needs::Sorted
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        let knots = KNOTS.min(column.sorted.len());
        let last = (knots - 1).max(1);
        let knots: Vec<f64> = (0..knots).map(|i| column.quantile(i, last)).collect();
        let is_spread = knots[0] < knots[knots.len() - 1];
        let spread = if is_spread { Spread::Some } else { Spread::none_around(column.mean) };
        ColumnFit { spread, ..ColumnFit::affine(Curve::Quantiles(knots), 0.0, 1.0, column.mean) }
    }

    fn is_curved(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;

    #[test]
    fn ranks_become_normal_scores() {
        let mut values: Vec<f32> = (0..2001).rev().map(|i| (i as f32 / 100.0).exp()).collect();
        let fitting = ScaleMethod::RankNormal.fit_values(&mut values);
        let score = |i: usize| fitting.fit.apply(f64::from((i as f32 / 100.0).exp()));
        assert!(score(1000).abs() < 1e-6, "{}", score(1000));
        assert!((score(1950) - 1.959_96).abs() < 1e-4, "{}", score(1950));
        assert!(score(2000) > 5.0);
    }
}
