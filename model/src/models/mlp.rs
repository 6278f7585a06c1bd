//! A multilayer perceptron: all values of the window at once, through hidden layers, to all forecasts.
//!
//! The same network in PyTorch, with the same names:
//!
//! ```python
//! sizes = [lookback * features] + [hidden] * layers
//! self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
//! self.head = nn.Linear(hidden, horizon * targets)
//! x = values.flatten(1)
//! for layer in self.layers:
//!     x = F.dropout(F.gelu(layer(x)), dropout, self.training)
//! return self.head(x).view(-1, horizon, targets)
//! ```
//!
//! Every value has a weight of its own by its place in the window, so there is no place for padding.

use crate::{
    activation::Activation,
    dropout,
    error::ModelError,
    model::{Architecture, Mode, Model, Shape},
    model_size::{self, COPIES, PER_LAYER},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::SplitMix64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroUsize;
use tch::{Device, Tensor};

/// How large it is: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MlpOptions {
    /// Width of a hidden layer; 128 by default.
    pub hidden: NonZeroUsize,
    /// Hidden layers; 2 by default.
    pub layers: NonZeroUsize,
    /// Dropout after every hidden layer; 0 by default.
    pub dropout: f64,
    /// What every hidden layer ends with; `gelu` by default.
    pub activation: Activation,
}

impl Default for MlpOptions {
    fn default() -> Self {
        let hidden = const { NonZeroUsize::new(128).expect("a default is not zero") };
        let layers = const { NonZeroUsize::new(2).expect("a default is not zero") };
        MlpOptions { hidden, layers, dropout: 0.0, activation: Activation::Gelu }
    }
}

impl Architecture for MlpOptions {
    fn name(&self) -> &str {
        "mlp"
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).expect("plain structs always serialise")
    }

    fn has_heads(&self) -> bool {
        true
    }

    fn reads_padding(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), ModelError> {
        dropout::check(self.dropout)
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        let sizes = [
            ("train.model_options.hidden", self.hidden),
            ("train.model_options.layers", self.layers),
        ];
        model_size::check(sizes, available, |[hidden, layers]| {
            let first = hidden * (shape.lookback as f64 * shape.features as f64 + 1.0);
            let further = (layers - 1.0) * hidden * (hidden + 1.0);
            let head = shape.labels() as f64 * (hidden + 1.0);
            4.0 * (first + further + head) * COPIES + PER_LAYER * layers
        })
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        let hidden = self.hidden.get();
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        // As nn.Linear draws them.
        let mut draw = |name: String, inputs: usize, outputs: usize| {
            let bound = 1.0 / (inputs as f32).sqrt();
            let weight = [outputs, inputs];
            parameters.draw(format!("{name}.weight"), &weight, bound, &mut random, device)?;
            parameters.draw(format!("{name}.bias"), &weight[..1], bound, &mut random, device)
        };
        for layer in 0..self.layers.get() {
            let inputs = if layer == 0 { shape.lookback * shape.features } else { hidden };
            draw(format!("layers.{layer}"), inputs, hidden)?;
        }
        draw("head".into(), hidden, shape.labels())?;
        Ok(Box::new(Mlp { options: *self, forecast: shape.outputs(), parameters }))
    }
}

#[derive(Debug)]
struct Mlp {
    options: MlpOptions,
    /// The shape of a forecast, of any number of rows.
    forecast: Vec<i64>,
    parameters: Parameters,
}

