//! Mean absolute error.

use super::{MeanLoss, Outcomes};
use tch::{Reduction, TchError, Tensor};

pub(super) struct Mae;

impl MeanLoss for Mae {
    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        outputs.f_l1_loss(came.targets, Reduction::Mean)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_textbook_one() {
        super::super::check::check(&super::Mae, (0.5 + 3.0) / 2.0);
    }
}
