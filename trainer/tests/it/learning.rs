//! Training makes forecasts better, and the figures say what they should.

use crate::stream::{BATCH, Stream, settings, trainer};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{Progress, TrainReport, TrainSettings, Trainer};
use std::{cell::RefCell, num::NonZeroU32, num::NonZeroUsize, path::Path, rc::Rc};
use tch::Tensor;

fn train(stream: &Stream, settings: TrainSettings, run: &Path) -> TrainReport {
    let mut trainer = trainer(settings, run);
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap()
}

#[test]
fn the_loss_falls_and_beats_the_naive_forecasts() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(12, [640, 100, 90]);
    let report = train(&stream, settings(), run.path());

    let before = report.first_validation_loss.unwrap();
    let validation = report.validation.unwrap().overall;
    assert!(validation.mse.unwrap() * 5.0 < before, "{before} to {validation:?}");
    assert_eq!(report.steps, 12 * 640 / BATCH as u64);
    assert_eq!(report.samples, 12 * 640);
    assert_eq!(report.losses.len(), 12);
    assert!(report.train_seconds > 0.0);

    let [test, mean, last] = [report.test, report.baseline.mean, report.baseline.last]
        .map(|figures| figures.unwrap().overall);
    assert!(test.mse.unwrap() * 5.0 < mean.mse.unwrap());
    assert!(mean.mse.unwrap() < last.mse.unwrap(), "a constant 0.5 is worse than the mean");
    assert!(test.directional_accuracy.unwrap() > 0.8, "{test:?}");
    assert!(test.ic.unwrap() > 0.8 && test.rank_ic.unwrap() > 0.7, "{test:?}");
    assert_eq!(mean.ic, None, "a constant forecast correlates with nothing");
    assert!((test.mse_raw.unwrap() / test.mse.unwrap() - 4.0).abs() < 1e-9, "the scale is 2");
    assert!((test.mae_raw.unwrap() / test.mae.unwrap() - 2.0).abs() < 1e-9);
}

/// The last value is 0.5 here, or unknown: what is forecast lies above or below it.
#[test]
fn every_step_has_figures_and_so_have_the_naive_forecasts() {
    let run = tempfile::tempdir().unwrap();
    let report = train(&Stream::new(1, [40, 30, 30]), settings(), run.path());
    let validation = report.validation.unwrap();
    assert_eq!(validation.by_step.len(), 1);
    assert_eq!((validation.by_step[0].target.as_str(), validation.by_step[0].step), ("y", 1));
    assert_eq!(validation.by_step[0].metrics, validation.overall, "one step is the whole");
    let before = report.first_validation.unwrap().mse.unwrap();
    assert!((before - report.first_validation_loss.unwrap()).abs() < 1e-6);
    for baseline in [report.baseline, report.validation_baseline] {
        let [mean, last] = [baseline.mean, baseline.last].map(|f| f.unwrap().overall);
        assert!(mean.directional_accuracy.is_some(), "0 is below 0.5");
        assert_eq!(last.directional_accuracy, None, "no change has no direction");
    }
}

/// The mean baseline forecasts 0 here, so its errors are moments of the targets.
#[test]
fn baselines_are_what_a_plain_loop_finds() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [32, 0, 90]);
    let report = train(&stream, settings(), run.path());
    let (mut squares, mut last_squares, mut count) = (0.0, 0.0, 0.0);
    for tag in stream.tags().into_iter().filter(|tag| tag.phase == millstream_data::Phase::Test) {
        let batch = stream.batch(tag);
        let millstream_data::DeviceBatch::Host(slot) = &batch else { unreachable!() };
        let layout = slot.layout();
        for row in 0..slot.rows() {
            let target = f64::from(slot.values()[layout.targets_at() + row]);
            let last = f64::from(slot.values()[layout.last_known_at() + row]);
            let last = if last.is_nan() { 0.0 } else { last };
            squares += target * target;
            last_squares += (last - target) * (last - target);
            count += 1.0;
        }
    }
    assert_eq!(count, 90.0);
    let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-6;
    assert!(close(report.baseline.mean.unwrap().overall.mse, squares / count));
    assert!(close(report.baseline.last.unwrap().overall.mse, last_squares / count));
}

#[test]
fn parts_may_be_empty() {
    let run = tempfile::tempdir().unwrap();
    let report = train(&Stream::new(2, [40, 0, 0]), settings(), run.path());
    assert_eq!((report.validation, report.test), (None, None));
    assert_eq!(report.best_epoch, Some(2), "with nothing to judge by, the latest is the best");
    for name in ["last", "best"] {
        assert!(run.path().join("checkpoints").join(name).join("model.safetensors").exists());
    }
}

