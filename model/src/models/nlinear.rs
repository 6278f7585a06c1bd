//! NLinear (Zeng et al., "Are Transformers Effective for Time Series Forecasting?", 2023): a linear
//! map from the window of a column to its next values, all taken relative to the window's last value.
//!
//! The same network in PyTorch, with the same names; `Linear` is a list with a map for each column
//! where they are `individual`:
//!
//! ```python
//! self.Linear = nn.Linear(lookback, horizon)
//! x = values[:, :, own_inputs].permute(0, 2, 1)
//! last = x[:, :, -1:].detach()
//! return (self.Linear(x - last) + last).permute(0, 2, 1)
//! ```
//!
//! In the published form all columns come in and all are forecast. Here the targets may be some of the
//! inputs; the other inputs have no part in it. Where changes are forecast (`target.kind`), which have
//! no level, the last value is not added back. Windows are whole: there is no place for padding.

use crate::{
    channels::{self, Channels},
    error::ModelError,
    model::{Architecture, Mode, Model, Shape},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::SplitMix64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::{Device, Tensor};

const NAME: &str = "nlinear";

/// Its options: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NlinearOptions {
    /// Whether every target has a map of its own, instead of one for all; false by default.
    pub individual: bool,
}

impl Architecture for NlinearOptions {
    fn name(&self) -> &str {
        NAME
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

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        channels::check_room(1, self.individual, shape, available)
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        let channels = Channels::new(shape, NAME, true, device)?;
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        let individual = self.individual;
        channels::draw_maps(&mut parameters, "Linear", individual, shape, &mut random, device)?;
        Ok(Box::new(Nlinear { channels, shape: shape.clone(), parameters }))
    }
}

#[derive(Debug)]
struct Nlinear {
    channels: Channels,
    shape: Shape,
    parameters: Parameters,
}

impl Model for Nlinear {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let channels = self.channels.of(&inputs.values)?;
        let last = channels.f_narrow(2, -1, 1)?;
        // Contiguous, so that the map adds its bias while it multiplies.
        let relative = channels.f_sub(&last)?.f_contiguous()?;
        let change = channels::apply_maps(&self.parameters.tensors, &relative)?;
        let forecast = if self.channels.have_level { change.f_add(&last)? } else { change };
        Ok(channels::forecast(&forecast, &self.shape)?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn is_random(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        channels::sample,
        target_column::OwnInput::{self, Change, Level},
    };

    const ONE: NlinearOptions = NlinearOptions { individual: false };
    const EACH: NlinearOptions = NlinearOptions { individual: true };

    /// The formula of the paper, one window, channel and step at a time.
    fn check(options: NlinearOptions, own_inputs: &[OwnInput]) {
        let _guard = tch::no_grad_guard();
        let shape = sample::shape(4, own_inputs);
        let model = options.build(&shape, 7, Device::Cpu).unwrap();
        let x = sample::values(5, 4);
        let found = model.forward(&sample::inputs(&x), Mode::Evaluate).unwrap();
        assert_eq!(found.size(), [5, 3, own_inputs.len() as i64]);
        for (target, own_input) in own_inputs.iter().enumerate() {
            let map = if options.individual { target } else { 0 };
            let [weight, bias] = [0, 1].map(|i| &model.parameters().tensors[2 * map + i]);
            let place = own_input.place().unwrap() as i64;
            for row in 0..5 {
                let window = x.select(0, row).select(1, place);
                let last = window.select(0, -1);
                let change = weight.matmul(&(&window - &last)) + bias;
                let expected = if matches!(own_input, Level(_)) { change + &last } else { change };
                let difference = (found.select(0, row).select(1, target as i64) - expected).abs();
                assert!(difference.max().double_value(&[]) < 1e-6, "{options:?} {own_inputs:?}");
            }
        }
    }

    #[test]
    fn forward_is_the_published_formula() {
        for options in [ONE, EACH] {
            check(options, &[Level(0), Level(1), Level(2), Level(3)]);
            check(options, &[Level(3), Level(1)]);
            check(options, &[Change(2)]);
        }
    }

    #[test]
    fn a_shift_of_a_window_shifts_its_forecast() {
        let _guard = tch::no_grad_guard();
        let model = ONE.build(&sample::shape(1, &[Level(0)]), 7, Device::Cpu).unwrap();
        let x = sample::values(3, 1);
        let forecast = |x: &Tensor| model.forward(&sample::inputs(x), Mode::Evaluate).unwrap();
        let difference = (forecast(&(&x + 8.0)) - forecast(&x) - 8.0).abs().max();
        assert!(difference.double_value(&[]) < 1e-5);
    }

    #[test]
    fn the_batch_is_not_written_to() {
        let model = ONE.build(&sample::shape(1, &[Level(0)]), 7, Device::Cpu).unwrap();
        let x = sample::values(3, 1);
        drop(model.forward(&sample::inputs(&x), Mode::Train).unwrap());
        assert!(x.equal(&sample::values(3, 1)));
    }

    #[test]
    fn the_trace_gives_the_same_bits_for_any_number_of_rows() {
        for options in [ONE, EACH] {
            sample::check_trace(&options, &sample::shape(4, &[Level(3), Level(1)]));
            sample::check_trace(&options, &sample::shape(2, &[Level(0), Level(1)]));
        }
    }

    #[test]
    fn weights_are_drawn_as_pytorch_does() {
        let shape = sample::shape(2, &[Level(0), Level(1)]);
        let model = EACH.build(&shape, 7, Device::Cpu).unwrap();
        let names = ["Linear.0.weight", "Linear.0.bias", "Linear.1.weight", "Linear.1.bias"];
        assert_eq!(model.parameters().names, names);
        let one = ONE.build(&shape, 7, Device::Cpu).unwrap();
        assert_eq!(one.parameters().names, ["Linear.weight", "Linear.bias"]);
        let weight = &one.parameters().tensors[0];
        assert_eq!(weight.size(), [3, 12]);
        let largest = weight.abs().max().double_value(&[]);
        assert!((0.2..=1.0 / 12f64.sqrt()).contains(&largest), "{largest}");
    }
}
