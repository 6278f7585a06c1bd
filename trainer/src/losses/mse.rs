//! Mean squared error.

use super::{MeanLoss, Outcomes};
use tch::{Reduction, TchError, Tensor};

pub(super) struct Mse;

impl MeanLoss for Mse {
    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        outputs.f_mse_loss(came.targets, Reduction::Mean)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check::check(&super::Mse, (0.25 + 9.0) / 2.0);
    }
}
