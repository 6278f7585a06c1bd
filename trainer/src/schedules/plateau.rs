//! Lower by a factor whenever so many epochs in a row have not brought the validation loss below its
//! lowest.
//!
//! Of `[train]` it reads `patience`: how many epochs, 2 by default; and `rate_factor`: what the rate is
//! then multiplied by, 0.5 by default. It needs validation windows.

use super::{Moment, ShareOfRate, check_factor};
use crate::{error::TrainError, settings::TrainSettings};

pub(super) struct Plateau;

impl ShareOfRate for Plateau {
    fn share(&self, at: Moment, settings: &TrainSettings) -> f64 {
        settings.rate_factor.powf(at.reductions.into())
    }

    fn reads(&self) -> &'static [&'static str] {
        &["patience", "rate_factor"]
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        check_factor(settings)
    }

    fn reductions(&self, losses: &[f64], settings: &TrainSettings) -> Option<u32> {
        let (mut lowest, mut waited, mut reductions) = (f64::INFINITY, 0, 0);
        for &loss in losses {
            waited += 1;
            if loss < lowest {
                (lowest, waited) = (loss, 0);
            } else if waited == settings.patience.get() {
                (waited, reductions) = (0, reductions + 1);
            }
        }
        Some(reductions)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rates, Schedule};
    use crate::{report::EpochLoss, settings::TrainSettings};

    fn check(patience: u32, losses: &[f64], expected: f64) {
        let settings = TrainSettings {
            schedule: Schedule::Plateau,
            learning_rate: 0.8,
            patience: patience.try_into().unwrap(),
            ..TrainSettings::default()
        };
        let mut rates = Rates::new(&settings, 10, 100);
        let epoch =
            |loss: &f64| EpochLoss { epoch: 1, train_loss: 0.0, validation_loss: Some(*loss) };
        rates.note(&losses.iter().map(epoch).collect::<Vec<_>>());
        assert_eq!(rates.rate(10 * losses.len() as u64), expected, "{losses:?}");
    }

    #[test]
    fn it_goes_down_when_the_loss_no_longer_does() {
        check(2, &[], 0.8);
        check(2, &[3.0, 2.0, 1.0], 0.8);
        check(2, &[3.0, 3.0], 0.8);
        check(2, &[3.0, 3.0, 4.0], 0.4);
        check(2, &[3.0, 4.0, 2.9, 4.0], 0.8);
        check(2, &[3.0, 4.0, 4.0, 3.5, 3.1], 0.2);
        check(1, &[3.0, 4.0, 2.0, 2.0, 2.0], 0.1);
    }
}