#[test]
fn accumulated_batches_are_one_big_batch() {
    let trained = |batch: usize, accumulate: u32| {
        let run = tempfile::tempdir().unwrap();
        let mut settings = settings();
        settings.batch_size = NonZeroUsize::new(batch).unwrap();
        settings.accumulate = NonZeroU32::new(accumulate).unwrap();
        let stream = Stream::with_batches_of(batch, 2, [72, 0, 0]);
        let report = train(&stream, settings, run.path());
        (report, weights(run.path()))
    };
    let ((big, one), (small, many)) = (trained(32, 1), trained(8, 4));
    assert_eq!(big.steps, small.steps, "72 windows are three steps either way");
    for ((name, a), (_, b)) in one.iter().zip(&many) {
        let difference = (a - b).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{name} differs by {difference}");
    }
    assert!((big.train_loss.unwrap() - small.train_loss.unwrap()).abs() < 1e-6);
}

fn weights(run: &Path) -> Vec<(String, Tensor)> {
    let path = run.join("checkpoints/last/model.safetensors");
    let mut weights = Tensor::read_safetensors(path).unwrap();
    weights.sort_by(|(a, _), (b, _)| a.cmp(b));
    weights
}

/// Batches of 5, 5 and 3 windows in slots for 16 are as good as any.
#[test]
fn batches_by_time_may_have_any_size() {
    let (five, by_time) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let windows = [13, 12, 12];
    let expected = train(&Stream::with_batches_of(5, 2, windows), settings(), five.path());
    let found = train(&Stream::new(2, windows).by_time(), settings(), by_time.path());
    assert_eq!((found.steps, found.samples), (6, 26));
    assert_eq!(found.losses, expected.losses);
    assert_eq!(found.test, expected.test);
    for ((name, a), (_, b)) in weights(five.path()).iter().zip(&weights(by_time.path())) {
        assert!(a.equal(b), "{name} differs");
    }
}

#[test]
fn batches_by_time_are_not_accumulated() {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.accumulate = NonZeroU32::new(2).unwrap();
    let stream = Stream::new(1, [13, 0, 0]).by_time();
    let error = stream.feed(&mut trainer(settings, run.path()), &stream.tags()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("train.accumulate is 2, but must be 1"), "{error}");
    assert!(error.contains("window.order"), "{error}");
}

#[test]
fn observers_see_the_run_in_order() {
    let run = tempfile::tempdir().unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let mine = Rc::clone(&seen);
    let note = move |progress: &Progress| {
        mine.borrow_mut().push(match progress {
            Progress::Started { steps_total, .. } => format!("started {steps_total}"),
            Progress::Step { step, .. } => format!("step {step}"),
            Progress::Log(line) => format!("log {}", line.step),
            Progress::EpochDone { epoch, .. } => format!("epoch {epoch}"),
            Progress::Testing => "testing".into(),
            Progress::Evaluating { phase, epoch, windows } => {
                format!("{phase:?} of {windows} in {epoch}").to_lowercase()
            }
            other => format!("{other:?}"),
        });
    };
    let mut settings = settings();
    settings.log_every = 2.try_into().unwrap();
    let stream = Stream::new(1, [40, 20, 8]);
    let mut trainer = Trainer::new(settings, run.path(), Box::new(note)).unwrap();
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap();
    let expected = [
        "started 3",
        "validation of 20 in 0",
        "epoch 0",
        "step 1",
        "step 2",
        "log 2",
        "step 3",
        "validation of 20 in 1",
        "epoch 1",
        "testing",
        "test of 8 in 1",
    ];
    assert_eq!(*seen.borrow(), expected);

    let text = std::fs::read_to_string(run.path().join("metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["epoch"], 0);
    assert!(lines[0]["train_loss"].is_null() && lines[0]["validation"]["mse"].is_number());
    assert_eq!((&lines[1]["step"], &lines[1]["epoch"]), (&2.into(), &1.into()));
    assert!(lines[1]["loss"].is_number() && lines[1]["samples_per_s"].is_number());
    assert!(lines[2]["train_loss"].is_number());
}

#[test]
fn a_loss_that_is_no_number_ends_the_run() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [16, 0, 0]);
    let mut batch = stream.batch(stream.tags()[0]);
    let millstream_data::DeviceBatch::Host(slot) = &mut batch else { unreachable!() };
    slot.parts_mut().0.targets[0] = f32::NAN;
    let error = trainer(settings(), run.path()).accept(batch).unwrap_err().to_string();
    assert!(
        error.starts_with("the training loss is NaN at step 1 of epoch 1, of the windows "),
        "{error}"
    );
}
