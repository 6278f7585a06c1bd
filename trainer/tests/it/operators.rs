//! What libtorch runs between two log lines: no value is read, and nothing of a batch's size is copied
//! that the bare model does not copy.

use crate::stream::{BATCH, FEATURES, LOOKBACK, Stream, settings, trainer};
use millstream_data::Phase;
use millstream_model::{
    Architecture, BatchTensors, Inputs, LstmOptions, Mode, Model, ModelError, ModelKind,
    ModelOptions, Operators, Parameters, Precision, Shape,
};
use millstream_trainer::{LossScale, OptimizerKind, TrainSettings, Trainer};
use tch::{Device, Reduction};

/// Steps that are counted.
const STEPS: u64 = 5;
/// Values of a batch.
const LARGE: usize = BATCH * LOOKBACK * FEATURES;
/// Every read of a value by the host ends here.
const READ: &str = "aten::_local_scalar_dense";
const COPIES: [&str; 4] = ["aten::copy_", "aten::clone", "aten::contiguous", "aten::_to_copy"];

/// What some steps between two log lines run.
fn counted(settings: TrainSettings, with: impl FnOnce(Trainer) -> Trainer) -> Operators {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [1600, 20, 0]);
    let mut trainer = with(trainer(settings, run.path()));
    let train = stream.tags().into_iter().position(|tag| tag.phase == Phase::Train).unwrap();
    let tags = stream.tags();
    let (before, rest) = tags.split_at(train + 3);
    stream.feed(&mut trainer, before).unwrap();
    let count = || stream.feed(&mut trainer, &rest[..STEPS as usize]).unwrap();
    Operators::of(LARGE, count).1
}

fn of_model(kind: ModelKind) -> TrainSettings {
    let mut settings = settings();
    (settings.model, settings.model_options) = (kind, ModelOptions::default());
    settings.log_every = 1000.try_into().unwrap();
    settings
}

fn models() -> impl Iterator<Item = ModelKind> {
    ModelKind::ALL.iter().copied().filter(|kind| kind.name() != "script")
}

fn build(kind: ModelKind) -> Box<dyn Model> {
    let stream = Stream::new(1, [16, 0, 0]);
    let shape = Shape::of(&stream.layout, &stream.plan.schema, &stream.plan.scaling);
    of_model(kind).architecture().unwrap().build(&shape, 1, Device::Cpu).unwrap()
}

/// Libtorch's fused Adam reads the step of every parameter on the CPU, where that is no waiting; a CUDA
/// kernel does not.
fn of_adam(kind: ModelKind) -> u64 {
    STEPS * build(kind).parameters().tensors.len() as u64
}

#[test]
fn no_value_is_read_between_two_log_lines() {
    for kind in models() {
        for (precision, ema) in [(Precision::F32, 0.0), (Precision::Bf16, 0.9)] {
            let mut settings = of_model(kind);
            (settings.precision, settings.ema) = (precision, ema);
            if precision != Precision::F32 {
                // As with f16, which not every processor has for an LSTM.
                settings.loss_scale = LossScale::From(1024.0);
            }
            let name = kind.name();
            let reads = counted(settings.clone(), |trainer| trainer).calls(READ).all;
            assert_eq!(reads, of_adam(kind), "{name} in {precision}");
            settings.optimizer = OptimizerKind::Sgd;
            assert_eq!(counted(settings, |trainer| trainer).calls(READ).all, 0, "{name}");
        }
    }
}

/// An LSTM that looks at its forecast.
#[derive(Debug)]
struct Curious;

#[derive(Debug)]
struct Looking(Box<dyn Model>);

impl Architecture for Curious {
    fn name(&self) -> &str {
        "curious"
    }
    fn options(&self) -> serde_json::Value {
        serde_json::json!({})
    }
    fn build(&self, shape: &Shape, seed: u64, to: Device) -> Result<Box<dyn Model>, ModelError> {
        Ok(Box::new(Looking(LstmOptions::default().build(shape, seed, to)?)))
    }
}

impl Model for Looking {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<tch::Tensor, ModelError> {
        let forecast = self.0.forward(inputs, mode)?;
        let _ = forecast.f_double_value(&[0, 0, 0])?;
        Ok(forecast)
    }
    fn parameters(&self) -> &Parameters {
        self.0.parameters()
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        self.0.parameters_mut()
    }
}

#[test]
fn a_value_that_is_read_is_counted() {
    let found = counted(of_model(ModelKind::Lstm), |trainer| trainer.with_model(Curious));
    assert_eq!(found.calls(READ).all, of_adam(ModelKind::Lstm) + STEPS);
}

#[test]
fn nothing_of_a_batch_is_copied_that_the_bare_model_does_not_copy() {
    for kind in models() {
        let stream = Stream::new(1, [1600, 0, 0]);
        let model = build(kind);
        let tags = stream.tags();
        let bare = || {
            for tag in &tags[..STEPS as usize] {
                let batch = BatchTensors::new(stream.batch(*tag)).unwrap();
                let forecast = model.forward(&batch.inputs, Mode::Train).unwrap();
                forecast.mse_loss(&batch.targets, Reduction::Mean).backward();
                drop(millstream_model::fused::take_gradients(&model.parameters().tensors));
            }
        };
        let ((), bare) = Operators::of(LARGE, bare);
        let ours = counted(of_model(kind), |trainer| trainer);
        for copy in COPIES {
            let (ours, bare) = (ours.calls(copy).large, bare.calls(copy).large);
            assert_eq!(ours, bare, "{copy} of {}", kind.name());
        }
    }
}
