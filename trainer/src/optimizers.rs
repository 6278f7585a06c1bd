//! How gradients become steps: what an optimizer is, and which there are, one line each and a file.

use crate::{error::TrainError, listed::listed, settings::TrainSettings};
use millstream_model::Parameters;
use std::fmt::Debug;
use tch::{TchError, Tensor};

/// An optimizer with its state. The learning rate comes with each step.
pub(crate) trait Optimizer: Debug {
    /// Steps taken.
    fn steps(&self) -> u64;

    /// Takes one step down the gradients.
    ///
    /// # Errors
    /// When libtorch fails.
    fn step(
        &mut self,
        parameters: &mut [Tensor],
        gradients: &[Tensor],
        rate: f64,
    ) -> Result<(), TchError>;

    /// The state as tensors, in the order of [`state_names`](Self::state_names).
    fn state(&self) -> Vec<Tensor>;

    /// The names of the state's tensors in `optimizer.safetensors`, for parameters of these names.
    fn state_names(&self, parameters: &[String]) -> Vec<String>;

    /// Goes on from a saved state.
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
}

impl OptimizerKind {
    /// Whether this optimizer reads a key of `[train]` that not every one has a use for.
    #[must_use]
    pub fn reads(self, key: &str) -> bool {
        self.listed().reads().contains(&key)
    }
}
