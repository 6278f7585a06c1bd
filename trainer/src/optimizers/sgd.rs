//! Stochastic gradient descent with momentum (Sutskever et al., 2013), as PyTorch defines it.
//!
//! Of `[train]` it reads `momentum`: how much of the step before is taken again, 0.9 by default, 0 for
//! none; `nesterov`: whether that looks ahead; `weight_decay`: how much of a weight is added to its
//! gradient, 0 by default; and `decay_all`: whether to those of biases and norms too.

use super::{
    BuildOptimizer, Optimizer,
    decay::{self, Group},
    moments::zeros,
};
use crate::{
    error::TrainError,
    settings::{TrainSettings, require},
};
use millstream_model::{
    Parameters,
    fused::{self, Scaled, SgdLists},
};
use tch::{TchError, Tensor};

pub(super) struct Sgd;

impl BuildOptimizer for Sgd {
    fn build(
        &self,
        parameters: &Parameters,
        settings: &TrainSettings,
    ) -> Result<Box<dyn Optimizer>, TchError> {
        let TrainSettings { momentum, nesterov, .. } = *settings;
        let buffers = if momentum > 0.0 { zeros(parameters)? } else { Vec::new() };
        let groups = decay::groups(parameters, settings);
        Ok(Box::new(State { momentum, nesterov, groups, step: 0, buffers }))
    }

    fn reads(&self) -> &'static [&'static str] {
        &[decay::KEYS[0], decay::KEYS[1], "momentum", "nesterov"]
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let TrainSettings { momentum, nesterov, .. } = *settings;
        let share = (0.0..1.0).contains(&momentum);
        require("train.momentum", &momentum, share, "at least 0 and below 1")?;
        let looks = momentum > 0.0 || !nesterov;
        require("train.nesterov", &nesterov, looks, "false where train.momentum is 0")?;
        decay::check(settings)
    }
}

/// The optimizer's state.
#[derive(Debug)]
struct State {
    momentum: f64,
    nesterov: bool,
    groups: Vec<Group>,
    step: u64,
    /// Empty without momentum.
    buffers: Vec<Tensor>,
}

impl Optimizer for State {
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
        let State { momentum, nesterov, ref buffers, .. } = *self;
        let lists = SgdLists { parameters, gradients, buffers };
        for &Group { ref members, decay } in &self.groups {
            let sgd = fused::Sgd { rate, momentum, weight_decay: decay, nesterov };
            fused::sgd(&lists, members, &sgd, scaled)?;
        }
        Ok(())
    }

    fn state(&self) -> Vec<Tensor> {
        self.buffers.iter().map(Tensor::shallow_clone).collect()
    }

    fn state_names(&self, parameters: &[String]) -> Vec<String> {
        let named = parameters.iter().take(self.buffers.len());
        named.map(|name| format!("momentum_buffer.{name}")).collect()
    }

    fn restore(&mut self, state: &[Tensor], step: u64) -> Result<(), TchError> {
        self.step = step;
        for (tensor, saved) in self.buffers.iter_mut().zip(state) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OptimizerKind, published};

    /// The formula in the PyTorch manual.
    #[test]
    fn steps_follow_the_published_formula() {
        for (momentum, nesterov) in [(0.0, false), (0.9, false), (0.9, true)] {
            let formula = |one: &mut published::One, gradient: f64, rate: f64, decay: f64| {
                let gradient = gradient + decay * one.theta;
                one.m = momentum * one.m + gradient;
                one.theta -= rate * if nesterov { gradient + momentum * one.m } else { one.m };
            };
            published::check(
                OptimizerKind::Sgd,
                |settings| (settings.momentum, settings.nesterov) = (momentum, nesterov),
                formula,
            );
        }
    }
}
