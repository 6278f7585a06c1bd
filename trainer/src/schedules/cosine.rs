//! Half a cosine wave from the full rate down to 0 over all steps (Loshchilov and Hutter, 2017,
//! without restarts).

use super::{Moment, ShareOfRate};
use crate::settings::TrainSettings;
use std::f64::consts::PI;

pub(super) struct Cosine;

impl ShareOfRate for Cosine {
    fn share(&self, at: Moment, _: &TrainSettings) -> f64 {
        let done = at.step as f64 / at.steps.max(1) as f64;
        0.5 * (1.0 + (PI * done).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rates;
    use crate::settings::TrainSettings;

    fn check(step: u64, expected: f64) {
        let settings = TrainSettings { learning_rate: 0.1, ..TrainSettings::default() };
        let found = Rates::new(&settings, 10, 100).rate(step);
        assert!((found - expected).abs() < 1e-12, "at {step}: {found}");
    }

    #[test]
    fn it_starts_full_passes_half_and_ends_at_zero() {
        check(0, 0.1);
        check(50, 0.05);
        check(100, 0.0);
    }
}
