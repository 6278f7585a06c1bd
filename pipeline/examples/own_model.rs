//! A model of your own: it trains, is saved, goes on where it was stopped and forecasts like any other.
//! `cargo run --release --example own_model`

use millstream::model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, Parameters, Shape,
};
use millstream::{Error, Event, Forecast, Overrides, Progress, Settings, Training, Watch};
use millstream_data::SplitMix64;
use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

/// Forecasts from the mean of the window's last rows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct MeanOfLast {
    rows: i64,
}

#[derive(Debug)]
struct Network {
    shape: Shape,
    rows: i64,
    parameters: Parameters,
}

impl Architecture for MeanOfLast {
    fn name(&self) -> &str {
        "mean_of_last"
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn build(&self, shape: &Shape, seed: u64, on: Device) -> Result<Box<dyn Model>, ModelError> {
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        let bound = 1.0 / (shape.features as f32).sqrt();
        let size = [shape.labels(), shape.features];
        parameters.draw("head.weight", &size, bound, &mut random, on)?;
        Ok(Box::new(Network { shape: shape.clone(), rows: self.rows, parameters }))
    }
}

impl Model for Network {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let rows = self.rows.min(inputs.values.size()[1]);
        let last = inputs.values.f_narrow(1, -rows, rows)?;
        let mean = last.f_mean_dim(1i64, false, None)?;
        let labels = mean.f_linear(&self.parameters.tensors[0], None::<&Tensor>)?;
        Ok(labels.f_view([-1, self.shape.horizon as i64, self.shape.targets as i64])?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }
}

fn main() -> Result<(), Error> {
    let model = MeanOfLast { rows: 5 };
    let watch = Watch::default();
    let stop = watch.stop_handle();
    let stopping = watch.on_event(move |event| {
        if let Event::Training(Progress::Step { step: 100, .. }) = event {
            stop.stop(); // in the middle of an epoch
        }
    });
    let run = Training::new(Settings::default())?.with_model(model).start()?;
    let run = run.train(&stopping)?.into_report().run;
    let training = Training::resume(&run, &Overrides::default())?.with_model(model);
    let report = training.start()?.train(&Watch::default())?.into_report();
    let find = move |_: &ModelDescription| Ok(Box::new(model) as Box<dyn Architecture>);
    let forecasts = Forecast::of(&run).with_models(find).write(&Watch::default())?;
    println!("{} steps, {:?}, {} forecasts", report.steps, report.test, forecasts.rows);
    Ok(())
}
