//! What every optimizer is held against: its published formula, in f64, parameter by parameter; and
//! what holds for all of them.

use super::{Optimizer, OptimizerKind};
use crate::settings::TrainSettings;
use millstream_data::SplitMix64;
use millstream_model::{Parameters, fused::Scaled};
use tch::{Device, Tensor};

/// One number that is learned.
pub(super) struct One {
    pub(super) theta: f64,
    /// What a formula keeps of the gradients before; 0 at first.
    pub(super) m: f64,
    /// The same of their squares.
    pub(super) v: f64,
    /// Steps, this one included.
    pub(super) t: i32,
}

const DECAY: f64 = 0.05;
/// Of the weight, which has two dimensions, and the bias.
const SIZES: [usize; 2] = [6, 4];

fn parameters() -> Parameters {
    let mut parameters = Parameters::default();
    let mut random = SplitMix64::new(3);
    parameters.draw("w", &[2, 3], 1.0, &mut random, Device::Cpu).unwrap();
    parameters.draw("b", &[4], 1.0, &mut random, Device::Cpu).unwrap();
    parameters
}

fn gradients(random: &mut SplitMix64) -> Vec<Vec<f32>> {
    SIZES.iter().map(|&n| (0..n).map(|_| random.uniform(0.1)).collect()).collect()
}

fn as_tensors(gradients: &[Vec<f32>]) -> Vec<Tensor> {
    vec![Tensor::from_slice(&gradients[0]).view([2, 3]), Tensor::from_slice(&gradients[1])]
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.detach().flatten(0, -1).try_into().unwrap()
}

fn build(settings: &TrainSettings, parameters: &Parameters) -> Box<dyn Optimizer> {
    settings.optimizer.listed().build(parameters, settings).unwrap()
}

/// Twenty steps of an optimizer are those of `formula(one, gradient, rate, decay)`, with gradients as
/// they are and scaled, and with decay of the weight alone and of the bias too.
pub(super) fn check(
    optimizer: OptimizerKind,
    change: impl Fn(&mut TrainSettings),
    formula: impl Fn(&mut One, f64, f64, f64),
) {
    for (decay_all, scale) in [(false, 1.0), (true, 1.0), (false, 256.0)] {
        let mut settings = TrainSettings { optimizer, decay_all, ..TrainSettings::default() };
        settings.weight_decay = Some(DECAY);
        change(&mut settings);
        settings.validate().unwrap();
        let mut parameters = parameters();
        let start = parameters.tensors.iter().flat_map(values);
        let one = |theta| One { theta: f64::from(theta), m: 0.0, v: 0.0, t: 0 };
        let mut expected: Vec<One> = start.map(one).collect();
        let mut optimizer = build(&settings, &parameters);
        let mut random = SplitMix64::new(9);
        let divisor = Tensor::from_slice(&[scale as f32]);
        for t in 1..=20 {
            let rate = 1e-2 / f64::from(t);
            let gradients = gradients(&mut random);
            let scaled: Vec<Tensor> =
                as_tensors(&gradients).iter().map(|gradient| gradient * scale).collect();
            let by = Scaled { scale: (scale != 1.0).then_some(&divisor), found_inf: None };
            optimizer.step(&mut parameters.tensors, &scaled, rate, by).unwrap();
            for (i, (one, gradient)) in
                expected.iter_mut().zip(gradients.iter().flatten()).enumerate()
            {
                one.t = t;
                let decay = if decay_all || i < SIZES[0] { DECAY } else { 0.0 };
                formula(one, f64::from(*gradient), rate, decay);
            }
        }
        let found: Vec<f32> = parameters.tensors.iter().flat_map(values).collect();
        for (found, One { theta, .. }) in found.iter().zip(&expected) {
            assert!((f64::from(*found) - theta).abs() < 1e-6, "{found} is not {theta}");
        }
    }
}

/// Settings of every optimizer, of those with state in each of its forms.
fn all() -> impl Iterator<Item = TrainSettings> {
    let settings = |&optimizer| TrainSettings { optimizer, ..TrainSettings::default() };
    let plain =
        TrainSettings { optimizer: OptimizerKind::Sgd, momentum: 0.0, ..TrainSettings::default() };
    OptimizerKind::ALL.iter().map(settings).chain([plain])
}

#[test]
fn a_restored_state_goes_on_with_the_same_bits() {
    for settings in all() {
        let (mut one, mut two) = (parameters(), parameters());
        let mut first = build(&settings, &one);
        let mut random = SplitMix64::new(5);
        let steps: Vec<Vec<Tensor>> = (0..6).map(|_| as_tensors(&gradients(&mut random))).collect();
        let step =
            |optimizer: &mut dyn Optimizer, weights: &mut Parameters, gradients: &[Tensor]| {
                optimizer.step(&mut weights.tensors, gradients, 1e-2, Scaled::default()).unwrap();
            };
        for gradients in &steps[..3] {
            step(&mut *first, &mut one, gradients);
        }
        two.restore(&one.snapshot().unwrap()).unwrap();
        let mut second = build(&settings, &two);
        second.restore(&first.state(), first.steps()).unwrap();
        for gradients in &steps[3..] {
            step(&mut *first, &mut one, gradients);
            step(&mut *second, &mut two, gradients);
        }
        assert_eq!(second.steps(), 6);
        for (a, b) in one.tensors.iter().zip(&two.tensors) {
            assert!(a.equal(b), "{:?}", settings.optimizer);
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_leaves_everything_as_it_was() {
    for settings in all() {
        let mut weights = parameters();
        let mut optimizer = build(&settings, &weights);
        let mut random = SplitMix64::new(5);
        let scale = Tensor::from_slice(&[2.0f32]);
        let mut step = |gradients: &[Tensor], found: f32| {
            let found_inf = Tensor::from_slice(&[found]);
            let scaled = Scaled { scale: Some(&scale), found_inf: Some(&found_inf) };
            optimizer.step(&mut weights.tensors, gradients, 1e-2, scaled).unwrap();
            let state = weights.tensors.iter().chain(&optimizer.state()).map(values).collect();
            (optimizer.steps(), state)
        };
        // The first step too: what is kept of it must be nothing.
        let infinite = || {
            gradients(&mut SplitMix64::new(1)).into_iter().map(|mut gradient| {
                gradient[0] = f32::INFINITY;
                gradient
            })
        };
        let infinite: Vec<Vec<f32>> = infinite().collect();
        let (_, first): (u64, Vec<Vec<f32>>) = step(&as_tensors(&infinite), 1.0);
        assert!(first.iter().skip(2).flatten().all(|value| *value == 0.0), "{first:?}");
        let (_, before) = step(&as_tensors(&gradients(&mut random)), 0.0);
        assert_ne!(before, first);
        let (steps, after) = step(&as_tensors(&infinite), 1.0);
        assert_eq!(before, after, "{:?}", settings.optimizer);
        assert_eq!(steps, 3, "steps of the run, skipped or not");
    }
}

#[test]
fn the_state_has_a_name_for_every_tensor() {
    for settings in all() {
        let parameters = parameters();
        let optimizer = build(&settings, &parameters);
        let names = optimizer.state_names(&parameters.names);
        assert_eq!(names.len(), optimizer.state().len(), "{names:?}");
    }
}
