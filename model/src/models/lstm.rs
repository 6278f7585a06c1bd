//! A long short-term memory with a linear head on its last hidden state: that of the window's last
//! real row, where windows are padded on the right.
//!
//! The same network in PyTorch, with the same names:
//!
//! ```python
//! self.lstm = nn.LSTM(features, hidden, layers, batch_first=True, dropout=dropout)
//! self.head = nn.Linear(hidden, horizon * targets)
//! ```
//!
//! It calls libtorch's functional `lstm`: tch's `nn::LSTM` fixes training mode at construction,
//! so its dropout would stay on in evaluation, and its `zero_state` shares storage between the
//! two states.

use crate::{
    error::ModelError,
    model::{Architecture, Mode, Model, Shape},
    model_size::{self, COPIES, PER_LAYER},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::{Padding, SplitMix64};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroUsize;
use tch::{Device, Kind, Tensor};

/// How large it is: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LstmOptions {
    /// Size of the hidden state; 64 by default.
    pub hidden: NonZeroUsize,
    /// Recurrent layers on top of each other; 1 by default.
    pub layers: NonZeroUsize,
    /// Dropout between layers; 0 by default, and without effect when there is one layer.
    pub dropout: f64,
}

impl Default for LstmOptions {
    fn default() -> Self {
        let hidden = const { NonZeroUsize::new(64).expect("a default is not zero") };
        LstmOptions { hidden, layers: NonZeroUsize::MIN, dropout: 0.0 }
    }
}

impl Architecture for LstmOptions {
    fn name(&self) -> &str {
        "lstm"
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).expect("plain structs always serialise")
    }

    fn check(&self) -> Result<(), ModelError> {
        if (0.0..1.0).contains(&self.dropout) {
            return Ok(());
        }
        let (key, value) = ("train.model_options.dropout", self.dropout.to_string());
        Err(ModelError::Setting { key, value, expected: "at least 0 and below 1".to_owned() })
    }

    fn idle(&self, option: &str) -> Option<&'static str> {
        let idle = option == "dropout" && self.layers.get() == 1;
        idle.then_some("train.model_options.layers above 1")
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        let sizes = [
            ("train.model_options.hidden", self.hidden),
            ("train.model_options.layers", self.layers),
        ];
        model_size::check(sizes, available, |[hidden, layers]| {
            let first = 4.0 * hidden * (shape.features as f64 + hidden + 2.0);
            let further = (layers - 1.0) * 4.0 * hidden * (2.0 * hidden + 2.0);
            let head = shape.labels() as f64 * (hidden + 1.0);
            let states = 2.0 * layers * shape.batch_size as f64 * hidden;
            4.0 * ((first + further + head) * COPIES + states) + PER_LAYER * layers
        })
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        Ok(Box::new(Lstm::new(*self, *shape, seed, device)?))
    }
}

/// The network, its weights and its initial states.
#[derive(Debug)]
struct Lstm {
    options: LstmOptions,
    shape: Shape,
    parameters: Parameters,
    /// Zeros for the initial hidden and cell state of a full batch. Allocated once and only ever
    /// read; each batch sees a view of its own size.
    zeros: [Tensor; 2],
}

impl Lstm {
    fn new(
        options: LstmOptions,
        shape: Shape,
        seed: u64,
        device: Device,
    ) -> Result<Self, ModelError> {
        let hidden = options.hidden.get();
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(seed);
        // PyTorch draws the weights of nn.LSTM within 1 / sqrt(hidden); Kaiming's rule for
        // nn.Linear comes to the same bound, as the head's fan-in is the hidden size.
        let bound = 1.0 / (hidden as f32).sqrt();
        let mut draw = |name: String, shape: &[usize]| {
            parameters.draw(name, shape, bound, &mut random, device)
        };
        for layer in 0..options.layers.get() {
            let inputs = if layer == 0 { shape.features } else { hidden };
            draw(format!("lstm.weight_ih_l{layer}"), &[4 * hidden, inputs])?;
            draw(format!("lstm.weight_hh_l{layer}"), &[4 * hidden, hidden])?;
            draw(format!("lstm.bias_ih_l{layer}"), &[4 * hidden])?;
            draw(format!("lstm.bias_hh_l{layer}"), &[4 * hidden])?;
        }
        draw("head.weight".into(), &[shape.labels(), hidden])?;
        draw("head.bias".into(), &[shape.labels()])?;

        let state = (options.layers.get() * shape.batch_size * hidden) as i64;
        let zeros = || Tensor::f_zeros([state], (Kind::Float, device));
        let zeros = [zeros()?, zeros()?];
        Ok(Lstm { options, shape, parameters, zeros })
    }

