//! AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as PyTorch defines it.
//!
//! Of `[train]` it reads `weight_decay`: by how much of the learning rate a weight shrinks in a step;
//! 0.01 by default, 0 for none. And `decay_all`: whether biases and norms shrink too.

use super::{BuildOptimizer, Optimizer, decay, moments::Moments};
use crate::{error::TrainError, settings::TrainSettings};
use millstream_model::Parameters;
use tch::TchError;

pub(super) struct Adamw;

impl BuildOptimizer for Adamw {
    fn build(
        &self,
        parameters: &Parameters,
        settings: &TrainSettings,
    ) -> Result<Box<dyn Optimizer>, TchError> {
        Ok(Box::new(Moments::new(parameters, settings, true)?))
    }

    fn reads(&self) -> &'static [&'static str] {
        &decay::KEYS
    }

    fn weight_decay(&self) -> f64 {
        0.01
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        decay::check(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OptimizerKind, published};

    /// The formula in the PyTorch manual.
    #[test]
    fn steps_follow_the_published_formula() {
        let formula = |one: &mut published::One, gradient: f64, rate: f64, decay: f64| {
            one.theta -= rate * decay * one.theta;
            one.m = 0.9 * one.m + 0.1 * gradient;
            one.v = 0.999 * one.v + 0.001 * gradient * gradient;
            let m_hat = one.m / (1.0 - 0.9f64.powi(one.t));
            let v_hat = one.v / (1.0 - 0.999f64.powi(one.t));
            one.theta -= rate * m_hat / (v_hat.sqrt() + 1e-8);
        };
        published::check(OptimizerKind::Adamw, |_| {}, formula);
    }
}
