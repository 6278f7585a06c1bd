//! How good quantiles are: pinball loss, and how often outcomes lie below each and between the outermost.

use serde::{Deserialize, Serialize};

/// The figures of one quantile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuantileMetrics {
    /// Which one, between 0 and 1.
    pub quantile: f64,
    /// Mean of `max(q * (outcome - forecast), (q - 1) * (outcome - forecast))`, in scaled units.
    pub pinball: Option<f64>,
    /// The same in user units. Of several targets, the mean of what each of them has.
    pub pinball_raw: Option<f64>,
    /// Share of the outcomes that lie at or below it, in user units as `f32`: `quantile` itself, where
    /// it is what it says.
    pub coverage: Option<f64>,
}

/// What the quantiles of a forecaster come to together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct OfAll {
    pub(crate) pinball: Option<f64>,
    pub(crate) pinball_raw: Option<f64>,
    pub(crate) coverage: Option<f64>,
}

/// Sums over windows; of none where there are no quantiles.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QuantileSums {
    count: u64,
    /// Outcomes from the lowest quantile to the highest.
    inside: u64,
    each: Vec<EachSums>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct EachSums {
    quantile: f64,
    pinball: f64,
    pinball_raw: f64,
    covered: u64,
}

/// A number in both units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InBothUnits {
    pub(crate) scaled: f32,
    pub(crate) raw: f64,
}

impl QuantileSums {
    pub(crate) fn new(quantiles: &[f64]) -> Self {
        let each = |quantile: &f64| EachSums { quantile: *quantile, ..EachSums::default() };
        QuantileSums { each: quantiles.iter().map(each).collect(), ..QuantileSums::default() }
    }

    /// Adds an outcome and what each quantile said of it.
    pub(crate) fn count(
        &mut self,
        outcome: InBothUnits,
        said: impl Iterator<Item = InBothUnits> + Clone,
    ) {
        self.count += 1;
        for (sums, said) in self.each.iter_mut().zip(said.clone()) {
            let error = f64::from(outcome.scaled) - f64::from(said.scaled);
            sums.pinball += pinball(sums.quantile, error);
            sums.pinball_raw += pinball(sums.quantile, outcome.raw - said.raw);
            sums.covered += u64::from(outcome.raw as f32 <= said.raw as f32);
        }
        let (outcome, mut said) = (outcome.raw as f32, said.map(|said| said.raw as f32));
        if let Some(lowest) = said.next() {
            let highest = said.last().unwrap_or(lowest);
            self.inside += u64::from((lowest..=highest).contains(&outcome));
        }
    }

    pub(crate) fn add(&mut self, other: &QuantileSums) {
        self.count += other.count;
        self.inside += other.inside;
        if self.each.is_empty() {
            self.each.clone_from(&other.each);
            return;
        }
        for (sums, other) in self.each.iter_mut().zip(&other.each) {
            sums.pinball += other.pinball;
            sums.pinball_raw += other.pinball_raw;
            sums.covered += other.covered;
        }
    }

    fn mean(&self, sum: f64) -> Option<f64> {
        Some(sum / self.count as f64).filter(|mean| mean.is_finite())
    }

    /// By quantile.
    pub(crate) fn each(&self) -> Vec<QuantileMetrics> {
        let metrics = |sums: &EachSums| QuantileMetrics {
            quantile: sums.quantile,
            pinball: self.mean(sums.pinball),
            pinball_raw: self.mean(sums.pinball_raw),
            coverage: self.mean(sums.covered as f64),
        };
        self.each.iter().map(metrics).collect()
    }

    pub(crate) fn of_all(&self) -> OfAll {
        let quantiles = self.each.len() as f64;
        let mean = |of: fn(&EachSums) -> f64| {
            self.mean(self.each.iter().map(of).sum::<f64>() / quantiles).filter(|m| m.is_finite())
        };
        OfAll {
            pinball: mean(|sums| sums.pinball),
            pinball_raw: mean(|sums| sums.pinball_raw),
            // Between one quantile and itself there is nothing.
            coverage: (quantiles > 1.0).then(|| self.mean(self.inside as f64)).flatten(),
        }
    }
}

fn pinball(quantile: f64, error: f64) -> f64 {
    (quantile * error).max((quantile - 1.0) * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(raw: f64) -> InBothUnits {
        InBothUnits { scaled: raw as f32 * 2.0, raw }
    }

    #[test]
    fn figures_are_those_of_the_definition() {
        let mut sums = QuantileSums::new(&[0.25, 0.5, 0.75]);
        let said = [1.0, 2.0, 3.0];
        for outcome in [0.0, 1.0, 2.5, 3.0, 5.0] {
            sums.count(both(outcome), said.iter().map(|said| both(*said)));
        }
        let each = sums.each();
        // Errors of the lowest: -1, 0, 1.5, 2, 4.
        assert_eq!(each[0].pinball_raw, Some((0.75 + 0.25 * 7.5) / 5.0));
        assert_eq!(each[0].pinball, Some(2.0 * (0.75 + 0.25 * 7.5) / 5.0));
        let coverage: Vec<_> = each.iter().map(|quantile| quantile.coverage).collect();
        assert_eq!(coverage, [Some(0.4), Some(0.4), Some(0.8)]);
        let mean = each.iter().filter_map(|quantile| quantile.pinball).sum::<f64>() / 3.0;
        let of_all = sums.of_all();
        assert!((of_all.pinball.unwrap() - mean).abs() < 1e-12);
        assert_eq!(of_all.coverage, Some(0.6), "1, 2.5 and 3");
    }

    #[test]
    fn what_is_not_defined_is_none() {
        assert_eq!(QuantileSums::default().of_all(), OfAll::default());
        assert_eq!(QuantileSums::new(&[0.1, 0.5]).of_all(), OfAll::default());
        let mut one = QuantileSums::new(&[0.5]);
        one.count(both(1.0), [both(1.0)].into_iter());
        assert_eq!((one.of_all().pinball, one.of_all().coverage), (Some(0.0), None));
    }
}
