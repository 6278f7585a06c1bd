//! Mean squared error.

use super::MeanLoss;
use tch::{Reduction, TchError, Tensor};

pub(super) struct Mse;

impl MeanLoss for Mse {
    fn mean(&self, forecast: &Tensor, target: &Tensor) -> Result<Tensor, TchError> {
        forecast.f_mse_loss(target, Reduction::Mean)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check(&super::Mse, (0.25 + 9.0) / 2.0);
    }
}
