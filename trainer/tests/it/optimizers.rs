//! What holds for every optimizer, every schedule and every model.

use crate::stream::{Stream, resumed, settings, trainer};
use millstream_data::Tag;
use millstream_model::{Architecture as _, ModelKind, ModelOptions};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{OptimizerKind, Schedule, TrainSettings};
use serde_json::Value;
use std::{fs, num::NonZeroU32, num::NonZeroUsize, path::Path};
use tch::Tensor;

/// Every model as it is by default, but for what would make two runs differ by chance. One that cannot
/// be built without something of the user's is not here.
fn models() -> impl Iterator<Item = (ModelKind, ModelOptions)> {
    ModelKind::ALL.iter().filter_map(|&kind| {
        let architecture = kind.architecture(&ModelOptions::default()).ok()?;
        architecture.check().ok()?;
        let mut options = architecture.options();
        if let Some(dropout) = options.get_mut("dropout") {
            *dropout = 0.0.into();
        }
        Some((kind, serde_json::from_value(options).unwrap()))
    })
}

fn weights(run: &Path) -> Vec<(String, Tensor)> {
    let path = run.join("checkpoints/last/model.safetensors");
    let mut weights = Tensor::read_safetensors(path).unwrap();
    weights.sort_by(|(a, _), (b, _)| a.cmp(b));
    weights
}

/// Of a difference of weights that of those that have a gradient. Attention does not change with the bias of
/// its keys, the second third of three: the gradient is what rounding leaves, and Adam makes steps of it.
fn learned(name: &str, difference: &Tensor) -> Tensor {
    if !name.ends_with("in_proj_bias") {
        return difference.shallow_clone();
    }
    let third = difference.size()[0] / 3;
    Tensor::cat(&[difference.narrow(0, 0, third), difference.narrow(0, 2 * third, third)], 0)
}

#[test]
fn four_batches_of_64_are_one_of_256_for_every_model_and_optimizer() {
    for (model, model_options) in models() {
        for &optimizer in OptimizerKind::ALL {
            let trained = |batch: usize, accumulate: u32| {
                let run = tempfile::tempdir().unwrap();
                let mut settings = TrainSettings::default();
                (settings.model, settings.optimizer) = (model, optimizer);
                settings.model_options = model_options.clone();
                // Adam divides a gradient by its size, so that of a weight whose gradient is next to
                // nothing, last bits decide on a part of a step: of a transformer that is 1.7e-6 at the
                // default rate, with the kernels of some processors.
                settings.learning_rate = 3e-4;
                settings.batch_size = NonZeroUsize::new(batch).unwrap();
                settings.accumulate = NonZeroU32::new(accumulate).unwrap();
                // Two steps and the rest of an epoch, which is smaller in both.
                let stream = Stream::with_batches_of(batch, 2, [600, 0, 0]);
                let mut trainer = trainer(settings, run.path());
                stream.feed(&mut trainer, &stream.tags()).unwrap();
                let report = trainer.finish(Ending::Drained).unwrap();
                (report, weights(run.path()))
            };
            let ((big, one), (small, many)) = (trained(256, 1), trained(64, 4));
            assert_eq!((big.steps, small.steps), (6, 6));
            for ((name, a), (_, b)) in one.iter().zip(&many) {
                let difference = learned(name, &(a - b)).abs().max().double_value(&[]);
                let what = format!("{model:?} by {optimizer:?}: {name}");
                assert!(difference < 1e-6, "{what} differs by {difference}");
            }
            let apart = big.train_loss.unwrap() - small.train_loss.unwrap();
            assert!(apart.abs() < 1e-6, "{model:?} by {optimizer:?}: the losses differ by {apart}");
        }
    }
}

/// Feeds a run to its end, whole or cut in the middle of its third epoch.
fn run(settings: &TrainSettings, cut: bool, folder: &Path) {
    let stream = Stream::new(4, [150, 40, 40]);
    let tags = stream.tags();
    let at = if cut { 3 + 2 * 13 + 4 } else { tags.len() };
    let mut first = trainer(settings.clone(), folder);
    stream.feed(&mut first, &tags[..at]).unwrap();
    if !cut {
        first.finish(Ending::Drained).unwrap();
        return;
    }
    first.finish(Ending::Interrupted).unwrap();
    go_on(settings, &stream, &tags[at..], folder);
}

fn go_on(settings: &TrainSettings, stream: &Stream, tags: &[Tag], folder: &Path) {
    let mut second = resumed(settings.clone(), folder);
    stream.feed(&mut second, tags).unwrap();
    second.finish(Ending::Drained).unwrap();
}