    fn state_shape(&self) -> (i64, i64) {
        (self.options.layers.get() as i64, self.options.hidden.get() as i64)
    }

    fn network(
        &self,
        inputs: &Inputs,
        states: &[Tensor; 2],
        mode: Mode,
    ) -> Result<Tensor, ModelError> {
        let weights = &self.parameters.tensors;
        let (recurrent, head) = weights.split_at(weights.len() - 2);
        let layers = self.options.layers.get() as i64;
        let (dropout, train) = (self.options.dropout, mode == Mode::Train);
        let (all, last, _) =
            inputs.values.f_lstm(states, recurrent, true, layers, dropout, train, false, true)?;
        let last = match self.shape.padding {
            Padding::None | Padding::Left => last.f_select(0, -1)?,
            Padding::Right => {
                let lengths = inputs.lengths.as_ref();
                last_real(&all, lengths.expect("windows padded on the right have lengths"))?
            }
        };
        let labels = last.f_linear(&head[0], Some(&head[1]))?;
        let (horizon, targets) = (self.shape.horizon as i64, self.shape.targets as i64);
        Ok(labels.f_view([-1, horizon, targets])?)
    }
}

impl Model for Lstm {
    /// Lengths are looked at only where windows are padded on the right.
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        let (layers, hidden) = self.state_shape();
        let rows = inputs.values.size()[0];
        // Narrowed while flat, so that the view of a small batch is contiguous too, as cuDNN asks.
        let state = |zeros: &Tensor| {
            zeros.f_narrow(0, 0, layers * rows * hidden)?.f_view([layers, rows, hidden])
        };
        let states = [state(&self.zeros[0])?, state(&self.zeros[1])?];
        self.network(inputs, &states, mode)
    }

    /// The initial states take their size and device from the input, not from a constant.
    fn forward_traced(&self, inputs: &Inputs) -> Result<Tensor, ModelError> {
        let (layers, hidden) = self.state_shape();
        let state = || {
            let rows = inputs.values.f_narrow(1, 0, 1)?.f_narrow(2, 0, 1)?.f_zeros_like()?;
            rows.f_transpose(0, 1)?.f_expand([layers, -1, hidden], false)?.f_contiguous()
        };
        let states = [state()?, state()?];
        self.network(inputs, &states, Mode::Evaluate)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// Dropout acts between layers, so one layer has none.
    fn is_random(&self) -> bool {
        self.options.dropout > 0.0 && self.options.layers.get() > 1
    }
}

