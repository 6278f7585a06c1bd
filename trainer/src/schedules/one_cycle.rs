//! One cycle (Smith and Topin, 2018), as PyTorch defines it: from a 25th of the full rate up to it over
//! the first 30 % of the steps and down to a 250 000th over the others, each half a cosine wave. Momentum
//! does not change.

use super::{Moment, ShareOfRate};
use crate::settings::TrainSettings;
use std::f64::consts::PI;

/// The share of the steps that goes up.
const RISING: f64 = 0.3;
const FIRST: f64 = 1.0 / 25.0;
const LAST: f64 = FIRST / 1e4;

pub(super) struct OneCycle;

impl ShareOfRate for OneCycle {
    fn share(&self, at: Moment, _: &TrainSettings) -> f64 {
        let (step, steps) = (at.step as f64, at.steps as f64);
        // A run of a few steps has none to go up with.
        let top = (RISING * steps - 1.0).max(0.0);
        let wave =
            |from: f64, to: f64, done: f64| to + (from - to) / 2.0 * (1.0 + (PI * done).cos());
        if step < top {
            return wave(FIRST, 1.0, step / top);
        }
        wave(1.0, LAST, ((step - top) / (steps - 1.0 - top).max(1.0)).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rates, Schedule};
    use crate::settings::TrainSettings;

    /// As `torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)` gives it.
    #[test]
    fn it_rises_and_falls_as_pytorch_has_it() {
        let settings = TrainSettings {
            schedule: Schedule::OneCycle,
            learning_rate: 0.1,
            ..TrainSettings::default()
        };
        let check = |steps: u64, step: u64, expected: f64| {
            let found = Rates::new(&settings, 10, steps).rate(step);
            assert!((found - expected).abs() < 1e-9, "at {step} of {steps}: {found}");
        };
        check(100, 0, 0.004);
        check(100, 29, 0.1);
        check(100, 64, (0.1 + 4e-7) / 2.0);
        check(100, 99, 4e-7);
        check(1, 0, 0.1);
        check(2, 0, 0.1);
    }
}
