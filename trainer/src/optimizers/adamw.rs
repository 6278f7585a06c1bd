//! AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as PyTorch defines it.
//!
//! Our own because tch offers no way to save an optimizer's state. All updates are in place and on
//! the device; the host knows only the step count and the rate. tch's in-place methods return a
//! second handle to the tensor, which is dropped on the spot.
//!
//! Of `[train]` it reads `weight_decay`: by how much of the learning rate every parameter shrinks in a
//! step; 0.01 by default, 0 for none.

use super::{BuildOptimizer, Optimizer};
use crate::{
    error::TrainError,
    settings::{TrainSettings, not_negative, require},
};
use millstream_model::Parameters;
use tch::{TchError, Tensor};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

pub(super) struct Adamw;

impl BuildOptimizer for Adamw {
    fn build(
        &self,
        parameters: &Parameters,
        settings: &TrainSettings,
    ) -> Result<Box<dyn Optimizer>, TchError> {
        Ok(Box::new(State::new(parameters, settings.weight_decay)?))
    }

    fn reads(&self) -> &'static [&'static str] {
        &["weight_decay"]
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let decay = settings.weight_decay;
        require("train.weight_decay", &decay, not_negative(decay), "a number not below 0")
    }
}

/// The optimizer's state.
#[derive(Debug)]
struct State {
    weight_decay: f64,
    step: u64,
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
    /// Working memory, one per parameter, so that a step allocates nothing.
    scratch: Vec<Tensor>,
}

impl State {
    /// # Errors
    /// When libtorch has no memory for the state.
    fn new(parameters: &Parameters, weight_decay: f64) -> Result<Self, TchError> {
        let zeros = || -> Result<Vec<Tensor>, TchError> {
            parameters.tensors.iter().map(|tensor| tensor.f_detach()?.f_zeros_like()).collect()
        };
        let (averages, squares, scratch) = (zeros()?, zeros()?, zeros()?);
        Ok(State { weight_decay, step: 0, averages, squares, scratch })
    }
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
    ) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        self.step += 1;
        let exponent = self.step as f64;
        let step_size = rate / (1.0 - BETA1.powf(exponent));
        let correction = (1.0 - BETA2.powf(exponent)).sqrt();
        let moments = self.averages.iter_mut().zip(&mut self.squares).zip(&mut self.scratch);
        for ((parameter, gradient), ((average, square), scratch)) in
            parameters.iter_mut().zip(gradients).zip(moments)
        {
            let _ = parameter.f_mul_scalar_(1.0 - rate * self.weight_decay)?;
            let _ = average.f_lerp_(gradient, 1.0 - BETA1)?;
            let _ = gradient.f_square_out(scratch)?;
            let _ = square.f_lerp_(scratch, 1.0 - BETA2)?;
            let _ = square.f_sqrt_out(scratch)?;
            let _ = scratch.f_div_scalar_(correction)?;
            let _ = scratch.f_add_scalar_(EPSILON)?;
            let _ = average.f_div_out(scratch, scratch)?;
            let _ = scratch.f_mul_scalar_(-step_size)?;
            let _ = parameter.f_add_(scratch)?;
        }
        Ok(())
    }

    fn state(&self) -> Vec<Tensor> {
        self.averages.iter().chain(&self.squares).map(Tensor::shallow_clone).collect()
    }

    fn state_names(&self, parameters: &[String]) -> Vec<String> {
        let averages = parameters.iter().map(|name| format!("exp_avg.{name}"));
        let squares = parameters.iter().map(|name| format!("exp_avg_sq.{name}"));
        averages.chain(squares).collect()
    }

    fn restore(&mut self, state: &[Tensor], step: u64) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        self.step = step;
        for (tensor, saved) in self.averages.iter_mut().chain(&mut self.squares).zip(state) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;
    use tch::Device;

    /// One parameter by the formula in the PyTorch manual, in f64.
    struct Reference {
        theta: f64,
        m: f64,
        v: f64,
    }

    impl Reference {
        fn step(&mut self, gradient: f64, rate: f64, decay: f64, t: i32) {
            self.theta -= rate * decay * self.theta;
            self.m = 0.9 * self.m + 0.1 * gradient;
            self.v = 0.999 * self.v + 0.001 * gradient * gradient;
            let m_hat = self.m / (1.0 - 0.9f64.powi(t));
            let v_hat = self.v / (1.0 - 0.999f64.powi(t));
            self.theta -= rate * m_hat / (v_hat.sqrt() + 1e-8);
        }
    }

    fn parameters() -> Parameters {
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(3);
        parameters.draw("w", &[2, 3], 1.0, &mut random, Device::Cpu).unwrap();
        parameters.draw("b", &[4], 1.0, &mut random, Device::Cpu).unwrap();
        parameters
    }

    fn gradients(random: &mut SplitMix64) -> Vec<Vec<f32>> {
        [6, 4].iter().map(|&n| (0..n).map(|_| random.uniform(0.1)).collect()).collect()
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let mut values = vec![0.0; tensor.numel()];
        tensor.copy_data(&mut values, tensor.numel());
        values
    }

    fn as_tensors(gradients: &[Vec<f32>]) -> Vec<Tensor> {
        vec![Tensor::from_slice(&gradients[0]).view([2, 3]), Tensor::from_slice(&gradients[1])]
    }

    #[test]
    fn twenty_steps_follow_the_published_formula() {
        let mut parameters = parameters();
        let mut reference: Vec<Reference> = parameters
            .tensors
            .iter()
            .flat_map(values)
            .map(|theta| Reference { theta: f64::from(theta), m: 0.0, v: 0.0 })
            .collect();
        let mut optimizer = State::new(&parameters, 0.05).unwrap();
        let mut random = SplitMix64::new(9);
        for t in 1..=20 {
            let rate = 1e-2 / f64::from(t);
            let gradients = gradients(&mut random);
            optimizer.step(&mut parameters.tensors, &as_tensors(&gradients), rate).unwrap();
            for (one, gradient) in reference.iter_mut().zip(gradients.iter().flatten()) {
                one.step(f64::from(*gradient), rate, 0.05, t);
            }
        }
        let found: Vec<f32> = parameters.tensors.iter().flat_map(values).collect();
        for (found, expected) in found.iter().zip(&reference) {
            let expected = expected.theta;
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    }

    #[test]
    fn a_restored_state_goes_on_with_the_same_bits() {
        let (mut one, mut two) = (parameters(), parameters());
        let mut first = State::new(&one, 0.01).unwrap();
        let mut random = SplitMix64::new(5);
        let steps: Vec<Vec<Tensor>> = (0..6).map(|_| as_tensors(&gradients(&mut random))).collect();
        for step in &steps[..3] {
            first.step(&mut one.tensors, step, 1e-2).unwrap();
        }
        two.restore(&one.snapshot().unwrap()).unwrap();
        let mut second = State::new(&two, 0.01).unwrap();
        second.restore(&first.state(), first.steps()).unwrap();
        for step in &steps[3..] {
            first.step(&mut one.tensors, step, 1e-2).unwrap();
            second.step(&mut two.tensors, step, 1e-2).unwrap();
        }
        for (a, b) in one.tensors.iter().zip(&two.tensors) {
            assert!(a.equal(b));
        }
    }
}
