//! Correlations across the series of a time, and what those of several times come to.
//!
//! As the trainer takes them: where one is not defined (fewer than three series, no variance) it is `None`,
//! never NaN.

/// Fewer series than this at a time, and their correlation says nothing.
pub(crate) const LEAST: usize = 3;

/// Correlations of several times that lie less far apart are all the same but for rounding.
const NO_SPREAD: f64 = 1e-12;

/// What the correlations of several times come to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct OverTimes {
    pub(crate) mean: Option<f64>,
    /// Their standard deviation, as that of a sample (n - 1).
    pub(crate) std: Option<f64>,
    /// The mean in standard deviations; `None` where there is none, or it is 0.
    pub(crate) ratio: Option<f64>,
}

impl OverTimes {
    pub(crate) fn of(found: &[f64]) -> Self {
        let (mean, std) = (mean(found), deviation(found));
        let spread = std.filter(|std| *std > NO_SPREAD);
        OverTimes { mean, std, ratio: mean.zip(spread).map(|(mean, std)| mean / std) }
    }

    /// The mean of what several have, of those that have it.
    pub(crate) fn mean_of(all: &[OverTimes]) -> Self {
        let mean_of = |of: fn(&OverTimes) -> Option<f64>| {
            mean(&all.iter().filter_map(of).collect::<Vec<f64>>())
        };
        OverTimes {
            mean: mean_of(|one| one.mean),
            std: mean_of(|one| one.std),
            ratio: mean_of(|one| one.ratio),
        }
    }
}

/// The mean; `None` of nothing, or where it is no number.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    Some(values.iter().sum::<f64>() / values.len() as f64).filter(|mean| mean.is_finite())
}

/// The standard deviation of a sample (n - 1); `None` of fewer than two.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// Pearson's and Spearman's correlation of two numbers of each series of a time.
#[derive(Debug, Default)]
pub(crate) struct Correlate {
    order: Vec<usize>,
    ranks: [Vec<f64>; 2],
}

impl Correlate {
    /// Of fewer than [`LEAST`] series neither is defined.
    pub(crate) fn both(&mut self, xs: &[f64], ys: &[f64]) -> [Option<f64>; 2] {
        if xs.len() < LEAST {
            return [None, None];
        }
        let [of_x, of_y] = &mut self.ranks;
        ranks(xs, &mut self.order, of_x);
        ranks(ys, &mut self.order, of_y);
        [pearson(xs, ys), pearson(of_x, of_y)]
    }
}

/// `None` when either side has no variance.
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

/// The rank of each value, from 1; equal values share their average rank.
fn ranks(values: &[f64], order: &mut Vec<usize>, ranks: &mut Vec<f64>) {
    order.clear();
    order.extend(0..values.len());
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    ranks.clear();
    ranks.resize(values.len(), 0.0);
    let mut below = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0;
        for &i in tied {
            ranks[i] = rank;
        }
        below += tied.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_defined_is_none() {
        let rising = [1.0, 2.0, 3.0];
        let both = |xs: &[f64], ys: &[f64]| Correlate::default().both(xs, ys);
        assert_eq!(both(&[1.0, 2.0], &[1.0, 2.0]), [None, None], "two series");
        assert_eq!(both(&[0.1; 3], &rising), [None, None], "a constant");
        assert_eq!(both(&rising, &[3.0, 2.0, 1.0]), [Some(-1.0), Some(-1.0)]);
        assert_eq!(OverTimes::of(&[]), OverTimes::default());
        let one = OverTimes { mean: Some(0.5), ..OverTimes::default() };
        assert_eq!(OverTimes::of(&[0.5]), one);
        let same = OverTimes::of(&[0.1, 0.1, 0.1]);
        assert_eq!(same.ratio, None, "{same:?}");
    }

    #[test]
    fn of_several_steps_undefined_ones_do_not_count() {
        let one = OverTimes { mean: Some(0.5), std: Some(0.25), ratio: Some(2.0) };
        let other = OverTimes { mean: Some(0.0), ..OverTimes::default() };
        let expected = OverTimes { mean: Some(0.25), ..one };
        assert_eq!(OverTimes::mean_of(&[one, other, OverTimes::default()]), expected);
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

    /// From the definition: the covariance over the product of the standard deviations.
    fn naive_pearson(xs: &[f64], ys: &[f64]) -> Option<f64> {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let product = |a: &[f64], b: &[f64]| {
            mean(&a.iter().zip(b).map(|(x, y)| x * y).collect::<Vec<_>>()) - mean(a) * mean(b)
        };
        let variance = product(xs, xs) * product(ys, ys);
        (xs.len() > 2 && variance > 1e-9).then(|| product(xs, ys) / variance.sqrt())
    }

    fn close(found: Option<f64>, expected: Option<f64>) -> bool {
        match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
            (found, expected) => found == expected,
        }
    }

    proptest! {
        #[test]
        fn correlations_follow_their_definitions(
            // Small whole numbers, so that ties and constants come up.
            rows in prop::collection::vec((-4i32..4, -4i32..4), 0..12)
        ) {
            let xs: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
            let ys: Vec<f64> = rows.iter().map(|row| f64::from(row.1)).collect();
            let [pearson, spearman] = Correlate::default().both(&xs, &ys);
            prop_assert!(close(pearson, naive_pearson(&xs, &ys)), "{pearson:?}");
            let expected = naive_pearson(&naive_ranks(&xs), &naive_ranks(&ys));
            prop_assert!(close(spearman, expected), "{spearman:?}");
        }

        #[test]
        fn a_deviation_is_that_of_a_sample(values in prop::collection::vec(-9.0..9.0f64, 2..20)) {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares = values.iter().map(|value| value * value).sum::<f64>() - n * mean * mean;
            let expected = (squares.max(0.0) / (n - 1.0)).sqrt();
            prop_assert!((deviation(&values).unwrap() - expected).abs() < 1e-6);
        }
    }
}