impl Model for Mlp {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        let weights = &self.parameters.tensors;
        let (layers, head) = weights.split_at(weights.len() - 2);
        let MlpOptions { dropout, activation, .. } = self.options;
        let mut values = inputs.values.f_flatten(1, 2)?;
        for layer in layers.chunks_exact(2) {
            values = activation.apply(&values.f_linear(&layer[0], Some(&layer[1]))?)?;
            if dropout > 0.0 && mode == Mode::Train {
                values = values.f_dropout(dropout, true)?;
            }
        }
        Ok(values.f_linear(&head[0], Some(&head[1]))?.f_view(self.forecast.as_slice())?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn is_random(&self) -> bool {
        self.options.dropout > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{channels::sample, target_column::OwnInput::Missing};

    fn options(hidden: usize, layers: usize, dropout: f64) -> MlpOptions {
        let size = |value| NonZeroUsize::new(value).unwrap();
        MlpOptions { hidden: size(hidden), layers: size(layers), dropout, ..MlpOptions::default() }
    }

    fn build(options: MlpOptions) -> Box<dyn Model> {
        options.build(&sample::shape(5, &[Missing; 2]), 42, Device::Cpu).unwrap()
    }

    #[test]
    fn names_shapes_and_bounds_are_those_of_pytorch() {
        let model = build(options(16, 2, 0.0));
        let parameters = model.parameters();
        let named = parameters.names.iter().zip(&parameters.tensors);
        let found: Vec<(&str, Vec<i64>)> = named.map(|(name, t)| (&**name, t.size())).collect();
        assert_eq!(
            found,
            [
                ("layers.0.weight", vec![16, 60]),
                ("layers.0.bias", vec![16]),
                ("layers.1.weight", vec![16, 16]),
                ("layers.1.bias", vec![16]),
                ("head.weight", vec![6, 16]),
                ("head.bias", vec![6]),
            ]
        );
        for (tensor, inputs) in parameters.tensors.iter().zip([60, 60, 16, 16, 16, 16]) {
            let largest = tensor.abs().max().double_value(&[]);
            let bound = 1.0 / f64::from(inputs).sqrt();
            assert!((0.5 * bound..=bound).contains(&largest), "{largest} beside {bound}");
        }
    }

    #[test]
    fn forward_is_layer_after_layer() {
        let _guard = tch::no_grad_guard();
        let x = sample::values(4, 5);
        for activation in [Activation::Gelu, Activation::Relu] {
            let model = build(MlpOptions { activation, ..options(16, 2, 0.5) });
            let p = &model.parameters().tensors;
            let act = |x: Tensor| match activation {
                Activation::Relu => x.clamp_min(0.0),
                Activation::Gelu => &x * 0.5 * (1.0 + (&x / 2f64.sqrt()).erf()),
            };
            let first = act(x.reshape([4, 60]).linear(&p[0], Some(&p[1])));
            let second = act(first.linear(&p[2], Some(&p[3])));
            let expected = second.linear(&p[4], Some(&p[5])).reshape([4, 3, 2]);
            let found = model.forward(&sample::inputs(&x), Mode::Evaluate).unwrap();
            let difference = (found - expected).abs().max().double_value(&[]);
            assert!(difference < 1e-6, "{activation:?}: {difference}");
        }
    }

    #[test]
    fn dropout_is_off_in_evaluation() {
        let _guard = tch::no_grad_guard();
        let (model, x) = (build(options(16, 1, 0.5)), sample::inputs(&sample::values(8, 5)));
        assert!(model.is_random() && !build(options(16, 1, 0.0)).is_random());
        let forward = |mode| model.forward(&x, mode).unwrap();
        assert!(forward(Mode::Evaluate).equal(&forward(Mode::Evaluate)));
        assert!(!forward(Mode::Train).equal(&forward(Mode::Train)));
    }

    #[test]
    fn the_trace_gives_the_same_bits_for_any_number_of_rows() {
        sample::check_trace(&options(16, 2, 0.3), &sample::shape(5, &[Missing; 2]));
    }

    #[test]
    fn what_is_out_of_range_or_cannot_fit_is_refused() {
        let check = |hidden, layers, dropout, expected: &str| {
            let options = options(hidden, layers, dropout);
            let shape = Shape { lookback: 60, features: 105, ..Shape::LEAST };
            let checked = options.check().and_then(|()| options.check_room(&shape, 16_000_000_000));
            let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(found.is_empty(), expected.is_empty(), "{hidden} × {layers}: {found}");
            assert!(found.starts_with(expected), "{found}");
        };
        check(128, 2, 0.9, "");
        check(128, 2, 1.0, "train.model_options.dropout is 1, but must be at least 0 and below 1");
        check(usize::MAX, 2, 0.0, "train.model_options.hidden is 18446744073709551615, but must");
        check(128, usize::MAX, 0.0, "train.model_options.layers is 18446744073709551615, but must");
    }
}
