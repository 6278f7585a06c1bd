//! The floor: the same network in the shortest loop that libtorch allows.
//!
//! AdamW is written out, with the same arithmetic as the trainer's in as few calls as tch offers:
//! libtorch's own optimizer makes fresh gradients on every step, and takes longer. No loss is read
//! until the end, and nothing is logged, checked or counted.

use crate::{
    agree::{Learned, Run},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    workload::Work,
};
use std::f64::consts::PI;
use tch::{Device, Kind, Reduction, Tensor};

/// Learns the epoch from these weights: the recurrent ones, then the head's two.
pub(crate) fn run(work: &Work, first: &[(String, Tensor)]) -> Result<Run, Failure> {
    let copy = |(_, value): &(String, Tensor)| value.copy().set_requires_grad(true);
    let mut weights: Vec<Tensor> = first.iter().map(copy).collect();
    let settings = &work.settings;
    let mut optimizer = AdamW::new(&weights, settings.weight_decay);

    let hidden = work.kind.hidden().get() as i64;
    let state = [1, work.layout.batch_size as i64, hidden];
    let states = [(), ()].map(|()| Tensor::zeros(state, (Kind::Float, Device::Cpu)));
    let mut losses = Vec::with_capacity(work.steps() as usize);
    let mut step = |index: u64| {
        let (inputs, targets) = work.tensors(index);
        let (recurrent, head) = weights.split_at(weights.len() - 2);
        let (_, last, _) = inputs.lstm(&states, recurrent, true, 1, 0.0, true, false, true);
        let forecast = last.select(0, -1).linear(&head[0], Some(&head[1])).view([-1, 1, 1]);
        let loss = forecast.mse_loss(targets, Reduction::Mean);
        loss.backward();
        losses.push(loss.detach());

        let mut gradients: Vec<Tensor> = weights.iter().map(Tensor::grad).collect();
        clip(&mut gradients, settings.clip_norm);
        let done = index as f64 / work.steps() as f64;
        let rate = settings.learning_rate * 0.5 * (1.0 + (PI * done).cos());
        optimizer.step(&mut weights, &gradients, rate);
        gradients.iter_mut().for_each(|gradient| drop(gradient.zero_()));
    };
    step(0);
    let clock = Clock::start(Whose::Own)?;
    (1..=work.timed_steps).for_each(&mut step);
    let sample = clock.stop()?;
    step(work.steps() - 1);

    let loss = Tensor::stack(&losses, 0).mean(Kind::Double).double_value(&[]);
    let names = first.iter().map(|(name, _)| name.clone());
    let weights = names.zip(weights.iter().map(Tensor::detach)).collect();
    Ok(Run { sample, learned: Learned { loss, weights } })
}

/// On the CPU the host may know the norm, and then most steps have nothing to clip.
fn clip(gradients: &mut [Tensor], limit: f64) {
    let norms: Vec<Tensor> = gradients.iter().map(Tensor::norm).collect();
    let factor = limit / (Tensor::stack(&norms, 0).norm().double_value(&[]) + 1e-6);
    if factor < 1.0 {
        gradients.iter_mut().for_each(|gradient| *gradient *= factor);
    }
}

struct AdamW {
    weight_decay: f64,
    step: i32,
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
    scratch: Vec<Tensor>,
}

impl AdamW {
    fn new(weights: &[Tensor], weight_decay: f64) -> Self {
        let zeros = || weights.iter().map(|tensor| tensor.detach().zeros_like()).collect();
        AdamW { weight_decay, step: 0, averages: zeros(), squares: zeros(), scratch: zeros() }
    }

    fn step(&mut self, weights: &mut [Tensor], gradients: &[Tensor], rate: f64) {
        const BETAS: (f64, f64) = (0.9, 0.999);
        let _guard = tch::no_grad_guard();
        self.step += 1;
        let step_size = rate / (1.0 - BETAS.0.powi(self.step));
        let correction = (1.0 - BETAS.1.powi(self.step)).sqrt();
        let moments = self.averages.iter_mut().zip(&mut self.squares).zip(&mut self.scratch);
        for ((weight, gradient), ((average, square), scratch)) in
            weights.iter_mut().zip(gradients).zip(moments)
        {
            *weight *= 1.0 - rate * self.weight_decay;
            drop(average.lerp_(gradient, 1.0 - BETAS.0));
            drop(gradient.square_out(scratch));
            drop(square.lerp_(scratch, 1.0 - BETAS.1));
            // The denominator over the negative step size, so that one call does the rest.
            drop(square.sqrt_out(scratch));
            *scratch *= -1.0 / (correction * step_size);
            *scratch -= 1e-8 / step_size;
            drop(weight.addcdiv_(average, scratch));
        }
    }
}
