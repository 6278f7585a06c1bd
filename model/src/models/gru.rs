//! Gated recurrent units with a linear head on its last hidden state: that of the window's last
//! real row, where windows are padded on the right.
//!
//! The same network in PyTorch, with the same names:
//!
//! ```python
//! self.gru = nn.GRU(features, hidden, layers, batch_first=True, dropout=dropout)
//! self.head = nn.Linear(hidden, horizon * targets)
//! ```

use crate::{
    recurrent::{Cell, Layers},
    recurrent_options::RecurrentOptions,
};
use tch::{TchError, Tensor};

/// How large it is: made by `Default`, and changed field by field.
pub type GruOptions = RecurrentOptions<Gru>;

/// The recurrence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gru;

impl Cell for Gru {
    const NAME: &str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;

    fn run(
        values: &Tensor,
        states: &[Tensor],
        weights: &[Tensor],
        layers: &Layers,
        train: bool,
    ) -> Result<(Tensor, Tensor), TchError> {
        let (depth, dropout) = (layers.layers.get() as i64, layers.dropout);
        values.f_gru(&states[0], weights, true, depth, dropout, train, false, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture as _, Inputs, Mode, Shape};
    use tch::{Device, Kind};

    /// Three time steps of one layer, written out as the PyTorch manual does.
    #[test]
    fn forward_is_the_published_recurrence() {
        let shape = Shape { batch_size: 4, lookback: 3, features: 2, ..Shape::LEAST };
        let options = GruOptions { hidden: 3.try_into().unwrap(), ..GruOptions::default() };
        let model = options.build(&shape, 7, Device::Cpu).unwrap();
        let _guard = tch::no_grad_guard();
        let x = Tensor::from_slice(&[0.5f32, -1.0, 0.25, 2.0, -0.75, 1.5]).view([1, 3, 2]);
        let p = &model.parameters().tensors;
        let mut h = Tensor::zeros([1, 3], (Kind::Float, Device::Cpu));
        for t in 0..3 {
            let of_row = x.select(1, t).linear(&p[0], Some(&p[2]));
            let of_state = h.linear(&p[1], Some(&p[3]));
            let part = |gates: &Tensor, i: i64| gates.narrow(1, 3 * i, 3);
            let reset = (part(&of_row, 0) + part(&of_state, 0)).sigmoid();
            let update = (part(&of_row, 1) + part(&of_state, 1)).sigmoid();
            let new = (part(&of_row, 2) + reset * part(&of_state, 2)).tanh();
            h = (1.0 - &update) * new + update * h;
        }
        let expected = h.linear(&p[4], Some(&p[5])).double_value(&[0, 0]);
        let inputs = Inputs { values: x, lengths: None, mask: None, segments: None };
        let found = model.forward(&inputs, Mode::Evaluate).unwrap().double_value(&[0, 0, 0]);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn names_and_shapes_are_those_of_pytorch() {
        let shape = Shape { features: 5, horizon: 3, targets: 2, ..Shape::LEAST };
        let options = GruOptions { hidden: 4.try_into().unwrap(), ..GruOptions::default() };
        let model = options.build(&shape, 42, Device::Cpu).unwrap();
        let parameters = model.parameters();
        let sizes = parameters.tensors.iter().map(Tensor::size);
        let found: Vec<(&str, Vec<i64>)> =
            parameters.names.iter().map(String::as_str).zip(sizes).collect();
        let expected = [
            ("gru.weight_ih_l0", vec![12, 5]),
            ("gru.weight_hh_l0", vec![12, 4]),
            ("gru.bias_ih_l0", vec![12]),
            ("gru.bias_hh_l0", vec![12]),
            ("head.weight", vec![6, 4]),
            ("head.bias", vec![6]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_cannot_fit_or_has_no_effect_is_refused() {
        let options = GruOptions { hidden: 1_000_000.try_into().unwrap(), ..GruOptions::default() };
        let error = options.check_room(&Shape::LEAST, 16_000_000_000).unwrap_err().to_string();
        let expected = "train.model_options.hidden is 1000000, but must be at most 1";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(options.idle("dropout"), Some("train.model_options.layers above 1"));
        assert!(GruOptions { dropout: 1.0, ..options }.check().is_err());
    }
}