/// Of `[rows, lookback, hidden]`, the `[hidden]` of each window's last real row. A trace of it
/// holds for any number of rows and any lookback.
fn last_real(all: &Tensor, lengths: &Tensor) -> Result<Tensor, ModelError> {
    let hidden = all.size()[2];
    let at = lengths.f_to_kind(Kind::Int64)?.f_sub_scalar(1)?.f_view([-1, 1, 1])?;
    Ok(all.f_gather(1, &at.f_expand([-1, 1, hidden], false)?, false)?.f_squeeze_dim(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torchscript::to_torchscript;
    use tch::CModule;

    const SHAPE: Shape = Shape {
        batch_size: 256,
        lookback: 12,
        features: 5,
        horizon: 3,
        targets: 2,
        padding: Padding::None,
    };

    fn options(hidden: usize, layers: usize, dropout: f64) -> LstmOptions {
        let size = |value| NonZeroUsize::new(value).unwrap();
        LstmOptions { hidden: size(hidden), layers: size(layers), dropout }
    }

    fn model(layers: usize, dropout: f64) -> Lstm {
        padded(Padding::None, layers, dropout)
    }

    fn padded(padding: Padding, layers: usize, dropout: f64) -> Lstm {
        let shape = Shape { padding, ..SHAPE };
        Lstm::new(options(16, layers, dropout), shape, 42, Device::Cpu).unwrap()
    }

    fn values(rows: usize) -> Tensor {
        let mut random = SplitMix64::new(rows as u64);
        let values: Vec<f32> = (0..rows * 12 * 5).map(|_| random.uniform(2.0)).collect();
        Tensor::from_slice(&values).view([rows as i64, 12, 5])
    }

    fn inputs(values: &Tensor, lengths: Option<&Tensor>) -> Inputs {
        let lengths = lengths.map(Tensor::shallow_clone);
        Inputs { values: values.shallow_clone(), lengths, mask: None, segments: None }
    }

    fn evaluate(model: &Lstm, values: &Tensor, lengths: Option<&Tensor>) -> Tensor {
        model.forward(&inputs(values, lengths), Mode::Evaluate).unwrap()
    }

    fn script(model: Lstm) -> CModule {
        let shape = model.shape;
        CModule::load_data(&mut &to_torchscript(Box::new(model), &shape).unwrap()[..]).unwrap()
    }

    #[test]
    fn names_and_shapes_are_those_of_pytorch() {
        let model = model(2, 0.0);
        let parameters = model.parameters();
        let found: Vec<(&str, Vec<i64>)> = parameters
            .names
            .iter()
            .zip(&parameters.tensors)
            .map(|(name, tensor)| (name.as_str(), tensor.size()))
            .collect();
        assert_eq!(
            found,
            [
                ("lstm.weight_ih_l0", vec![64, 5]),
                ("lstm.weight_hh_l0", vec![64, 16]),
                ("lstm.bias_ih_l0", vec![64]),
                ("lstm.bias_hh_l0", vec![64]),
                ("lstm.weight_ih_l1", vec![64, 16]),
                ("lstm.weight_hh_l1", vec![64, 16]),
                ("lstm.bias_ih_l1", vec![64]),
                ("lstm.bias_hh_l1", vec![64]),
                ("head.weight", vec![6, 16]),
                ("head.bias", vec![6]),
            ]
        );
        let largest = parameters.tensors.iter().map(|t| t.abs().max().double_value(&[]));
        assert!(largest.fold(0.0, f64::max) <= 0.25, "weights lie within 1 / sqrt(hidden)");
    }

    /// One time step of one layer, written out as the PyTorch manual does.
    #[test]
    fn forward_is_the_published_recurrence() {
        let shape =
            Shape { batch_size: 4, lookback: 3, features: 2, horizon: 1, targets: 1, ..SHAPE };
        let model = Lstm::new(options(3, 1, 0.0), shape, 7, Device::Cpu).unwrap();
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
        let found = evaluate(&model, &x, None).double_value(&[0, 0, 0]);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    fn check_trace(layers: usize, rows: usize) {
        let _guard = tch::no_grad_guard();
        let model = model(layers, 0.3);
        let x = values(rows);
        let eager = evaluate(&model, &x, None);
        let traced = script(model).forward_ts(&[&x]).unwrap();
        assert_eq!(eager.size(), [rows as i64, 3, 2]);
        assert!(eager.equal(&traced), "{layers} layers, {rows} rows");
    }

    #[test]
    fn the_trace_gives_the_same_bits_for_any_number_of_rows() {
        for layers in [1, 2] {
            for rows in [1, 7, 256] {
                check_trace(layers, rows);
            }
        }
    }

    /// Windows of these lengths, padded on the right with what would show if it were looked at.
    fn right_padded(lengths: &[i64]) -> (Tensor, Tensor) {
        let longest = *lengths.iter().max().unwrap();
        let x = values(lengths.len()).narrow(1, 0, longest).contiguous();
        for (row, &length) in lengths.iter().enumerate() {
            let window = x.select(0, row as i64);
            let _ = window.narrow(0, length, longest - length).fill_(9.0);
        }
        (x, Tensor::from_slice(lengths).to_kind(Kind::Float))
    }

    #[test]
    fn a_window_padded_on_the_right_has_the_forecast_of_the_window() {
        let _guard = tch::no_grad_guard();
        let lengths = [5, 1, 3, 5];
        let (x, real) = right_padded(&lengths);
        for layers in [1, 2] {
            let (padded, whole) = (padded(Padding::Right, layers, 0.0), model(layers, 0.0));
            let found = evaluate(&padded, &x, Some(&real));
            for (row, &length) in lengths.iter().enumerate() {
                let window = x.narrow(0, row as i64, 1).narrow(1, 0, length);
                let expected = evaluate(&whole, &window, None);
                let difference = (found.narrow(0, row as i64, 1) - expected).abs().max();
                assert!(difference.double_value(&[]) < 1e-6, "{layers} layers, length {length}");
            }
        }
    }

    #[test]
    fn padding_on_the_right_has_no_part_in_the_gradients() {
        let (x, real) = right_padded(&[4, 2]);
        let x = x.set_requires_grad(true);
        let model = padded(Padding::Right, 2, 0.0);
        let forecast = model.forward(&inputs(&x, Some(&real)), Mode::Train).unwrap();
        forecast.sum(Kind::Float).backward();
        let by_row = x.grad().abs().sum_dim_intlist([2i64].as_slice(), false, Kind::Double);
        let by_row = by_row.select(0, 1);
        let found: Vec<bool> = (0..4).map(|t| by_row.double_value(&[t]) > 0.0).collect();
        assert_eq!(found, [true, true, false, false]);
    }

    #[test]
    fn lengths_are_not_looked_at_where_windows_are_padded_on_the_left() {
        let _guard = tch::no_grad_guard();
        let (x, lengths) = (values(2), Tensor::from_slice(&[1.0f32, 12.0]));
        let found = evaluate(&padded(Padding::Left, 1, 0.0), &x, Some(&lengths));
        assert!(found.equal(&evaluate(&model(1, 0.0), &x, None)));
    }

    #[test]
    fn the_trace_takes_lengths_where_windows_are_padded_on_the_right() {
        let _guard = tch::no_grad_guard();
        let model = padded(Padding::Right, 2, 0.0);
        let script = script(padded(Padding::Right, 2, 0.0));
        for lengths in [&[12, 1][..], &[3], &[1, 1, 1], &[2, 7, 4, 5, 6]] {
            let (x, real) = right_padded(lengths);
            let traced = script.forward_ts(&[&x, &real]).unwrap();
            let eager = evaluate(&model, &x, Some(&real));
            assert_eq!(traced.size(), [lengths.len() as i64, 3, 2]);
            assert!(eager.equal(&traced), "lengths {lengths:?}");
        }
    }

    #[test]
    fn dropout_is_off_in_evaluation() {
        let _guard = tch::no_grad_guard();
        let (model, x) = (model(2, 0.5), inputs(&values(8), None));
        assert!(model.is_random());
        let forward = |mode| model.forward(&x, mode).unwrap();
        assert!(forward(Mode::Evaluate).equal(&forward(Mode::Evaluate)));
        assert!(!forward(Mode::Train).equal(&forward(Mode::Train)));
    }

    #[test]
    fn the_initial_states_are_never_written() {
        let (model, x) = (model(2, 0.5), inputs(&values(256), None));
        model.forward(&x, Mode::Train).unwrap().sum(Kind::Float).backward();
        for zeros in &model.zeros {
            assert_eq!(zeros.abs().max().double_value(&[]), 0.0);
        }
        assert_ne!(model.zeros[0].data_ptr(), model.zeros[1].data_ptr());
    }

    #[test]
    fn what_libtorch_refuses_is_an_error() {
        let x = Tensor::zeros([1, 12, 5], (Kind::Double, Device::Cpu));
        let error = model(1, 0.0).forward(&inputs(&x, None), Mode::Evaluate).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("libtorch: ") && text.lines().count() == 1, "{text}");
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
