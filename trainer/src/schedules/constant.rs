//! The full rate throughout.

use super::{Moment, ShareOfRate};
use crate::settings::TrainSettings;

pub(super) struct Constant;

impl ShareOfRate for Constant {
    fn share(&self, _: Moment, _: &TrainSettings) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rates, Schedule};
    use crate::settings::TrainSettings;

    #[test]
    fn it_never_changes() {
        let settings = TrainSettings {
            schedule: Schedule::Constant,
            learning_rate: 0.1,
            ..TrainSettings::default()
        };
        let rates = Rates::new(&settings, 10, 100);
        assert_eq!([0, 50, 100].map(|step| rates.rate(step)), [0.1; 3]);
    }
}
