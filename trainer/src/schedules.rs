//! The learning rate of each step: a pure function of the step, so a resume needs no state.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// How the learning rate changes over the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Half a cosine wave from the full rate down to 0 over all steps.
    #[default]
    Cosine,
    /// The full rate throughout.
    Constant,
}

impl Schedule {
    /// The learning rate of step `step` (from 0) of `steps`.
    pub(crate) fn rate(self, full: f64, step: u64, steps: u64) -> f64 {
        match self {
            Schedule::Constant => full,
            Schedule::Cosine => {
                let done = step as f64 / steps.max(1) as f64;
                full * 0.5 * (1.0 + (PI * done).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: Schedule, step: u64, expected: f64) {
        let found = schedule.rate(0.1, step, 100);
        assert!((found - expected).abs() < 1e-12, "{schedule:?} at {step}: {found}");
    }

    #[test]
    fn cosine_starts_full_passes_half_and_ends_at_zero() {
        check(Schedule::Cosine, 0, 0.1);
        check(Schedule::Cosine, 50, 0.05);
        check(Schedule::Cosine, 100, 0.0);
        check(Schedule::Constant, 99, 0.1);
    }
}
