//! The floor: the same network in the shortest loop that libtorch allows.
//!
//! AdamW is libtorch's fused one, and gradients are not kept between steps, as PyTorch does by default.
//! On the CPU the host may know the norm, so that most steps have nothing to clip. No loss is read
//! until the end, and nothing is logged, checked or counted.

use crate::{
    agree::{Learned, Run},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    networks::Network,
    workload::Work,
};
use millstream_model::fused::{self, AdamLists, Scaled};
use std::f64::consts::PI;
use tch::{Device, Kind, Reduction, Tensor};

/// Learns the epoch from these weights.
pub(crate) fn run(work: &Work, first: &[(String, Tensor)]) -> Result<Run, Failure> {
    let copy = |(_, value): &(String, Tensor)| value.copy().set_requires_grad(true);
    let weights: Vec<Tensor> = first.iter().map(copy).collect();
    let settings = &work.settings;
    let mut optimizer = AdamW::new(&weights, settings.decay());
    let network = Network::new(work);
    let mut losses = Vec::with_capacity(work.steps() as usize);
    let mut step = |index: u64| -> Result<(), Failure> {
        let (inputs, targets) = work.tensors(index);
        let forecast = network.forward(&weights, inputs);
        let loss = forecast.mse_loss(targets, Reduction::Mean);
        loss.backward();
        losses.push(loss.detach());

        let mut gradients = fused::take_gradients(&weights)?;
        clip(&mut gradients, settings.clip_norm);
        let done = index as f64 / work.steps() as f64;
        let rate = settings.learning_rate * 0.5 * (1.0 + (PI * done).cos());
        optimizer.step(&weights, &gradients, rate)
    };
    step(0)?;
    let clock = Clock::start(Whose::Own)?;
    (1..=work.timed_steps).try_for_each(&mut step)?;
    let sample = clock.stop()?;
    step(work.steps() - 1)?;

    let loss = Tensor::stack(&losses, 0).mean(Kind::Double).double_value(&[]);
    let names = first.iter().map(|(name, _)| name.clone());
    let weights = names.zip(weights.iter().map(Tensor::detach)).collect();
    Ok(Run { sample, learned: Learned { loss, weights } })
}

fn clip(gradients: &mut [Tensor], limit: f64) {
    let norms: Vec<Tensor> = gradients.iter().map(Tensor::norm).collect();
    let factor = limit / (Tensor::stack(&norms, 0).norm().double_value(&[]) + 1e-6);
    if factor < 1.0 {
        gradients.iter_mut().for_each(|gradient| *gradient *= factor);
    }
}

struct AdamW {
    /// Weights and biases, and by how much each of them decay.
    groups: [(Vec<usize>, f64); 2],
    steps: Tensor,
    averages: Vec<Tensor>,
    squares: Vec<Tensor>,
}

impl AdamW {
    fn new(weights: &[Tensor], weight_decay: f64) -> Self {
        let (decayed, others) = (0..weights.len()).partition(|&i| weights[i].dim() > 1);
        let zeros = || weights.iter().map(|tensor| tensor.detach().zeros_like()).collect();
        AdamW {
            groups: [(decayed, weight_decay), (others, 0.0)],
            steps: Tensor::zeros([1], (Kind::Float, Device::Cpu)),
            averages: zeros(),
            squares: zeros(),
        }
    }

    fn step(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        rate: f64,
    ) -> Result<(), Failure> {
        self.steps += 1.0;
        let AdamW { groups, steps, averages, squares } = self;
        let lists = AdamLists { parameters, gradients, averages, squares };
        for &mut (ref members, weight_decay) in groups {
            let (beta1, beta2, epsilon, decoupled) = (0.9, 0.999, 1e-8, true);
            let adam = fused::Adam { rate, beta1, beta2, weight_decay, epsilon, decoupled };
            fused::adam(&lists, members, steps, &adam, Scaled::default())?;
        }
        Ok(())
    }
}
