//! The loss: what training makes small. Those there are: one line each, and a file.
//!
//! A loss says what a model's outputs are to stand for ([`Heads`]), and holds them against what came.

use crate::{error::TrainError, listed::listed, metrics::Metrics, settings::TrainSettings};
use millstream_data::{Heads, Plan};
use millstream_model::{Architecture, BatchTensors};
use tch::{TchError, Tensor};

/// What a loss holds the outputs of a model against.
#[derive(Debug)]
pub(crate) struct Outcomes<'a> {
    /// What the outputs stand for.
    pub(crate) heads: &'a Heads,
    /// `[rows, horizon, targets]`: what came, scaled.
    pub(crate) targets: &'a Tensor,
    /// The time of each row.
    pub(crate) times: &'a [i64],
}

/// What training makes small.
pub(crate) trait MeanLoss {
    /// Whether it reads this setting of its own.
    fn reads(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Refuses settings out of their range.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the first of them.
    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let _ = settings;
        Ok(())
    }

    /// Refuses a stream, or a model, that it says nothing of.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the key that it rules out.
    fn check_stream(&self, plan: &Plan, model: &dyn Architecture) -> Result<(), TrainError> {
        let _ = (plan, model);
        Ok(())
    }

    /// What the outputs are to stand for.
    fn heads(&self, settings: &TrainSettings) -> Heads {
        let _ = settings;
        Heads::Value
    }

    /// The mean loss of a batch, as a scalar on the batch's device.
    ///
    /// # Errors
    /// When libtorch fails.
    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError>;

    /// Checks what only an epoch can tell, by its mean loss.
    ///
    /// # Errors
    /// [`TrainError::Setting`] when nothing can be learned from these windows.
    fn check_epoch(&self, mean: f64) -> Result<(), TrainError> {
        let _ = mean;
        Ok(())
    }

    /// Checks what only a validation pass can tell, by its figures before training.
    ///
    /// # Errors
    /// [`TrainError::Setting`] when it cannot tell epochs apart.
    fn check_validation(&self, figures: &Metrics) -> Result<(), TrainError> {
        let _ = figures;
        Ok(())
    }

    /// The loss of a whole pass with these figures, where that is not the mean over its windows.
    fn of_pass(&self, figures: &Metrics) -> Option<f64> {
        let _ = figures;
        None
    }
}

listed! {
    /// What training makes small, and by what the best epoch is chosen.
    Loss: MeanLoss;
    mse::Mse, "Mean squared error.";
    mae::Mae, "Mean absolute error.";
    huber::Huber, "Squared below an error of 1 (scaled units), absolute above.";
    quantile::Quantile, "Pinball loss of each of `train.quantiles`.";
    bce::Bce, "Cross-entropy of the direction, up or down.";
    ic::Ic, "Minus the correlation across series at a time.";
}

impl Loss {
    /// The mean loss of a batch, of which a model has made these outputs.
    pub(crate) fn of_batch(
        self,
        heads: &Heads,
        outputs: &Tensor,
        batch: &BatchTensors,
    ) -> Result<Tensor, TchError> {
        let times = &batch.batch().meta().time;
        let came = Outcomes { heads, targets: &batch.targets, times };
        self.listed().mean(outputs, &came)
    }

    /// Whether this setting has an effect on it.
    #[must_use]
    pub fn reads(self, key: &str) -> bool {
        self.listed().reads(key)
    }
}

#[cfg(test)]
mod check {
    //! What the tests of losses have in common.

    use super::{MeanLoss, Outcomes};
    use millstream_data::Heads;
    use tch::{Kind, Tensor};

    /// Against textbook numbers.
    pub(super) fn check(loss: &dyn MeanLoss, expected: f64) {
        let forecast = Tensor::from_slice(&[0.0f32, 0.0]);
        let targets = Tensor::from_slice(&[0.5f32, -3.0]);
        let came = Outcomes { heads: &Heads::Value, targets: &targets, times: &[1, 2] };
        let found = loss.mean(&forecast, &came).unwrap().double_value(&[]);
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    }

    /// The loss, and its gradient by every output.
    pub(super) fn with_gradient(
        loss: &dyn MeanLoss,
        outputs: &Tensor,
        came: &Outcomes<'_>,
    ) -> (f64, Vec<f64>) {
        let outputs = outputs.copy().set_requires_grad(true);
        let found = loss.mean(&outputs, came).unwrap();
        found.backward();
        let gradient = outputs.grad().to_kind(Kind::Double).flatten(0, -1);
        (found.double_value(&[]), Vec::try_from(gradient).unwrap())
    }

    /// The gradient of a formula, by central differences in `f64`.
    pub(super) fn differences(formula: impl Fn(&[f64]) -> f64, at: &[f64]) -> Vec<f64> {
        const STEP: f64 = 1e-5;
        let moved = |place: usize, by: f64| {
            let mut moved = at.to_vec();
            moved[place] += by;
            formula(&moved)
        };
        (0..at.len()).map(|i| (moved(i, STEP) - moved(i, -STEP)) / (2.0 * STEP)).collect()
    }

    pub(super) fn check_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let close = (found - expected).abs() < 1e-5 * expected.abs().max(1.0);
            assert!(close, "{found}, expected {expected}");
        }
    }
}
