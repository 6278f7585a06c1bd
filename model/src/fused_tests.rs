//! Steps, scales and averages, held against what they should come to.

use super::*;
use tch::{Device, Kind};

fn ones(count: i64) -> Tensor {
    Tensor::ones([count], (Kind::Float, Device::Cpu)).set_requires_grad(true)
}

#[test]
fn gradients_are_taken_once() {
    let parameters = [ones(2), ones(3), ones(1)];
    let loss = (&parameters[0] * 3.0).sum(Kind::Float) + parameters[2].sum(Kind::Float);
    loss.backward();
    let taken = take_gradients(&parameters).unwrap();
    assert_eq!(taken[0].double_value(&[1]), 3.0);
    assert!(!taken[1].defined(), "the loss does not depend on it");
    assert!(!parameters[0].grad().defined());
    assert!(!take_gradients(&parameters).unwrap()[0].defined());
    loss_again(&parameters[0]).backward();
    assert_eq!(parameters[0].grad().double_value(&[0]), 1.0, "nothing is added to the old one");
}

fn loss_again(parameter: &Tensor) -> Tensor {
    parameter.sum(Kind::Float)
}

/// What a scale does to gradients of 3, 0 and 4, in memory of each kind that there is.
fn check_clipped(limit: f64, scale: Option<f32>, expected: [f64; 3]) {
    let times = f64::from(scale.unwrap_or(1.0));
    let scale = scale.map(|scale| Tensor::from_slice(&[scale]));
    // The second kind has gaps, so that libtorch's operators have to do it.
    let gapped = Tensor::from_slice(&[3.0f32, 9.0, 0.0, 9.0]).view([2, 2]).select(1, 0);
    for first in [Tensor::from_slice(&[3.0f32, 0.0]), gapped] {
        let second = Tensor::from_slice(&[4.0f32]) * times;
        // Multiplied in place, as the result of an operator would have no gaps.
        let first = first.shallow_clone().g_mul_scalar_(times);
        let list = [first.shallow_clone(), Tensor::new(), second.shallow_clone()];
        let losses = [Tensor::from(1.0f32)];
        let checked = check_gradients(&list, &losses, limit, scale.as_ref()).unwrap();
        assert_eq!(checked.found_inf.double_value(&[]), 0.0);
        let by = checked.scale.unwrap();
        assert_eq!((by.numel(), by.kind()), (1, Kind::Float));
        let found = [first.double_value(&[0]), first.double_value(&[1]), second.double_value(&[0])]
            .map(|value| value / by.double_value(&[]));
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }
}

#[test]
fn the_norm_of_all_together_is_limited_and_small_gradients_are_left_alone() {
    for scale in [None, Some(1.0), Some(0.25), Some(65536.0)] {
        check_clipped(0.5, scale, [0.3, 0.0, 0.4]);
        check_clipped(50.0, scale, [3.0, 0.0, 4.0]);
    }
    let zero = [Tensor::zeros([4], (Kind::Float, Device::Cpu))];
    let checked = check_gradients(&zero, &[], 0.5, None).unwrap();
    assert_eq!(checked.scale.unwrap().double_value(&[]), 1.0);
    assert!(check_gradients(&zero, &[], 0.0, None).unwrap().scale.is_none());
}

#[test]
fn the_norm_of_many_values_is_that_of_libtorch_and_none_stays_none() {
    for count in [1, 15, 16, 17, 4095, 4096, 4097, 100_003] {
        let values = Tensor::arange(count, (Kind::Float, Device::Cpu)).sin();
        let expected = values.norm().double_value(&[]) / 1e-3;
        let found = check_gradients(&[values], &[], 1e-3, None).unwrap().scale.unwrap();
        let found = found.double_value(&[]);
        assert!((found - expected.max(1.0)).abs() < 1e-5 * found, "{count}: {found}");
    }
    for (value, is_expected) in
        [(f32::NAN, f64::is_nan as fn(f64) -> bool), (f32::INFINITY, f64::is_infinite)]
    {
        let gradients = [Tensor::from_slice(&[1.0, value])];
        let Checked { scale, found_inf } = check_gradients(&gradients, &[], 0.5, None).unwrap();
        assert!(is_expected(scale.unwrap().double_value(&[])), "{value}");
        assert_eq!(found_inf.double_value(&[]), 1.0);
    }
}

