//! [`Limit`]: a part of every pass, to try things out before they are meant.
//!
//! The plan then says so many batches and windows: normalize makes no more, the trainer expects no
//! more, and a schedule runs over the steps that there are.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// How much of each pass there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// All of it.
    #[default]
    None,
    /// At most so many batches of each pass: of an epoch's training, of a validation, of the test, of
    /// forecasts.
    Batches(NonZeroU64),
    /// So many training batches, those that the first epoch begins with, the same in every epoch and
    /// in the same order. Validation is of these very batches, and there is no test: a model that
    /// cannot learn them by heart will not learn anything else. Forecasts are of as many batches.
    Overfit(NonZeroU64),
}

impl Limit {
    /// Batches of a pass at most.
    pub(crate) fn most(self) -> u64 {
        match self {
            Limit::None => u64::MAX,
            Limit::Batches(most) | Limit::Overfit(most) => most.get(),
        }
    }

    /// Whether every epoch is the first, and validated on itself.
    pub(crate) fn overfits(self) -> bool {
        matches!(self, Limit::Overfit(_))
    }

    /// What a person is told when that many windows of all are left to learn from and to be judged by.
    pub(crate) fn warning(self, left: u64, all: u64) -> Option<String> {
        self.if_less(left, all, "of each pass", "figures are of these alone")
    }

    /// The same of windows to forecast. Those come by series, whatever the order in which others are judged.
    pub(crate) fn forecast_warning(self, left: u64, all: u64) -> Option<String> {
        let these = "these alone are forecast, series by series, and no figure is of just these";
        self.if_less(left, all, "of forecasts", these)
    }

    fn if_less(self, left: u64, all: u64, of: &str, then: &str) -> Option<String> {
        match self {
            Limit::Batches(most) | Limit::Overfit(most) if left < all => {
                Some(format!("limited to {} {of}, {left} of {all} windows: {then}", batches(most)))
            }
            _ => None,
        }
    }

    /// What a person is told of a run that is validated on what it learns from.
    pub(crate) fn overfit_warning(self) -> Option<String> {
        let Limit::Overfit(most) = self else { return None };
        Some(format!(
            "overfitting {}: validation is on the very windows that are learned from and there is no test, so figures only say whether the model can learn them by heart",
            batches(most)
        ))
    }
}

fn batches(count: NonZeroU64) -> String {
    if count.get() == 1 { "1 batch".to_owned() } else { format!("{count} batches") }
}
