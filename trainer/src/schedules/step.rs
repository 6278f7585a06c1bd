//! Lower by a factor every few epochs.
//!
//! Of `[train]` it reads `step_epochs`: after how many epochs, 1 by default; and `rate_factor`: what the
//! rate is then multiplied by, 0.5 by default.

use super::{Moment, ShareOfRate, check_factor};
use crate::{error::TrainError, settings::TrainSettings};

pub(super) struct Step;

impl ShareOfRate for Step {
    fn share(&self, at: Moment, settings: &TrainSettings) -> f64 {
        let times = at.epoch / u64::from(settings.step_epochs.get());
        settings.rate_factor.powf(times as f64)
    }

    fn reads(&self) -> &'static [&'static str] {
        &["step_epochs", "rate_factor"]
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        check_factor(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rates, Schedule};
    use crate::settings::TrainSettings;

    #[test]
    fn it_goes_down_with_the_epochs() {
        let settings = TrainSettings {
            schedule: Schedule::Step,
            learning_rate: 0.8,
            step_epochs: 2.try_into().unwrap(),
            rate_factor: 0.5,
            ..TrainSettings::default()
        };
        let rates = Rates::new(&settings, 10, 60);
        let found = [0, 19, 20, 39, 40, 59].map(|step| rates.rate(step));
        assert_eq!(found, [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]);
    }
}
