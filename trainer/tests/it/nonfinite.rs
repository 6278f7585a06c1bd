//! A loss that is no number never reaches the weights: it ends the run by name, or is left out.

use crate::stream::{BATCH, Stream, settings, trainer};
use millstream_data::{DeviceBatch, Phase, Tag};
use millstream_stage::{Ending, Sink, Warnings};
use millstream_trainer::{Loss, Nonfinite, TrainError, TrainReport, TrainSettings};
use std::path::Path;
use tch::Tensor;

const WINDOWS: [u64; 3] = [160, 40, 0];

/// A run of two epochs with 10 steps each, in which these batches of epoch 2 hold a target that is none.
fn train(
    settings: TrainSettings,
    run: &Path,
    poisoned: &[u64],
    value: f32,
    warnings: &Warnings,
) -> Result<TrainReport, TrainError> {
    let stream = Stream::new(2, WINDOWS);
    let mut trainer = trainer(settings, run).warn_to(warnings.clone());
    for tag in stream.tags() {
        let mut batch = stream.batch(tag);
        let Tag { epoch, phase, index } = tag;
        if (epoch, phase) == (2, Phase::Train) && poisoned.contains(&index) {
            let DeviceBatch::Host(slot) = &mut batch else { unreachable!() };
            slot.parts_mut().0.targets[1] = value;
        }
        let _flow = trainer.accept(batch)?;
    }
    trainer.finish(Ending::Drained)
}

fn weights(run: &Path) -> Vec<(String, Tensor)> {
    Tensor::read_safetensors(run.join("checkpoints/last/model.safetensors")).unwrap()
}

fn are_finite(run: &Path) -> bool {
    let finite = |tensor: &Tensor| tensor.isfinite().all().int64_value(&[]) == 1;
    weights(run).iter().all(|(_, tensor)| finite(tensor))
}

/// The windows that the batch begins with, as the stream makes them.
fn named(epoch: u64, index: u64) -> String {
    let window = |row: u64| ((index * BATCH as u64 + row) * 7 + epoch * 13) % WINDOWS[0];
    let name = |row: u64| format!("{} up to {}", window(row) % 5, window(row) / 5);
    format!("the windows {}, {}, {} and 13 more", name(0), name(1), name(2))
}

fn check_stops(log_every: u64, accumulate: u32, value: f32, step: u64, said: &str) {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.log_every = log_every.try_into().unwrap();
    settings.accumulate = accumulate.try_into().unwrap();
    let error = train(settings, run.path(), &[3], value, &Warnings::default()).unwrap_err();
    let expected = format!("{said} at step {step} of epoch 2, of {}; look for", named(2, 3));
    assert!(error.to_string().starts_with(&expected), "{error}\n{expected}");
    assert!(are_finite(run.path()), "the checkpoint is the last good one");
}

#[test]
fn it_ends_the_run_with_step_series_and_times_however_late_it_is_read() {
    for log_every in [1, 5, 1000] {
        check_stops(log_every, 1, f32::NAN, 14, "the training loss is NaN");
    }
    check_stops(1000, 1, f32::INFINITY, 14, "the training loss is inf");
    check_stops(1000, 2, f32::NAN, 7, "the training loss is NaN");
}

fn check_skips(loss: Loss, accumulate: u32, log_every: u64, skipped: u64) {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    (settings.loss, settings.nonfinite) = (loss, Nonfinite::Skip);
    settings.accumulate = accumulate.try_into().unwrap();
    settings.log_every = log_every.try_into().unwrap();
    let warnings = Warnings::default();
    let report = train(settings.clone(), run.path(), &[3, 4], f32::NAN, &warnings).unwrap();
    assert_eq!(report.skipped, skipped);
    assert!(are_finite(run.path()));
    assert!(report.losses[1].train_loss.is_finite());
    let told = warnings.all();
    let step = 10 / u64::from(accumulate) + 3 / u64::from(accumulate) + 1;
    let expected = format!(
        "the first of them step {step} of epoch 2, as the training loss is NaN, of {}",
        named(2, 3)
    );
    assert!(told.iter().any(|line| line.contains(&expected)), "{told:?}");

    // Of a run without these values nothing differs but the steps that were skipped.
    let other = tempfile::tempdir().unwrap();
    let clean = train(settings, other.path(), &[], 0.0, &Warnings::default()).unwrap();
    assert_eq!((clean.skipped, clean.losses[0]), (0, report.losses[0]));
    assert_ne!(clean.losses[1], report.losses[1]);
}

#[test]
fn it_is_left_out_counted_and_named_if_that_is_asked_for() {
    check_skips(Loss::Mse, 1, 1000, 2);
    check_skips(Loss::Huber, 1, 4, 2);
    // The sign of what is no number is 0: the gradients are numbers, the loss is none.
    check_skips(Loss::Mae, 1, 1, 2);
    check_skips(Loss::Mse, 5, 1000, 1);
}

#[test]
fn an_epoch_of_which_nothing_is_left_ends_the_run() {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.nonfinite = Nonfinite::Skip;
    let all: Vec<u64> = (0..10).collect();
    let error = train(settings, run.path(), &all, f32::NAN, &Warnings::default()).unwrap_err();
    let expected = "none of the 10 steps of epoch 2 could be taken";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(are_finite(run.path()));
}
