//! What Adam and AdamW share: averages of the gradients and of their squares, and the step that
//! libtorch takes with them. They differ in where weight decay goes.

use super::{
    Optimizer, STEPS,
    decay::{self, Group},
};
use crate::settings::TrainSettings;
use millstream_model::{
    Parameters,
    fused::{self, AdamLists, Scaled},
};
use tch::{Device, Kind, TchError, Tensor};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Averages of the gradients and of their squares.
#[derive(Debug)]
pub(super) struct Moments {
    /// Whether decay shrinks the weights themselves.
    decoupled: bool,
    groups: Vec<Group>,
    step: u64,
    /// The steps that were taken, on the device: only there is known which were skipped.
    steps: Tensor,
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
}

impl Moments {
    /// # Errors
    /// When libtorch has no memory for them.
    pub(super) fn new(
        parameters: &Parameters,
        settings: &TrainSettings,
        decoupled: bool,
    ) -> Result<Self, TchError> {
        let groups = decay::groups(parameters, settings);
        let device = parameters.tensors.first().map_or(Device::Cpu, Tensor::device);
        Ok(Moments {
            decoupled,
            groups,
            step: 0,
            steps: Tensor::f_zeros([1], (Kind::Float, device))?,
            averages: zeros(parameters)?,
            squares: zeros(parameters)?,
        })
    }
}

/// Zeros beside every parameter.
///
/// # Errors
/// When libtorch has no memory for them.
pub(super) fn zeros(parameters: &Parameters) -> Result<Vec<Tensor>, TchError> {
    parameters.tensors.iter().map(|tensor| tensor.f_detach()?.f_zeros_like()).collect()
}

impl Optimizer for Moments {
    fn steps(&self) -> u64 {
        self.step
    }

    fn step(
        &mut self,
        parameters: &mut [Tensor],
        gradients: &[Tensor],
        rate: f64,
        scaled: Scaled<'_>,
    ) -> Result<(), TchError> {
        self.step += 1;
        // Before the step, which takes no part of it where it is skipped.
        fused::count_step(&mut self.steps, scaled.found_inf)?;
        let Moments { decoupled, averages, squares, .. } = self;
        let lists = AdamLists { parameters, gradients, averages, squares };
        for Group { members, decay } in &self.groups {
            let adam = fused::Adam {
                rate,
                beta1: BETA1,
                beta2: BETA2,
                weight_decay: *decay,
                epsilon: EPSILON,
                decoupled: *decoupled,
            };
            fused::adam(&lists, members, &self.steps, &adam, scaled)?;
        }
        Ok(())
    }

    fn state(&self) -> Vec<Tensor> {
        let moments = self.averages.iter().chain(&self.squares);
        moments.chain([&self.steps]).map(Tensor::shallow_clone).collect()
    }

    fn state_names(&self, parameters: &[String]) -> Vec<String> {
        let averages = parameters.iter().map(|name| format!("exp_avg.{name}"));
        let squares = parameters.iter().map(|name| format!("exp_avg_sq.{name}"));
        averages.chain(squares).chain([STEPS.to_owned()]).collect()
    }

    fn restore(&mut self, state: &[Tensor], step: u64) -> Result<(), TchError> {
        self.step = step;
        let tensors = self.averages.iter_mut().chain(&mut self.squares).chain([&mut self.steps]);
        for (tensor, saved) in tensors.zip(state) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }
}