fn files(run: &Path) -> [Vec<u8>; 2] {
    ["model.safetensors", "optimizer.safetensors"]
        .map(|name| fs::read(run.join("checkpoints/last").join(name)).unwrap())
}

fn check_resumed(change: impl Fn(&mut TrainSettings)) {
    let mut settings = settings();
    change(&mut settings);
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&settings, false, whole.path());
    run(&settings, true, cut.path());
    let (optimizer, schedule) = (settings.optimizer, settings.schedule);
    assert!(files(whole.path()) == files(cut.path()), "{optimizer:?} with {schedule:?}");
}

#[test]
fn a_run_goes_on_with_the_same_bits_by_every_optimizer() {
    for &optimizer in OptimizerKind::ALL {
        check_resumed(|settings| settings.optimizer = optimizer);
    }
    check_resumed(|settings| (settings.optimizer, settings.momentum) = (OptimizerKind::Sgd, 0.0));
    check_resumed(|settings| settings.decay_all = true);
}

#[test]
fn a_run_goes_on_with_the_same_bits_by_every_schedule() {
    for &schedule in Schedule::ALL {
        check_resumed(|settings| (settings.schedule, settings.warmup) = (schedule, 5));
    }
    check_resumed(restless);
}

/// Steps so large that the validation loss rises now and then, so that a plateau has something to say.
fn restless(settings: &mut TrainSettings) {
    (settings.schedule, settings.patience) = (Schedule::Plateau, NonZeroU32::MIN);
    (settings.optimizer, settings.learning_rate) = (OptimizerKind::Sgd, 2.0);
}

/// Rates by step, as the journal has them.
fn rates(settings: &TrainSettings) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings.clone();
    settings.log_every = 1.try_into().unwrap();
    run(&settings, false, folder.path());
    let text = fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["learning_rate"].as_f64()).collect()
}

#[test]
fn the_rate_of_a_plateau_falls_at_the_end_of_an_epoch() {
    let mut settings = settings();
    restless(&mut settings);
    let rates = rates(&settings);
    assert_eq!(rates.len(), 40);
    assert!(rates.first() > rates.last(), "{rates:?}");
    for epoch in rates.chunks(10) {
        assert!(epoch.iter().all(|rate| *rate == epoch[0]), "{rates:?}");
    }
}

#[test]
fn a_warm_up_longer_than_the_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.warmup = 40;
    let stream = Stream::new(4, [150, 0, 0]);
    let mut trainer = trainer(settings, folder.path());
    let error = stream.feed(&mut trainer, &stream.tags()[..1]).unwrap_err().to_string();
    assert_eq!(error, "train.warmup is 40, but must be below 40, the steps of this run");
}

/// Takes from a checkpoint what older versions did not write.
fn make_old(run: &Path) {
    let last = run.join("checkpoints/last");
    let path = last.join("optimizer.safetensors");
    let mut tensors = Tensor::read_safetensors(&path).unwrap();
    tensors.retain(|(name, _)| name != "steps");
    Tensor::write_safetensors(&tensors, &path).unwrap();
    let path = last.join("state.json");
    let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let settings = state["settings"].as_object_mut().unwrap();
    for key in
        ["decay_all", "momentum", "nesterov", "warmup", "step_epochs", "patience", "rate_factor"]
    {
        settings.remove(key).unwrap();
    }
    fs::write(&path, state.to_string()).unwrap();
    let mut checksums = millstream_data::Checksums::default();
    for name in
        ["model.safetensors", "optimizer.safetensors", "state.json", "schema.json", "scaler.json"]
    {
        checksums.add(name, &fs::read(last.join(name)).unwrap());
    }
    fs::write(last.join(millstream_data::Checksums::FILE), checksums.to_text()).unwrap();
}

/// Older versions decayed every parameter and did not say so, nor how many steps were skipped.
#[test]
fn a_run_of_an_older_version_goes_on_as_it_was() {
    let mut settings = settings();
    settings.decay_all = true;
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&settings, false, whole.path());

    let stream = Stream::new(4, [150, 40, 40]);
    let tags = stream.tags();
    let at = 3 + 2 * 13 + 4;
    let mut first = trainer(settings.clone(), cut.path());
    stream.feed(&mut first, &tags[..at]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    make_old(cut.path());
    let mut other = settings.clone();
    other.decay_all = false;
    let refused = millstream_trainer::Trainer::resume(other, cut.path(), Box::new(|_| {}));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("train.decay_all was true and is now false"), "{error}");
    go_on(&settings, &stream, &tags[at..], cut.path());
    assert!(files(whole.path()) == files(cut.path()));
}
