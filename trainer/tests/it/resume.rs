//! A run that was interrupted and resumed is the run that was not.

use crate::{
    events::events,
    stream::{Stream, resumed, settings, trainer},
};
use millstream_data::{Phase, Plan, Tag};
use millstream_model::{LstmOptions, ModelKind, ModelOptions, Precision};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{LossScale, TrainReport, TrainSettings, read_position};
use std::{fs, path::Path};

fn steady(mut report: TrainReport) -> TrainReport {
    // What depends on the clock, or on this process alone.
    report.train_seconds = 0.0;
    report.device_reads = 0;
    report
}

fn files(run: &Path) -> Vec<Vec<u8>> {
    ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]
        .map(|name| fs::read(run.join("checkpoints").join(name)).unwrap())
        .into()
}

/// Steps and losses of the journal, without the rates that depend on the clock.
fn journal(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("samples_per_s");
        line.to_string()
    };
    text.lines().map(line).collect()
}

fn check(settings: &TrainSettings, cut: usize, expected: (u32, u64)) {
    let stream = Stream::new(3, [150, 40, 40]);
    let tags = stream.tags();

    let whole = tempfile::tempdir().unwrap();
    let mut uninterrupted = trainer(settings.clone(), whole.path());
    stream.feed(&mut uninterrupted, &tags).unwrap();
    let expected_report = uninterrupted.finish(Ending::Drained).unwrap();

    let parts = tempfile::tempdir().unwrap();
    let mut first = trainer(settings.clone(), parts.path());
    stream.feed(&mut first, &tags[..cut]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let position = read_position(parts.path()).unwrap();
    assert_eq!((position.epoch, position.index), expected, "cut after {cut} batches");
    assert_eq!(position.seed, settings.seed);

    let mut second = resumed(settings.clone(), parts.path());
    let rest: Vec<Tag> =
        tags.iter().copied().filter(|tag| comes(*tag, position.epoch, position.index)).collect();
    stream.feed(&mut second, &rest).unwrap();
    let report = second.finish(Ending::Drained).unwrap();

    assert_eq!(steady(report), steady(expected_report), "cut after {cut} batches");
    assert!(files(parts.path()) == files(whole.path()), "cut after {cut} batches");
    assert_eq!(journal(parts.path()), journal(whole.path()), "cut after {cut} batches");
    assert_eq!(events(parts.path()), events(whole.path()), "cut after {cut} batches");
}

/// What a stream from this position on holds.
fn comes(tag: Tag, epoch: u32, index: u64) -> bool {
    match tag.phase {
        Phase::Train => (tag.epoch, tag.index) >= (epoch, index),
        Phase::Validation => tag.epoch >= epoch,
        Phase::Test | Phase::Predict => true,
    }
}

// 3 batches of validation, then 10 of training and 3 of validation per epoch, then 3 of test.

#[test]
fn in_the_middle_of_an_epoch() {
    check(&settings(), 3 + 13 + 4, (2, 4));
}

#[test]
fn in_the_middle_of_validation() {
    check(&settings(), 3 + 13 + 10 + 1, (2, 10));
}

#[test]
fn in_the_middle_of_the_test() {
    check(&settings(), 3 + 39 + 1, (4, 0));
}

#[test]
fn between_two_epochs() {
    check(&settings(), 3 + 13, (2, 0));
}

#[test]
fn between_the_batches_of_one_step() {
    let mut settings = settings();
    settings.accumulate = 3.try_into().unwrap();
    settings.log_every = 2.try_into().unwrap();
    // Batches 3 and 4 of epoch 2 wait for batch 5: both come again.
    check(&settings, 3 + 13 + 5, (2, 3));
}

/// The only test here that draws from libtorch's generator, which all threads share.
#[test]
fn with_dropout() {
    let mut settings = settings();
    let mut options = LstmOptions::default();
    options.hidden = 16.try_into().unwrap();
    options.layers = 2.try_into().unwrap();
    options.dropout = 0.3;
    settings.model_options = ModelOptions::of(&options);
    check(&settings, 3 + 13 + 4, (2, 4));
}

/// The average, the scale and what they have skipped go on where they were.
#[test]
fn with_averages_and_a_scaled_loss() {
    let mut settings = settings();
    settings.model = ModelKind::Gru;
    (settings.precision, settings.ema) = (Precision::F16, 0.9);
    settings.loss_scale = LossScale::From(1e9);
    settings.log_every = 4.try_into().unwrap();
    check(&settings, 3 + 13 + 4, (2, 4));
    // While the model has the average in place of what learns.
    check(&settings, 3 + 13 + 10 + 1, (2, 10));
    check(&settings, 3 + 39 + 1, (4, 0));
}

/// A run of one step, to be gone on with.
fn begun(run: &Path, stream: &Stream) {
    let mut trainer = trainer(settings(), run);
    stream.feed(&mut trainer, &stream.tags()[..1]).unwrap();
    trainer.finish(Ending::Interrupted).unwrap();
}

#[test]
fn with_other_settings_it_is_refused() {
    let run = tempfile::tempdir().unwrap();
    begun(run.path(), &Stream::new(1, [40, 0, 0]));
    let check = |change: fn(&mut TrainSettings), expected: &str| {
        let mut other = settings();
        change(&mut other);
        let resume = millstream_trainer::Trainer::resume;
        let error = resume(other, run.path(), Box::new(|_| {})).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(|s| s.seed = 7, "train.seed was 42 and is now 7");
    check(|s| s.epochs = 6, "train.epochs was 5 and is now 6");
    check(|s| s.learning_rate = 0.5, "train.learning_rate was 0.01 and is now 0.5");
    check(|s| s.clip_norm = 0.0, "train.clip_norm was 0.5 and is now 0.0");
    let mut chatty = settings();
    chatty.log_every = 1.try_into().unwrap();
    resumed(chatty, run.path());
}

#[test]
fn with_other_windows_or_another_scaling_it_is_refused() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [40, 0, 0]);
    begun(run.path(), &stream);
    let check = |change: fn(&mut Plan), expected: &str| {
        let mut other = Stream::new(1, [40, 0, 0]);
        let mut plan = (*other.plan).clone();
        change(&mut plan);
        other.plan = plan.into();
        let tags = &stream.tags()[1..];
        let error = other.feed(&mut resumed(settings(), run.path()), tags).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(|p| p.windows.train = 39, "the number of train windows was 40 and is now 39");
    check(|p| p.batches.train = 2, "the number of train batches was 3 and is now 2");
    let scale = "the scaling, features.b.scale, was 2.0 and is now 2.5";
    check(|p| p.scaling.features[1].fit.scale = 2.5, scale);
    check(|p| p.schema.horizon = 2, "window.horizon was 1 and is now 2");
}

/// Before the first step nothing is saved, and the folder is free for another run.
#[test]
fn before_the_first_step_nothing_is_saved() {
    let stream = Stream::new(1, [40, 40, 0]);
    let mut settings = settings();
    settings.accumulate = 2.try_into().unwrap();
    // In the first validation, after it, and between the batches of the first step.
    for cut in [0, 1, 3, 4] {
        let run = tempfile::tempdir().unwrap();
        let mut first = trainer(settings.clone(), run.path());
        stream.feed(&mut first, &stream.tags()[..cut]).unwrap();
        let report = first.finish(Ending::Interrupted).unwrap();
        assert!(!report.saved && report.steps == 0, "cut after {cut} batches");
        let left = fs::read_dir(run.path()).unwrap().count();
        assert_eq!(left, 0, "cut after {cut} batches");
        let mut second = trainer(settings.clone(), run.path());
        stream.feed(&mut second, &stream.tags()).unwrap();
        assert!(second.finish(Ending::Drained).unwrap().saved);
        assert_eq!(journal(run.path()).len(), 2, "a line before training and one of the epoch");
    }
}

#[test]
fn a_stream_from_the_wrong_place_is_refused() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [40, 0, 0]);
    let tags = stream.tags();
    let mut first = trainer(settings(), run.path());
    stream.feed(&mut first, &tags[..1]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let error = stream.feed(&mut resumed(settings(), run.path()), &tags[..1]).unwrap_err();
    let expected = "expected batch 1 of the train pass of epoch 1 but got batch 0";
    assert!(error.to_string().contains(expected), "{error}");
}
