//! Correlations across series, one time after another.
//!
//! Where a correlation is not defined (fewer than three series, no variance) it is `None`, never
//! NaN.

/// Fewer series than this at a time, and their correlation says nothing.
pub(crate) const LEAST: usize = 3;

/// Correlations of several times that lie less far apart are all the same but for rounding.
const NO_SPREAD: f64 = 1e-12;

/// Which windows share a time.
#[derive(Debug)]
pub(crate) struct Sections {
    /// Windows in the order of their times.
    order: Vec<usize>,
    /// Where in `order` each time with enough series begins and ends.
    groups: Vec<(usize, usize)>,
}

/// Pearson's and Spearman's correlation over the times at which each is defined.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Correlations {
    pub(crate) pearson: OverTimes,
    pub(crate) spearman: OverTimes,
}

/// What the correlations of several times come to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct OverTimes {
    pub(crate) mean: Option<f64>,
    /// The mean in standard deviations, as that of a sample (n - 1); `None` for fewer than two times
    /// and where all are the same.
    pub(crate) ratio: Option<f64>,
}

impl Sections {
    /// `times` has the time of each window.
    pub(crate) fn new(times: &[i64]) -> Self {
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|&window| times[window]);
        let mut groups = Vec::new();
        let mut start = 0;
        for group in order.chunk_by(|&a, &b| times[a] == times[b]) {
            let end = start + group.len();
            if group.len() >= LEAST {
                groups.push((start, end));
            }
            start = end;
        }
        Sections { order, groups }
    }

    /// Between two numbers of every window, rounded to `f32`: what is equal in a file of forecasts
    /// is equal here.
    pub(crate) fn correlate(&self, xs: &[f64], ys: &[f64]) -> Correlations {
        let (mut pearsons, mut spearmans) = (Vec::new(), Vec::new());
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for &(start, end) in &self.groups {
            let gather = |values: &[f64], into: &mut Vec<f64>| {
                into.clear();
                let windows = self.order[start..end].iter();
                into.extend(windows.map(|&window| f64::from(values[window] as f32)));
            };
            gather(xs, &mut x);
            gather(ys, &mut y);
            pearsons.extend(pearson(&x, &y));
            spearmans.extend(pearson(&ranks(&x), &ranks(&y)));
        }
        Correlations { pearson: OverTimes::of(&pearsons), spearman: OverTimes::of(&spearmans) }
    }
}

impl OverTimes {
    fn of(found: &[f64]) -> Self {
        let count = found.len() as f64;
        let mean = found.iter().sum::<f64>() / count;
        let squares: f64 = found.iter().map(|value| (value - mean) * (value - mean)).sum();
        let spread = (squares / (count - 1.0)).sqrt();
        OverTimes {
            mean: mean.is_finite().then_some(mean),
            ratio: (spread > NO_SPREAD).then(|| mean / spread),
        }
    }
}

/// A mean of what is defined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    pub(crate) fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
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

/// The rank of each value, from 1; equal values share their average rank.
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

    fn correlate(times: &[i64], xs: &[f64], ys: &[f64]) -> Correlations {
        Sections::new(times).correlate(xs, ys)
    }

    #[test]
    fn what_is_not_defined_is_none() {
        let nothing = Correlations::default();
        assert_eq!(correlate(&[], &[], &[]), nothing);
        let rising = [1.0, 2.0, 3.0];
        assert_eq!(correlate(&[1, 2, 3], &rising, &rising), nothing, "one series");
        assert_eq!(correlate(&[1, 1, 1], &[0.1; 3], &rising), nothing, "a constant");
    }

    #[test]
    fn times_are_grouped_wherever_their_windows_lie() {
        let times = [5, 1, 5, 1, 5, 1];
        let xs = [1.0, 3.0, 2.0, 2.0, 3.0, 1.0];
        let found = correlate(&times, &xs, &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        let perfect_and_wrong = OverTimes { mean: Some(0.0), ratio: Some(0.0) };
        assert_eq!(found.pearson, perfect_and_wrong, "one time each");
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

    fn naive(rows: &[(i64, f64, f64)], ranked: bool) -> OverTimes {
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
        let n = found.len() as f64;
        let mean = found.iter().sum::<f64>() / n;
        let deviation = found.iter().map(|x| x * x).sum::<f64>() / n - mean * mean;
        let deviation = (deviation.max(0.0) * n / (n - 1.0)).sqrt();
        OverTimes {
            mean: (n > 0.0).then_some(mean),
            ratio: (n > 1.0 && deviation > 1e-6).then(|| mean / deviation),
        }
    }

    #[test]
    fn of_one_time_or_of_equal_ones_there_is_no_ratio() {
        let check = |found: &[f64], mean, ratio| {
            assert_eq!(OverTimes::of(found), OverTimes { mean, ratio }, "{found:?}");
        };
        check(&[], None, None);
        check(&[0.5], Some(0.5), None);
        check(&[0.1, 0.1, 0.1], Some(0.1 * 3.0 / 3.0), None);
        check(&[0.5, 1.0, 0.0], Some(0.5), Some(1.0));
    }

    fn close(found: Option<f64>, expected: Option<f64>) -> bool {
        match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
            (found, expected) => found == expected,
        }
    }

    proptest! {
        #[test]
        fn correlations_follow_their_definitions(
            // Small whole numbers, so that ties and constant groups come up.
            rows in prop::collection::vec((0i64..4, -5i32..5, -5i32..5), 0..40)
        ) {
            let rows: Vec<(i64, f64, f64)> =
                rows.into_iter().map(|(t, x, y)| (t, f64::from(x), f64::from(y))).collect();
            let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let xs: Vec<f64> = rows.iter().map(|row| row.1).collect();
            let ys: Vec<f64> = rows.iter().map(|row| row.2).collect();
            let found = correlate(&times, &xs, &ys);
            for (found, ranked) in [(found.pearson, false), (found.spearman, true)] {
                let expected = naive(&rows, ranked);
                prop_assert!(close(found.mean, expected.mean), "{found:?}");
                prop_assert!(close(found.ratio, expected.ratio), "{found:?}, {expected:?}");
            }
        }
    }
}
