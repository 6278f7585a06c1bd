//! How gradients become steps: what an optimizer is, and which there are.

mod adamw;

use crate::settings::TrainSettings;
use adamw::AdamW;
use millstream_model::Parameters;
use serde::{Deserialize, Serialize};
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

/// The optimizers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Adam with decoupled weight decay.
    #[default]
    Adamw,
}

impl OptimizerKind {
    /// An optimizer of this kind, before its first step.
    ///
    /// # Errors
    /// When libtorch has no memory for its state.
    pub(crate) fn build(
        self,
        parameters: &Parameters,
        settings: &TrainSettings,
    ) -> Result<Box<dyn Optimizer>, TchError> {
        Ok(match self {
            OptimizerKind::Adamw => Box::new(AdamW::new(parameters, settings.weight_decay)?),
        })
    }
}
