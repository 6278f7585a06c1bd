//! [`Curve`]: the part of a scaling that is not affine.

use serde::{Deserialize, Serialize};

/// Probabilities closer to 0 or 1 than this have the normal score of this: about 5.2.
const TAIL: f64 = 1e-7;

/// A monotone function of one value, and its inverse.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Curve {
    /// The value itself.
    #[default]
    Linear,
    /// `sign(x) * ln(1 + |x|)`
    Log1p,
    /// The normal score of the value's place among these quantiles, which are evenly spaced from
    /// the smallest to the largest value of the training rows. What lies outside has the score of
    /// the end.
    Quantiles(Vec<f64>),
}

impl Curve {
    /// Whether it is the value itself.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        matches!(self, Curve::Linear)
    }

    /// The curve at `x`.
    #[must_use]
    pub fn apply(&self, x: f64) -> f64 {
        match self {
            Curve::Linear => x,
            Curve::Log1p => x.signum() * x.abs().ln_1p(),
            Curve::Quantiles(knots) => score(knots, x),
        }
    }

    /// Where the curve is `y`.
    #[must_use]
    pub fn invert(&self, y: f64) -> f64 {
        match self {
            Curve::Linear => y,
            Curve::Log1p => y.signum() * y.abs().exp_m1(),
            Curve::Quantiles(knots) => quantile(knots, y),
        }
    }
}

/// The normal score of knot `i` of `n`.
fn knot_score(i: usize, n: usize) -> f64 {
    normal_score(i as f64 / (n - 1).max(1) as f64)
}

fn score(knots: &[f64], x: f64) -> f64 {
    let n = knots.len();
    if x.is_nan() || n < 2 {
        // One knot or none: a column without spread, whose every value is the middle.
        return if x.is_nan() { x } else { 0.0 };
    }
    // Knots before `low` are below x, knots from `high` on above; those between are equal to it,
    // and x is then in their middle.
    let low = knots.partition_point(|knot| *knot < x);
    let high = knots.partition_point(|knot| *knot <= x);
    if high > low {
        return (knot_score(low, n) + knot_score(high - 1, n)) / 2.0;
    }
    match low {
        0 => knot_score(0, n),
        _ if low == n => knot_score(n - 1, n),
        _ => {
            let share = (x - knots[low - 1]) / (knots[low] - knots[low - 1]);
            let (below, above) = (knot_score(low - 1, n), knot_score(low, n));
            below + share * (above - below)
        }
    }
}

fn quantile(knots: &[f64], y: f64) -> f64 {
    let n = knots.len();
    if y.is_nan() || n < 2 {
        return if y.is_nan() { y } else { knots.first().copied().unwrap_or(0.0) };
    }
    // Scores rise with their knot: the first one that is not below y.
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = (low + high) / 2;
        if knot_score(middle, n) < y { low = middle + 1 } else { high = middle }
    }
    match low {
        0 => knots[0],
        _ if low == n => knots[n - 1],
        _ => {
            let (below, above) = (knot_score(low - 1, n), knot_score(low, n));
            let share = (y - below) / (above - below);
            knots[low - 1] + share * (knots[low] - knots[low - 1])
        }
    }
}

/// The inverse of the normal distribution function, by Acklam's rational approximation (relative
/// error below 1.2e-9).
fn normal_score(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let p = p.clamp(TAIL, 1.0 - TAIL);
    if p < 0.024_25 {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / polynomial(&D, q);
    }
    if p > 1.0 - 0.024_25 {
        return -normal_score(1.0 - p);
    }
    let q = p - 0.5;
    q * polynomial(&A, q * q) / polynomial(&B, q * q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_scores_are_those_of_the_tables() {
        let check = |p: f64, expected: f64| {
            assert!((normal_score(p) - expected).abs() < 1e-7, "{p}: {}", normal_score(p));
        };
        check(0.5, 0.0);
        check(0.975, 1.959_963_985);
        check(0.025, -1.959_963_985);
        check(0.001, -3.090_232_306);
        check(0.0, -5.199_337_582);
        check(1.0, 5.199_337_582);
    }

    #[test]
    fn equal_knots_share_the_middle_and_what_is_outside_has_the_score_of_the_end() {
        let knots = Curve::Quantiles(vec![0.0, 1.0, 1.0, 1.0, 2.0]);
        assert_eq!(knots.apply(1.0), 0.0);
        assert_eq!(knots.apply(9.0), knots.apply(2.0));
        assert_eq!(knots.apply(-9.0), knots.apply(0.0));
        assert!(knots.apply(f64::NAN).is_nan());
        assert_eq!(Curve::Quantiles(vec![3.0]).apply(7.0), 0.0);
        assert_eq!(Curve::Quantiles(vec![3.0]).invert(0.0), 3.0);
        assert_eq!(Curve::Quantiles(Vec::new()).apply(7.0), 0.0);
    }
}
