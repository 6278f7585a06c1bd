//! How gradients become steps: what an optimizer is, and which there are, one line each and a file.
//!
//! All of them are libtorch's fused ones (`millstream_model::fused`): one call for all parameters, on
//! the device, which takes what gradients are scaled by and whether one of them is infinite without
//! asking the host.

mod decay;
mod moments;
#[cfg(test)]
mod published;

use crate::{error::TrainError, listed::listed, settings::TrainSettings};
use millstream_model::{Parameters, fused::Scaled};
use std::fmt::Debug;
use tch::{TchError, Tensor};

/// What the state calls the steps that were taken, without those that were skipped. Files of older
/// versions do not have it; they skipped none.
pub(crate) const STEPS: &str = "steps";

/// An optimizer with its state. The learning rate comes with each step.
pub(crate) trait Optimizer: Debug {
    /// Steps of the run: also those that were skipped, of which the host need not know.
    fn steps(&self) -> u64;

    /// Takes one step down the gradients, which are undefined where a parameter had no part in the
    /// loss. Where `scaled` has found a gradient that is not finite, weights and state stay as they
    /// are.
    ///
    /// # Errors
    /// When libtorch fails.
    fn step(
        &mut self,
        parameters: &mut [Tensor],
        gradients: &[Tensor],
        rate: f64,
        scaled: Scaled<'_>,
    ) -> Result<(), TchError>;

    /// The state as tensors, in the order of [`state_names`](Self::state_names).
    fn state(&self) -> Vec<Tensor>;

    /// The names of the state's tensors in `optimizer.safetensors`, for parameters of these names.
    fn state_names(&self, parameters: &[String]) -> Vec<String>;

    /// Goes on from a saved state, `step` steps into the run.
    ///
    /// # Errors
    /// When libtorch fails.
    fn restore(&mut self, state: &[Tensor], step: u64) -> Result<(), TchError>;
}

/// How an optimizer is made of the settings.
pub(crate) trait BuildOptimizer {
    /// An optimizer before its first step.
    ///
    /// # Errors
    /// When libtorch has no memory for its state.
    fn build(
        &self,
        parameters: &Parameters,
        settings: &TrainSettings,
    ) -> Result<Box<dyn Optimizer>, TchError>;

    /// The keys of `[train]` that it reads and others need not; beside one that does not, they are
    /// refused.
    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    /// `train.weight_decay` where that is not set.
    fn weight_decay(&self) -> f64 {
        0.0
    }

    /// Refuses what it reads where that is out of range.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let _ = settings;
        Ok(())
    }
}

listed! {
    /// The optimizers there are.
    OptimizerKind: BuildOptimizer;
    adamw::Adamw, "Adam with decoupled weight decay.";
    adam::Adam, "Adam, with weight decay as a part of the gradient.";
    sgd::Sgd, "Stochastic gradient descent with momentum, weight decay as a part of the gradient.";
}

impl OptimizerKind {
    /// Whether this optimizer reads a key of `[train]` that not every one has a use for.
    #[must_use]
    pub fn reads(self, key: &str) -> bool {
        self.listed().reads().contains(&key)
    }
}