#[test]
fn what_has_no_gradient_is_left_alone_and_a_wrong_shape_is_an_error() {
    let sgd_step = Sgd { rate: 0.5, momentum: 0.0, weight_decay: 0.0, nesterov: false };
    let parameters = [ones(2), ones(2)];
    let gradients = [Tensor::new(), Tensor::from_slice(&[1.0f32, 2.0])];
    let lists = SgdLists { parameters: &parameters, gradients: &gradients, buffers: &[] };
    sgd(&lists, &[0, 1], &sgd_step, Scaled::default()).unwrap();
    assert_eq!(Vec::<f32>::try_from(parameters[0].detach()).unwrap(), [1.0, 1.0]);
    assert_eq!(Vec::<f32>::try_from(parameters[1].detach()).unwrap(), [0.5, 0.0]);
    let scale = Tensor::from_slice(&[2.0f32]);
    let gradients = [Tensor::from_slice(&[1.0f32, 1.0]), Tensor::from_slice(&[1.0f32, 1.0])];
    let lists = SgdLists { gradients: &gradients, ..lists };
    let halved = Scaled { scale: Some(&scale), found_inf: None };
    sgd(&lists, &[1], &sgd_step, halved).unwrap();
    assert_eq!(Vec::<f32>::try_from(parameters[0].detach()).unwrap(), [1.0, 1.0]);
    assert_eq!(Vec::<f32>::try_from(parameters[1].detach()).unwrap(), [0.25, -0.25]);
}

/// Whether these gradients of this loss are said to be numbers, in plain memory and with gaps.
fn check_finite(gradients: &[f32], loss: f32, expected: f64) {
    let losses = [Tensor::from(1.0f32), Tensor::from(loss)];
    let plain = Tensor::from_slice(gradients);
    let gapped = Tensor::stack(&[&plain, &plain], 1).select(1, 0);
    for list in [plain, gapped] {
        let found = check_gradients(&[list, Tensor::new()], &losses, 0.0, None).unwrap();
        assert_eq!(found.found_inf.double_value(&[]), expected, "{gradients:?} of {loss}");
        assert_eq!((found.found_inf.numel(), found.found_inf.kind()), (1, Kind::Float));
    }
}

#[test]
fn a_gradient_or_a_loss_that_is_no_number_is_found() {
    check_finite(&[1.0, -2.0], 0.5, 0.0);
    check_finite(&[1.0, f32::NAN], 0.5, 1.0);
    check_finite(&[f32::NEG_INFINITY, 1.0], 0.5, 1.0);
    check_finite(&[1.0, 1.0], f32::NAN, 1.0);
    check_finite(&[1.0, 1.0], f32::INFINITY, 1.0);
    let large = [Tensor::from_slice(&[3e30f32, 4e30])];
    let found = check_gradients(&large, &[], 1e30, None).unwrap();
    assert_eq!(found.found_inf.double_value(&[]), 0.0, "its square is beyond 32 bits, it is not");
    assert!((found.scale.unwrap().double_value(&[]) - 5.0).abs() < 1e-6);
    let found = check_gradients(&large, &[], 1e-20, None).unwrap();
    assert_eq!(found.found_inf.double_value(&[]), 1.0, "there is nothing to divide them by");
}

#[test]
fn a_scale_is_halved_when_skipped_and_doubled_after_a_while() {
    let (mut scale, mut growth) = (Tensor::from_slice(&[8.0f32]), Tensor::from_slice(&[0i32]));
    let mut steps = Tensor::from_slice(&[0.0f32]);
    let mut after = |skipped: f32| {
        let found_inf = Tensor::from(skipped);
        update_scale(&mut scale, &mut growth, &found_inf, 3).unwrap();
        count_step(&mut steps, Some(&found_inf)).unwrap();
        (scale.double_value(&[0]), steps.double_value(&[0]))
    };
    let found = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0].map(&mut after);
    let expected = [(8.0, 1.0), (8.0, 2.0), (4.0, 2.0), (4.0, 3.0), (4.0, 4.0), (8.0, 5.0)];
    assert_eq!(found[..6], expected);
    assert_eq!(found[6], (8.0, 6.0));
}

#[test]
fn averages_move_a_share_of_the_way() {
    let mut averages = [Tensor::from_slice(&[0.0f32, 4.0]), Tensor::from_slice(&[1.0f32])];
    let values = [ones(2), ones(1)];
    average(&mut averages, &values, 0.25).unwrap();
    assert_eq!(Vec::<f32>::try_from(&averages[0]).unwrap(), [0.25, 3.25]);
    assert_eq!(averages[1].double_value(&[0]), 1.0);
    assert!(!averages[0].requires_grad());
}
