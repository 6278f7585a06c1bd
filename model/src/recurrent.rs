//! What recurrent models have in common: layers of one [`Cell`] on top of each other, and a linear
//! head on the last hidden state: that of the window's last real row, where windows are padded on the
//! right.
//!
//! It calls libtorch's functional form: tch's own layers fix training mode at construction, so that
//! their dropout would stay on in evaluation, and share storage between initial states.

use crate::{
    dropout,
    error::ModelError,
    model::{Mode, Model, Shape},
    model_size::{self, COPIES, PER_LAYER},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::{Padding, SplitMix64};
use std::{fmt::Debug, marker::PhantomData, num::NonZeroUsize};
use tch::{Device, Kind, TchError, Tensor};

/// What tells one recurrent model from another.
pub trait Cell: Debug + Send + Sync + 'static {
    /// What its weights are called before the dot.
    const NAME: &str;
    /// Gates of a unit: rows of its weights for each value of the hidden state.
    const GATES: usize;
    /// States that it carries from row to row, the hidden one first.
    const STATES: usize;

    /// All hidden states of the last layer `[rows, lookback, hidden]`, and of every layer the last
    /// `[layers, rows, hidden]`.
    fn run(
        values: &Tensor,
        states: &[Tensor],
        weights: &[Tensor],
        layers: &Layers,
        train: bool,
    ) -> Result<(Tensor, Tensor), TchError>;
}

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub struct Layers {
    pub(crate) hidden: NonZeroUsize,
    pub(crate) layers: NonZeroUsize,
    /// Between layers.
    pub(crate) dropout: f64,
}

impl Layers {
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        dropout::check(self.dropout)
    }

    /// What an option needs to have an effect.
    pub(crate) fn idle(&self, option: &str) -> Option<&'static str> {
        let idle = option == "dropout" && self.layers.get() == 1;
        idle.then_some("train.model_options.layers above 1")
    }

    pub(crate) fn check_room<C: Cell>(
        &self,
        shape: &Shape,
        available: u64,
    ) -> Result<(), ModelError> {
        let sizes = [
            ("train.model_options.hidden", self.hidden),
            ("train.model_options.layers", self.layers),
        ];
        let [gates, states] = [C::GATES, C::STATES].map(|count| count as f64);
        model_size::check(sizes, available, |[hidden, layers]| {
            let first = gates * hidden * (shape.features as f64 + hidden + 2.0);
            let further = (layers - 1.0) * gates * hidden * (2.0 * hidden + 2.0);
            let head = shape.labels() as f64 * (hidden + 1.0);
            let states = states * layers * shape.batch_size as f64 * hidden;
            4.0 * ((first + further + head) * COPIES + states) + PER_LAYER * layers
        })
    }

    fn sizes(&self) -> (i64, i64) {
        (self.layers.get() as i64, self.hidden.get() as i64)
    }
}

/// The network, its weights and its initial states.
#[derive(Debug)]
pub(crate) struct Recurrent<C> {
    layers: Layers,
    shape: Shape,
    parameters: Parameters,
    /// Zeros for the initial states of a full batch. Allocated once and only ever read; each batch
    /// sees a view of its own size.
    zeros: Vec<Tensor>,
    cell: PhantomData<C>,
}

