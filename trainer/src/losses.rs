//! The loss: what training makes small.

use serde::{Deserialize, Serialize};
use tch::{Reduction, TchError, Tensor};

/// What training makes small, and by what the best epoch is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Mean squared error.
    #[default]
    Mse,
    /// Mean absolute error.
    Mae,
    /// Squared below an error of 1 (scaled units), absolute above.
    Huber,
}

/// Beyond this error, in scaled units, the Huber loss grows in a straight line.
const HUBER_DELTA: f64 = 1.0;

impl Loss {
    /// The mean loss of a batch, as a scalar on the batch's device.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn mean(self, forecast: &Tensor, target: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Loss::Mse => forecast.f_mse_loss(target, Reduction::Mean),
            Loss::Mae => forecast.f_l1_loss(target, Reduction::Mean),
            Loss::Huber => forecast.f_huber_loss(target, Reduction::Mean, HUBER_DELTA),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(loss: Loss, expected: f64) {
        let forecast = Tensor::from_slice(&[0.0f32, 0.0]);
        let target = Tensor::from_slice(&[0.5f32, -3.0]);
        let found = loss.mean(&forecast, &target).unwrap().double_value(&[]);
        assert!((found - expected).abs() < 1e-6, "{loss:?}: {found}, expected {expected}");
    }

    #[test]
    fn losses_are_the_textbook_ones() {
        check(Loss::Mse, (0.25 + 9.0) / 2.0);
        check(Loss::Mae, (0.5 + 3.0) / 2.0);
        check(Loss::Huber, (0.5 * 0.25 + (3.0 - 0.5)) / 2.0);
    }
}
