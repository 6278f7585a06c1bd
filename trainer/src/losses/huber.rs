//! Huber loss: squared below an error of [`DELTA`], absolute above.

use super::{MeanLoss, Outcomes};
use tch::{Reduction, TchError, Tensor};

/// Beyond this error, in scaled units, the loss grows in a straight line.
const DELTA: f64 = 1.0;

pub(super) struct Huber;

impl MeanLoss for Huber {
    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        outputs.f_huber_loss(came.targets, Reduction::Mean, DELTA)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check::check(&super::Huber, (0.5 * 0.25 + (3.0 - 0.5)) / 2.0);
    }
}