impl<C: Cell> Recurrent<C> {
    pub(crate) fn new(
        layers: Layers,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Self, ModelError> {
        let (name, gates, hidden) = (C::NAME, C::GATES, layers.hidden.get());
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(seed);
        // PyTorch draws the weights of a recurrent layer within 1 / sqrt(hidden); Kaiming's rule for
        // nn.Linear comes to the same bound, as the head's fan-in is the hidden size.
        let bound = 1.0 / (hidden as f32).sqrt();
        let mut draw = |name: String, shape: &[usize]| {
            parameters.draw(name, shape, bound, &mut random, device)
        };
        for layer in 0..layers.layers.get() {
            let inputs = if layer == 0 { shape.features } else { hidden };
            draw(format!("{name}.weight_ih_l{layer}"), &[gates * hidden, inputs])?;
            draw(format!("{name}.weight_hh_l{layer}"), &[gates * hidden, hidden])?;
            draw(format!("{name}.bias_ih_l{layer}"), &[gates * hidden])?;
            draw(format!("{name}.bias_hh_l{layer}"), &[gates * hidden])?;
        }
        draw("head.weight".into(), &[shape.labels(), hidden])?;
        draw("head.bias".into(), &[shape.labels()])?;

        let state = (layers.layers.get() * shape.batch_size * hidden) as i64;
        let zeros = (0..C::STATES).map(|_| Tensor::f_zeros([state], (Kind::Float, device)));
        let zeros = zeros.collect::<Result<_, _>>()?;
        Ok(Recurrent { layers, shape: shape.clone(), parameters, zeros, cell: PhantomData })
    }

    fn network(
        &self,
        inputs: &Inputs,
        states: &[Tensor],
        mode: Mode,
    ) -> Result<Tensor, ModelError> {
        let weights = &self.parameters.tensors;
        let (recurrent, head) = weights.split_at(weights.len() - 2);
        let train = mode == Mode::Train;
        let (all, last) = C::run(&inputs.values, states, recurrent, &self.layers, train)?;
        let last = match self.shape.padding {
            Padding::None | Padding::Left => last.f_select(0, -1)?,
            Padding::Right => {
                let lengths = inputs.lengths.as_ref();
                last_real(&all, lengths.expect("windows padded on the right have lengths"))?
            }
        };
        let labels = last.f_linear(&head[0], Some(&head[1]))?;
        Ok(labels.f_view(self.shape.outputs().as_slice())?)
    }
}

impl<C: Cell> Model for Recurrent<C> {
    /// Lengths are looked at only where windows are padded on the right.
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        let (layers, hidden) = self.layers.sizes();
        let rows = inputs.values.size()[0];
        // Narrowed while flat, so that the view of a small batch is contiguous too, as cuDNN asks.
        let state = |zeros: &Tensor| {
            zeros.f_narrow(0, 0, layers * rows * hidden)?.f_view([layers, rows, hidden])
        };
        let states = self.zeros.iter().map(state).collect::<Result<Vec<_>, TchError>>()?;
        self.network(inputs, &states, mode)
    }

