//! Windows that are padded on the right: learned from and forecast by their last real row.

use crate::stream::{FEATURES, LOOKBACK, Stream, saved_model, settings, trainer};
use millstream_model::{BatchTensors, Inputs, Mode};
use millstream_stage::{Ending, Sink};
use millstream_trainer::TrainReport;
use std::path::Path;
use tch::Tensor;

fn train(stream: &Stream, run: &Path) -> TrainReport {
    let mut trainer = trainer(settings(), run);
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap()
}

/// The target is the mean of the last real row, whatever comes after it.
#[test]
fn the_loss_falls() {
    let run = tempfile::tempdir().unwrap();
    let report = train(&Stream::new(12, [640, 100, 0]).padded(), run.path());
    let (before, after) = (report.first_validation_loss.unwrap(), report.validation.unwrap());
    assert!(after.overall.mse.unwrap() * 5.0 < before, "{before} to {after:?}");
}

#[test]
fn the_saved_model_takes_lengths_and_forecasts_as_from_the_window_alone() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [33, 0, 7]).padded();
    train(&stream, run.path());
    let model = saved_model(&run.path().join("checkpoints/best"), &stream);
    let forecast = |values: &Tensor, lengths: &Tensor| {
        let (values, lengths) = (values.shallow_clone(), Some(lengths.shallow_clone()));
        let inputs = Inputs { values, lengths, mask: None, segments: None };
        model.forward(&inputs, Mode::Evaluate).unwrap()
    };
    let test = *stream.tags().last().unwrap();
    let batch = BatchTensors::new(stream.batch(test)).unwrap();
    let (values, lengths) = (&batch.inputs.values, batch.inputs.lengths.as_ref().unwrap());
    assert_eq!(values.size(), [7, LOOKBACK as i64, FEATURES as i64]);

    let padded = forecast(values, lengths);
    for row in 0..7 {
        let length = lengths.narrow(0, row, 1);
        let real = length.double_value(&[0]) as i64;
        assert_eq!(real, 1 + row % 4);
        let window = values.narrow(0, row, 1).narrow(1, 0, real);
        let alone = forecast(&window, &length);
        let difference = (padded.narrow(0, row, 1) - alone).abs().max().double_value(&[]);
        assert!(difference < 1e-6, "a window of {real} rows differs by {difference}");
    }
}
