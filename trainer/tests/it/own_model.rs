//! A model that the crate does not know: it trains, is kept, goes on and is refused like any other.

use crate::stream::{FEATURES, Stream, resumed, settings, trainer};
use millstream_data::SplitMix64;
use millstream_model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, Parameters, Shape,
};
use millstream_stage::{Ending, Sink};
use std::{fs, path::Path};
use tch::{Device, Tensor};

/// Forecasts the weighted sum of the last row, once or several times over.
#[derive(Debug, Clone, Copy)]
struct Linear {
    times: f64,
}

impl Architecture for Linear {
    fn name(&self) -> &str {
        "linear"
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!({ "times": self.times })
    }

    fn build(&self, _: &Shape, seed: u64, device: Device) -> Result<Box<dyn Model>, ModelError> {
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(seed);
        parameters.draw("head.weight", &[1, FEATURES], 0.5, &mut random, device)?;
        Ok(Box::new(Built { times: self.times, parameters }))
    }
}

#[derive(Debug)]
struct Built {
    times: f64,
    parameters: Parameters,
}

impl Model for Built {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let last = inputs.values.f_select(1, -1)?;
        let weighted = last.f_linear(&self.parameters.tensors[0], None::<&Tensor>)?;
        Ok(weighted.f_mul_scalar(self.times)?.f_unsqueeze(1)?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }
}

const MODEL: Linear = Linear { times: 1.0 };

fn weights(run: &Path) -> Vec<u8> {
    fs::read(run.join("checkpoints/last/model.safetensors")).unwrap()
}

#[test]
fn it_learns_and_goes_on_with_the_same_bits() {
    let stream = Stream::new(6, [640, 100, 40]);
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tags = stream.tags();
    let mut one = trainer(settings(), whole.path()).with_model(MODEL);
    stream.feed(&mut one, &tags).unwrap();
    let report = one.finish(Ending::Drained).unwrap();
    let (before, after) = (report.first_validation_loss.unwrap(), report.test.unwrap());
    assert!(after.overall.mse.unwrap() * 5.0 < before, "{before} to {after:?}");

    let (first, second) = tags.split_at(70);
    let mut two = trainer(settings(), cut.path()).with_model(MODEL);
    stream.feed(&mut two, first).unwrap();
    two.finish(Ending::Interrupted).unwrap();
    let mut two = resumed(settings(), cut.path()).with_model(MODEL);
    stream.feed(&mut two, second).unwrap();
    two.finish(Ending::Drained).unwrap();
    assert_eq!(weights(whole.path()), weights(cut.path()));

    let schema = fs::read(whole.path().join("checkpoints/best/schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema["model"], serde_json::to_value(ModelDescription::of(&MODEL)).unwrap());
}

/// It makes one output a forecast, as models did before there were others to make.
#[test]
fn a_loss_that_wants_several_heads_is_refused() {
    let stream = Stream::new(2, [40, 20, 0]);
    let run = tempfile::tempdir().unwrap();
    let mut quantiles = settings();
    quantiles.loss = millstream_trainer::Loss::Quantile;
    let mut trainer = trainer(quantiles, run.path()).with_model(MODEL);
    let error = stream.feed(&mut trainer, &stream.tags()[..1]).unwrap_err().to_string();
    let expected = "train.loss is \"quantile\", but must be another with train.model = \"linear\", \
                    which has no heads for quantiles";
    assert_eq!(error, expected);
}

#[test]
fn a_run_goes_on_with_no_other_model() {
    let stream = Stream::new(2, [40, 20, 0]);
    let run = tempfile::tempdir().unwrap();
    let mut trainer = trainer(settings(), run.path()).with_model(MODEL);
    stream.feed(&mut trainer, &stream.tags()[..4]).unwrap();
    trainer.finish(Ending::Interrupted).unwrap();
    let refused = |mut trainer: millstream_trainer::Trainer| {
        stream.feed(&mut trainer, &stream.tags()[4..5]).unwrap_err().to_string()
    };
    let error = refused(resumed(settings(), run.path()));
    assert!(error.contains("the model's kind was \"linear\" and is now \"lstm\""), "{error}");
    let other = Linear { times: 2.0 };
    let error = refused(resumed(settings(), run.path()).with_model(other));
    assert!(error.contains("the model's options.times was 1.0 and is now 2.0"), "{error}");
}
