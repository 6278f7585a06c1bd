//! A model of next to no arithmetic: one linear layer over the whole window.

use millstream_data::SplitMix64;
use millstream_model::{Architecture, Inputs, Mode, Model, ModelError, Parameters, Shape};
use serde_json::Value;
use tch::{Device, Tensor};

#[derive(Debug)]
pub(crate) struct Linear;

#[derive(Debug)]
struct Built(Parameters);

impl Architecture for Linear {
    fn name(&self) -> &str {
        "linear"
    }

    fn options(&self) -> Value {
        serde_json::json!({})
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        let inputs = shape.lookback * shape.features;
        let bound = (inputs as f32).sqrt().recip();
        parameters.draw("head.weight", &[1, inputs], bound, &mut random, device)?;
        parameters.draw("head.bias", &[1], bound, &mut random, device)?;
        Ok(Box::new(Built(parameters)))
    }
}

impl Model for Built {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let [weight, bias] = &self.0.tensors[..] else { unreachable!("it was built with two") };
        let flat = inputs.values.f_flatten(1, -1)?;
        Ok(flat.f_linear(weight, Some(bias))?.f_unsqueeze(-1)?)
    }

    fn parameters(&self) -> &Parameters {
        &self.0
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }

    fn is_random(&self) -> bool {
        false
    }
}
