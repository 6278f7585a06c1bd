//! The loss: what training makes small.

use crate::settings::Loss;
use tch::{Reduction, Tensor};

/// Beyond this error, in scaled units, the Huber loss grows in a straight line.
const HUBER_DELTA: f64 = 1.0;

impl Loss {
    /// The mean loss of a batch, as a scalar on the batch's device.
    pub(crate) fn mean(self, forecast: &Tensor, target: &Tensor) -> Tensor {
        match self {
            Loss::Mse => forecast.mse_loss(target, Reduction::Mean),
            Loss::Mae => forecast.l1_loss(target, Reduction::Mean),
            Loss::Huber => forecast.huber_loss(target, Reduction::Mean, HUBER_DELTA),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(loss: Loss, expected: f64) {
        let forecast = Tensor::from_slice(&[0.0f32, 0.0]);
        let target = Tensor::from_slice(&[0.5f32, -3.0]);
        let found = loss.mean(&forecast, &target).double_value(&[]);
        assert!((found - expected).abs() < 1e-6, "{loss:?}: {found}, expected {expected}");
    }

    #[test]
    fn losses_are_the_textbook_ones() {
        check(Loss::Mse, (0.25 + 9.0) / 2.0);
        check(Loss::Mae, (0.5 + 3.0) / 2.0);
        check(Loss::Huber, (0.5 * 0.25 + (3.0 - 0.5)) / 2.0);
    }
}
