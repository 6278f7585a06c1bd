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

use crate::{model::Parameters, options::ModelOptions};
use millstream_data::{BatchLayout, Padding, SplitMix64};
use tch::{Device, Kind, Tensor};

/// The network, its weights and its initial states.
#[derive(Debug)]
pub struct Lstm {
    options: ModelOptions,
    layout: BatchLayout,
    padding: Padding,
    parameters: Parameters,
    /// Zeros for the initial hidden and cell state of a full batch. Allocated once and only ever
    /// read; each batch sees a view of its own size.
    zeros: [Tensor; 2],
}

impl Lstm {
    pub(crate) fn new(
        options: &ModelOptions,
        layout: &BatchLayout,
        padding: Padding,
        seed: u64,
        device: Device,
    ) -> Self {
        let hidden = options.hidden.get();
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(seed);
        // PyTorch draws the weights of nn.LSTM within 1 / sqrt(hidden); Kaiming's rule for
        // nn.Linear comes to the same bound, as the head's fan-in is the hidden size.
        let bound = 1.0 / (hidden as f32).sqrt();
        let mut draw = |name: String, shape: &[usize]| {
            parameters.draw(name, shape, bound, &mut random, device);
        };
        for layer in 0..options.layers.get() {
            let inputs = if layer == 0 { layout.features } else { hidden };
            draw(format!("lstm.weight_ih_l{layer}"), &[4 * hidden, inputs]);
            draw(format!("lstm.weight_hh_l{layer}"), &[4 * hidden, hidden]);
            draw(format!("lstm.bias_ih_l{layer}"), &[4 * hidden]);
            draw(format!("lstm.bias_hh_l{layer}"), &[4 * hidden]);
        }
        draw("head.weight".into(), &[layout.labels(), hidden]);
        draw("head.bias".into(), &[layout.labels()]);

        let state = (options.layers.get() * layout.batch_size * hidden) as i64;
        let zeros = || Tensor::zeros([state], (Kind::Float, device));
        let zeros = [zeros(), zeros()];
        Lstm { options: *options, layout: *layout, padding, parameters, zeros }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// Dropout acts between layers, so one layer has none.
    pub(crate) fn drops_out(&self) -> bool {
        self.options.dropout > 0.0 && self.options.layers.get() > 1
    }

    /// What [`Lstm::forward_traced`] takes, for this many rows.
    pub(crate) fn examples(&self, rows: i64) -> Vec<Tensor> {
        let (lookback, features) = (self.layout.lookback as i64, self.layout.features as i64);
        let host = (Kind::Float, Device::Cpu);
        let mut examples = vec![Tensor::zeros([rows, lookback, features], host)];
        if self.padding == Padding::Right {
            examples.push(Tensor::full([rows], lookback, host));
        }
        examples
    }

    /// Forecasts from a batch of at most `batch_size` rows. Lengths are looked at only where
    /// windows are padded on the right.
    pub(crate) fn forward(&self, inputs: &Tensor, lengths: Option<&Tensor>, train: bool) -> Tensor {
        let (layers, hidden) = self.state_shape();
        let rows = inputs.size()[0];
        // Narrowed while flat, so that the view of a small batch is contiguous too, as cuDNN asks.
        let states = self
            .zeros
            .each_ref()
            .map(|zeros| zeros.narrow(0, 0, layers * rows * hidden).view([layers, rows, hidden]));
        self.network(inputs, lengths, &states, &self.parameters.tensors, train)
    }

    /// The same in evaluation mode, in operations whose trace holds for any number of rows: the
    /// initial states take their size and device from the input, not from a constant.
    pub(crate) fn forward_traced(
        &self,
        inputs: &Tensor,
        lengths: Option<&Tensor>,
        weights: &[Tensor],
    ) -> Tensor {
        let (layers, hidden) = self.state_shape();
        let states = [(), ()].map(|()| {
            let rows = inputs.narrow(1, 0, 1).narrow(2, 0, 1).zeros_like().transpose(0, 1);
            rows.expand([layers, -1, hidden], false).contiguous()
        });
        self.network(inputs, lengths, &states, weights, false)
    }

    fn state_shape(&self) -> (i64, i64) {
        (self.options.layers.get() as i64, self.options.hidden.get() as i64)
    }

    fn network(
        &self,
        inputs: &Tensor,
        lengths: Option<&Tensor>,
        states: &[Tensor; 2],
        weights: &[Tensor],
        train: bool,
    ) -> Tensor {
        let (recurrent, head) = weights.split_at(weights.len() - 2);
        let layers = self.options.layers.get() as i64;
        let (all, last, _) =
            inputs.lstm(states, recurrent, true, layers, self.options.dropout, train, false, true);
        let last = match self.padding {
            Padding::None | Padding::Left => last.select(0, -1),
            Padding::Right => {
                last_real(&all, lengths.expect("windows padded on the right have lengths"))
            }
        };
        let labels = last.linear(&head[0], Some(&head[1]));
        labels.view([-1, self.layout.horizon as i64, self.layout.targets as i64])
    }
}

/// Of `[rows, lookback, hidden]`, the `[hidden]` of each window's last real row. A trace of it
/// holds for any number of rows and any lookback.
fn last_real(all: &Tensor, lengths: &Tensor) -> Tensor {
    let hidden = all.size()[2];
    let at = (lengths.to_kind(Kind::Int64) - 1).view([-1, 1, 1]).expand([-1, 1, hidden], false);
    all.gather(1, &at, false).squeeze_dim(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Model, options::ModelKind};
    use millstream_data::Extras;
    use std::num::NonZeroUsize;

    const LAYOUT: BatchLayout = BatchLayout {
        batch_size: 256,
        lookback: 12,
        features: 5,
        horizon: 3,
        targets: 2,
        extras: Extras::NONE,
    };

    fn options(hidden: usize, layers: usize, dropout: f64) -> ModelOptions {
        let size = |value| NonZeroUsize::new(value).unwrap();
        ModelOptions { hidden: size(hidden), layers: size(layers), dropout }
    }

    fn model(layers: usize, dropout: f64) -> Model {
        padded(Padding::None, layers, dropout)
    }

    fn padded(padding: Padding, layers: usize, dropout: f64) -> Model {
        let options = options(16, layers, dropout);
        Model::new(ModelKind::Lstm, &options, &LAYOUT, padding, 42, Device::Cpu)
    }

    fn inputs(rows: usize) -> Tensor {
        let mut random = SplitMix64::new(rows as u64);
        let values: Vec<f32> = (0..rows * 12 * 5).map(|_| random.uniform(2.0)).collect();
        Tensor::from_slice(&values).view([rows as i64, 12, 5])
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
        let layout = BatchLayout {
            batch_size: 4,
            lookback: 3,
            features: 2,
            horizon: 1,
            targets: 1,
            extras: Extras::NONE,
        };
        let options = options(3, 1, 0.0);
        let model = Model::new(ModelKind::Lstm, &options, &layout, Padding::None, 7, Device::Cpu);
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
        let found = model.forward(&x, None, false).double_value(&[0, 0, 0]);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    fn check_trace(layers: usize, rows: usize) {
        let _guard = tch::no_grad_guard();
        let model = model(layers, 0.3);
        let weights: Vec<Tensor> = model.parameters().tensors.iter().map(Tensor::detach).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pt");
        model.trace(&weights).unwrap().save(&path).unwrap();
        let script = tch::CModule::load(&path).unwrap();
        let x = inputs(rows);
        let (eager, traced) = (model.forward(&x, None, false), script.forward_ts(&[&x]).unwrap());
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
        let x = inputs(lengths.len()).narrow(1, 0, longest).contiguous();
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
            let found = padded.forward(&x, Some(&real), false);
            for (row, &length) in lengths.iter().enumerate() {
                let window = x.narrow(0, row as i64, 1).narrow(1, 0, length);
                let expected = whole.forward(&window, None, false);
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
        model.forward(&x, Some(&real), true).sum(Kind::Float).backward();
        let by_row = x.grad().abs().sum_dim_intlist([2i64].as_slice(), false, Kind::Double);
        let by_row = by_row.select(0, 1);
        let found: Vec<bool> = (0..4).map(|t| by_row.double_value(&[t]) > 0.0).collect();
        assert_eq!(found, [true, true, false, false]);
    }

    #[test]
    fn lengths_are_not_looked_at_where_windows_are_padded_on_the_left() {
        let _guard = tch::no_grad_guard();
        let (x, lengths) = (inputs(2), Tensor::from_slice(&[1.0f32, 12.0]));
        let found = padded(Padding::Left, 1, 0.0).forward(&x, Some(&lengths), false);
        assert!(found.equal(&model(1, 0.0).forward(&x, None, false)));
    }

    #[test]
    fn the_trace_takes_lengths_where_windows_are_padded_on_the_right() {
        let _guard = tch::no_grad_guard();
        let model = padded(Padding::Right, 2, 0.0);
        let weights: Vec<Tensor> = model.parameters().tensors.iter().map(Tensor::detach).collect();
        let script = model.trace(&weights).unwrap();
        for lengths in [&[12, 1][..], &[3], &[1, 1, 1], &[2, 7, 4, 5, 6]] {
            let (x, real) = right_padded(lengths);
            let traced = script.forward_ts(&[&x, &real]).unwrap();
            let eager = model.forward(&x, Some(&real), false);
            assert_eq!(traced.size(), [lengths.len() as i64, 3, 2]);
            assert!(eager.equal(&traced), "lengths {lengths:?}");
        }
    }

    #[test]
    fn dropout_is_off_in_evaluation() {
        let _guard = tch::no_grad_guard();
        let (model, x) = (model(2, 0.5), inputs(8));
        assert!(model.drops_out());
        let forward = |train| model.forward(&x, None, train);
        assert!(forward(false).equal(&forward(false)));
        assert!(!forward(true).equal(&forward(true)));
    }

    #[test]
    fn the_initial_states_are_never_written() {
        let (model, x) = (model(2, 0.5), inputs(256));
        model.forward(&x, None, true).sum(Kind::Float).backward();
        let Model::Lstm(lstm) = &model;
        for zeros in &lstm.zeros {
            assert_eq!(zeros.abs().max().double_value(&[]), 0.0);
        }
        assert_ne!(lstm.zeros[0].data_ptr(), lstm.zeros[1].data_ptr());
    }
}
