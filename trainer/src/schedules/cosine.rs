//! Half a cosine wave from the full rate down to 0 over all steps (Loshchilov and Hutter, 2017,
//! without restarts).

use super::RateOfStep;
use std::f64::consts::PI;

pub(super) struct Cosine;

impl RateOfStep for Cosine {
    fn rate(&self, full: f64, step: u64, steps: u64) -> f64 {
        let done = step as f64 / steps.max(1) as f64;
        full * 0.5 * (1.0 + (PI * done).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(step: u64, expected: f64) {
        let found = Cosine.rate(0.1, step, 100);
        assert!((found - expected).abs() < 1e-12, "at {step}: {found}");
    }

    #[test]
    fn it_starts_full_passes_half_and_ends_at_zero() {
        check(0, 0.1);
        check(50, 0.05);
        check(100, 0.0);
    }
}
