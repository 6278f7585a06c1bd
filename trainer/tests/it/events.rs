//! What TensorBoard finds in a run folder, read by the few fields that are of interest here. The real one
//! reads them in `pipeline/tests/command/tensorboard.rs`.

use crate::stream::{Stream, settings, trainer};
use millstream_stage::{Ending, Sink};
use prost::Message;
use std::{fs, path::Path};

#[derive(Message)]
struct Event {
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

#[derive(Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    scalar: Option<f32>,
    #[prost(bytes = "vec", optional, tag = "5")]
    histogram: Option<Vec<u8>>,
}

/// Step and name of every value, and the value where it is a number that does not depend on the clock.
pub(crate) fn events(run: &Path) -> Vec<(i64, String, Option<f32>)> {
    let entries = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let is_event = |path: &Path| path.to_str().unwrap().contains("events.out.tfevents.");
    let mut files: Vec<_> = entries.filter(|path| is_event(path)).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let Event { step, summary } = Event::decode(&rest[12..12 + length]).unwrap();
            rest = &rest[12 + length + 4..];
            for Value { tag, scalar, histogram } in summary.into_iter().flat_map(|s| s.values) {
                assert_eq!(histogram.is_some(), tag.starts_with("weights/"), "{tag}");
                let scalar = scalar.filter(|_| tag != "train/samples_per_s");
                found.push((step, tag, scalar));
            }
        }
    }
    found
}

#[test]
fn every_line_of_the_journal_is_there() {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.log_every = 2.try_into().unwrap();
    settings.histograms = true;
    let stream = Stream::new(2, [40, 20, 8]);
    let mut trainer = trainer(settings, run.path());
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    let report = trainer.finish(Ending::Drained).unwrap();
    let found = events(run.path());
    let at = |tag: &str| -> Vec<(i64, f32)> {
        let of = found.iter().filter(|(_, found, _)| found == tag);
        of.map(|(step, _, value)| (*step, value.unwrap_or(f32::NAN))).collect()
    };
    let validation: Vec<f32> =
        report.losses.iter().map(|loss| loss.validation_loss.unwrap() as f32).collect();
    let first = report.first_validation_loss.unwrap() as f32;
    assert_eq!(at("validation/loss"), [(0, first), (3, validation[0]), (6, validation[1])]);
    let train: Vec<f32> = report.losses.iter().map(|loss| loss.train_loss as f32).collect();
    assert_eq!(at("train/epoch_loss"), [(3, train[0]), (6, train[1])]);
    let test = report.test.unwrap().overall;
    assert_eq!(at("test/mse"), [(6, test.mse.unwrap() as f32)]);
    assert_eq!(at("test/mae"), [(6, test.mae.unwrap() as f32)]);
    let steps = |tag: &str| at(tag).into_iter().map(|(step, _)| step).collect::<Vec<_>>();
    for tag in ["train/loss", "train/learning_rate", "train/samples_per_s"] {
        assert_eq!(steps(tag), [2, 4, 6], "{tag}");
    }
    for tag in ["weights/lstm.weight_ih_l0", "weights/head.bias"] {
        assert_eq!(steps(tag), [3, 6], "{tag}");
    }
    assert_eq!(steps("settings"), [0]);
}
