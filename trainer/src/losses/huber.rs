//! Huber loss: squared below an error of [`DELTA`], absolute above.

use super::MeanLoss;
use tch::{Reduction, TchError, Tensor};

/// Beyond this error, in scaled units, the loss grows in a straight line.
const DELTA: f64 = 1.0;

pub(super) struct Huber;

impl MeanLoss for Huber {
    fn mean(&self, forecast: &Tensor, target: &Tensor) -> Result<Tensor, TchError> {
        forecast.f_huber_loss(target, Reduction::Mean, DELTA)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check(&super::Huber, (0.5 * 0.25 + (3.0 - 0.5)) / 2.0);
    }
}
