//! Mean absolute error.

use super::MeanLoss;
use tch::{Reduction, TchError, Tensor};

pub(super) struct Mae;

impl MeanLoss for Mae {
    fn mean(&self, forecast: &Tensor, target: &Tensor) -> Result<Tensor, TchError> {
        forecast.f_l1_loss(target, Reduction::Mean)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check(&super::Mae, (0.5 + 3.0) / 2.0);
    }
}
