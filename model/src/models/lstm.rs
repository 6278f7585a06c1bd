//! A long short-term memory with a linear head on its last hidden state: that of the window's last
//! real row, where windows are padded on the right.
//!
//! The same network in PyTorch, with the same names:
//!
//! ```python
//! self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, dropout=dropout)
//! self.head = nn.Linear(hidden, horizon * targets)
//! ```

use crate::{
    recurrent::{Cell, Layers},
    recurrent_options::RecurrentOptions,
};
use tch::{TchError, Tensor};

/// How large it is: made by `Default`, and changed field by field.
pub type LstmOptions = RecurrentOptions<Lstm>;

/// The recurrence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lstm;

impl Cell for Lstm {
    const NAME: &str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;

    fn run(
        values: &Tensor,
        states: &[Tensor],
        weights: &[Tensor],
        layers: &Layers,
        train: bool,
    ) -> Result<(Tensor, Tensor), TchError> {
        let (depth, dropout) = (layers.layers.get() as i64, layers.dropout);
        let (all, last, _) =
            values.f_lstm(states, weights, true, depth, dropout, train, false, true)?;
        Ok((all, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture as _, Inputs, Mode, Shape};
    use std::num::NonZeroUsize;
    use tch::{Device, Kind};

    fn options(hidden: usize, layers: usize, dropout: f64) -> LstmOptions {
        let size = |value| NonZeroUsize::new(value).unwrap();
        let (hidden, layers) = (size(hidden), size(layers));
        LstmOptions { hidden, layers, dropout, ..LstmOptions::default() }
    }

    /// The first value of each, in steps of the generator's 24 bits, is what every version has drawn
    /// from this seed.
    #[test]
    fn names_and_shapes_are_those_of_pytorch_and_the_values_those_of_the_seed() {
        let shape = Shape { features: 5, horizon: 3, targets: 2, ..Shape::LEAST };
        let model = options(16, 2, 0.0).build(&shape, 42, Device::Cpu).unwrap();
        let parameters = model.parameters();
        let first = |tensor: &Tensor| {
            let drawn = tensor.flatten(0, -1).double_value(&[0]);
            ((drawn / 0.25 + 1.0) / 2.0 * f64::from(1 << 24)) as u32
        };
        let found: Vec<(&str, Vec<i64>, u32)> = parameters
            .names
            .iter()
            .zip(&parameters.tensors)
            .map(|(name, tensor)| (name.as_str(), tensor.size(), first(tensor)))
            .collect();
        assert_eq!(
            found,
            [
                ("lstm.weight_ih_l0", vec![64, 5], 12_441_394),
                ("lstm.weight_hh_l0", vec![64, 16], 8_098_593),
                ("lstm.bias_ih_l0", vec![64], 837_450),
                ("lstm.bias_hh_l0", vec![64], 13_499_158),
                ("lstm.weight_ih_l1", vec![64, 16], 10_685_527),
                ("lstm.weight_hh_l1", vec![64, 16], 2_605_615),
                ("lstm.bias_ih_l1", vec![64], 14_382_289),
                ("lstm.bias_hh_l1", vec![64], 14_156_647),
                ("head.weight", vec![6, 16], 7_410_720),
                ("head.bias", vec![6], 13_159_748),
            ]
        );
        let largest = parameters.tensors.iter().map(|t| t.abs().max().double_value(&[]));
        assert!(largest.fold(0.0, f64::max) <= 0.25, "weights lie within 1 / sqrt(hidden)");
    }

    /// Three time steps of one layer, written out as the PyTorch manual does.
    #[test]
    fn forward_is_the_published_recurrence() {
        let shape = Shape { batch_size: 4, lookback: 3, features: 2, ..Shape::LEAST };
        let model = options(3, 1, 0.0).build(&shape, 7, Device::Cpu).unwrap();
        let _guard = tch::no_grad_guard();
        let x = Tensor::from_slice(&[0.5f32, -1.0, 0.25, 2.0, -0.75, 1.5]).view([1, 3, 2]);
        let p = &model.parameters().tensors;
        let mut h = Tensor::zeros([1, 3], (Kind::Float, Device::Cpu));
        let mut c = h.zeros_like();
        for t in 0..3 {
            let gates = x.select(1, t).linear(&p[0], Some(&p[2])) + h.linear(&p[1], Some(&p[3]));
            let gate = |i: i64| gates.narrow(1, 3 * i, 3);
            c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
            h = gate(3).sigmoid() * c.tanh();
        }
        let expected = h.linear(&p[4], Some(&p[5])).double_value(&[0, 0]);
        let inputs = Inputs { values: x, lengths: None, mask: None, segments: None };
        let found = model.forward(&inputs, Mode::Evaluate).unwrap().double_value(&[0, 0, 0]);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn what_is_out_of_range_or_cannot_fit_is_refused() {
        let check = |hidden, layers, dropout, expected: &str| {
            let options = options(hidden, layers, dropout);
            let shape = Shape { features: 105, batch_size: 256, ..Shape::LEAST };
            let checked = options.check().and_then(|()| options.check_room(&shape, 16_000_000_000));
            let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(found.is_empty(), expected.is_empty(), "{hidden} × {layers}: {found}");
            assert!(found.starts_with(expected), "{found}");
        };
        check(64, 1, 0.0, "");
        check(14_000, 1, 0.0, "");
        check(64, 1000, 0.9, "");
        let least = "train.model_options.dropout is 1, but must be at least 0 and below 1";
        check(64, 1, 1.0, least);
        let hidden = "train.model_options.hidden is 1000000, but must be at most 14075: this model \
                      takes 80010.6 GB to train, and 16.0 GB of memory are there";
        check(1_000_000, 1, 0.0, hidden);
        let layers = "train.model_options.layers is 2147483648, but must be at most 19678: ";
        check(64, 1 << 31, 0.0, layers);
        for extreme in [1 << 32, i64::MAX as usize, usize::MAX] {
            let expected =
                format!("train.model_options.hidden is {extreme}, but must be at most 1");
            check(extreme, 1, 0.0, &expected);
            check(extreme, extreme, 0.0, &expected);
            check(1, extreme, 0.0, &format!("train.model_options.layers is {extreme}, but"));
        }
    }
}
