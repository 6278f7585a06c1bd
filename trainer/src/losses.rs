//! The loss: what training makes small. Those there are: one line each, and a file.

use crate::listed::listed;
use tch::{TchError, Tensor};

/// What training makes small.
pub(crate) trait MeanLoss {
    /// The mean loss of a batch, as a scalar on the batch's device.
    ///
    /// # Errors
    /// When libtorch fails.
    fn mean(&self, forecast: &Tensor, target: &Tensor) -> Result<Tensor, TchError>;
}

listed! {
    /// What training makes small, and by what the best epoch is chosen.
    Loss: MeanLoss;
    mse::Mse, "Mean squared error.";
    mae::Mae, "Mean absolute error.";
    huber::Huber, "Squared below an error of 1 (scaled units), absolute above.";
}

#[cfg(test)]
fn check(loss: &dyn MeanLoss, expected: f64) {
    let forecast = Tensor::from_slice(&[0.0f32, 0.0]);
    let target = Tensor::from_slice(&[0.5f32, -3.0]);
    let found = loss.mean(&forecast, &target).unwrap().double_value(&[]);
    assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
}