    /// The initial states take their size and device from the input, not from a constant.
    fn forward_traced(&self, inputs: &Inputs) -> Result<Tensor, ModelError> {
        let (layers, hidden) = self.layers.sizes();
        let state = |_| {
            let rows = inputs.values.f_narrow(1, 0, 1)?.f_narrow(2, 0, 1)?.f_zeros_like()?;
            rows.f_transpose(0, 1)?.f_expand([layers, -1, hidden], false)?.f_contiguous()
        };
        let states = (0..C::STATES).map(state).collect::<Result<Vec<_>, TchError>>()?;
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
        self.layers.dropout > 0.0 && self.layers.layers.get() > 1
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
    use crate::{
        models::{gru::Gru, lstm::Lstm},
        torchscript::to_torchscript,
    };
    use std::borrow::Cow;
    use tch::CModule;

    const SHAPE: Shape = Shape {
        batch_size: 256,
        lookback: 12,
        features: 5,
        horizon: 3,
        targets: 2,
        heads: 1,
        padding: Padding::None,
        target_columns: Cow::Borrowed(&[]),
    };

    fn layers(layers: usize, dropout: f64) -> Layers {
        let size = |value| NonZeroUsize::new(value).unwrap();
        Layers { hidden: size(16), layers: size(layers), dropout }
    }

    fn padded<C: Cell>(padding: Padding, depth: usize, dropout: f64) -> Recurrent<C> {
        let shape = Shape { padding, ..SHAPE };
        Recurrent::new(layers(depth, dropout), &shape, 42, Device::Cpu).unwrap()
    }

    fn model<C: Cell>(depth: usize, dropout: f64) -> Recurrent<C> {
        padded(Padding::None, depth, dropout)
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

    fn evaluate<C: Cell>(
        model: &Recurrent<C>,
        values: &Tensor,
        lengths: Option<&Tensor>,
    ) -> Tensor {
        model.forward(&inputs(values, lengths), Mode::Evaluate).unwrap()
    }

    fn script<C: Cell>(model: Recurrent<C>) -> CModule {
        let shape = model.shape.clone();
        CModule::load_data(&mut &to_torchscript(Box::new(model), &shape).unwrap()[..]).unwrap()
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

    fn check_trace<C: Cell>() {
        let _guard = tch::no_grad_guard();
        for (depth, rows) in [(1, 1), (1, 7), (1, 256), (2, 1), (2, 7), (2, 256)] {
            let model = model::<C>(depth, 0.3);
            let x = values(rows);
            let eager = evaluate(&model, &x, None);
            let traced = script(model).forward_ts(&[&x]).unwrap();
            assert_eq!(eager.size(), [rows as i64, 3, 2]);
            assert!(eager.equal(&traced), "{depth} layers, {rows} rows");
        }
        let script = script(padded::<C>(Padding::Right, 2, 0.0));
        for lengths in [&[12, 1][..], &[3], &[1, 1, 1], &[2, 7, 4, 5, 6]] {
            let (x, real) = right_padded(lengths);
            let traced = script.forward_ts(&[&x, &real]).unwrap();
            let eager = evaluate(&padded::<C>(Padding::Right, 2, 0.0), &x, Some(&real));
            assert_eq!(traced.size(), [lengths.len() as i64, 3, 2]);
            assert!(eager.equal(&traced), "lengths {lengths:?}");
        }
    }

    #[test]
    fn the_trace_gives_the_same_bits_for_any_number_of_rows_and_any_lengths() {
        check_trace::<Lstm>();
        check_trace::<Gru>();
    }

    fn check_padding_has_no_part<C: Cell>() {
        let lengths = [5, 1, 3, 5];
        let (x, real) = right_padded(&lengths);
        let x = x.set_requires_grad(true);
        for depth in [1, 2] {
            let (padded, whole) = (padded::<C>(Padding::Right, depth, 0.0), model::<C>(depth, 0.0));
            let found = evaluate(&padded, &x, Some(&real));
            for (row, &length) in lengths.iter().enumerate() {
                let window = x.narrow(0, row as i64, 1).narrow(1, 0, length);
                let expected = evaluate(&whole, &window, None);
                let difference = (found.narrow(0, row as i64, 1) - expected).abs().max();
                assert!(difference.double_value(&[]) < 1e-6, "{depth} layers, length {length}");
            }
        }
        let forecast = padded::<C>(Padding::Right, 2, 0.0);
        let forecast = forecast.forward(&inputs(&x, Some(&real)), Mode::Train).unwrap();
        forecast.sum(Kind::Float).backward();
        let by_row = x.grad().abs().sum_dim_intlist([2i64].as_slice(), false, Kind::Double);
        let by_row = by_row.select(0, 2);
        let found: Vec<bool> = (0..5).map(|t| by_row.double_value(&[t]) > 0.0).collect();
        assert_eq!(found, [true, true, true, false, false], "the window with three rows");
    }

    #[test]
    fn padding_on_the_right_has_no_part_in_forecasts_or_gradients() {
        check_padding_has_no_part::<Lstm>();
        check_padding_has_no_part::<Gru>();
    }

    #[test]
    fn lengths_are_not_looked_at_where_windows_are_padded_on_the_left() {
        let _guard = tch::no_grad_guard();
        let (x, lengths) = (values(2), Tensor::from_slice(&[1.0f32, 12.0]));
        let found = evaluate(&padded::<Lstm>(Padding::Left, 1, 0.0), &x, Some(&lengths));
        assert!(found.equal(&evaluate(&model::<Lstm>(1, 0.0), &x, None)));
    }

    fn check_dropout_off<C: Cell>() {
        let (model, x) = (model::<C>(2, 0.5), inputs(&values(256), None));
        assert!(model.is_random());
        let forward = |mode| model.forward(&x, mode).unwrap();
        assert!(forward(Mode::Evaluate).equal(&forward(Mode::Evaluate)));
        assert!(!forward(Mode::Train).equal(&forward(Mode::Train)));
        forward(Mode::Train).sum(Kind::Float).backward();
        for zeros in &model.zeros {
            assert_eq!(zeros.abs().max().double_value(&[]), 0.0, "the states are never written");
        }
    }

    #[test]
    fn dropout_is_off_in_evaluation_and_the_initial_states_are_never_written() {
        check_dropout_off::<Lstm>();
        check_dropout_off::<Gru>();
        let zeros = model::<Lstm>(2, 0.5).zeros;
        assert_ne!(zeros[0].data_ptr(), zeros[1].data_ptr());
    }

    #[test]
    fn what_libtorch_refuses_is_an_error() {
        let x = Tensor::zeros([1, 12, 5], (Kind::Double, Device::Cpu));
        let error = model::<Gru>(1, 0.0).forward(&inputs(&x, None), Mode::Evaluate).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("libtorch: ") && text.lines().count() == 1, "{text}");
    }
}
