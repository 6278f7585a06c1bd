//! What a checkpoint holds, and what happens when it is damaged.

use crate::stream::{Stream, resumed, settings, trainer};
use millstream_stage::{DataSchema, Ending, Scaling, Sink};
use millstream_trainer::Trainer;
use std::{fs, path::Path};
use tch::Tensor;

fn trained(stream: &Stream, run: &Path) {
    let mut trainer = trainer(settings(), run);
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap();
}

#[test]
fn every_file_is_there_and_says_what_it_should() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(2, [40, 20, 20]);
    trained(&stream, run.path());
    let folder = run.path().join("checkpoints");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing but last and best: {names:?}");

    let best = folder.join("best");
    let schema: DataSchema =
        serde_json::from_slice(&fs::read(best.join("schema.json")).unwrap()).unwrap();
    let scaling: Scaling =
        serde_json::from_slice(&fs::read(best.join("scaler.json")).unwrap()).unwrap();
    assert_eq!((schema, scaling), (stream.plan.schema.clone(), stream.plan.scaling.clone()));

    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("last/state.json")).unwrap()).unwrap();
    assert_eq!(state["finished"], true);
    assert_eq!(
        (&state["step"], &state["epoch"], &state["position"]),
        (&6.into(), &3.into(), &0.into())
    );
    assert_eq!(state["settings"]["model"], "lstm");

    let weights = Tensor::read_safetensors(best.join("model.safetensors")).unwrap();
    let mut names: Vec<&str> = weights.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "head.bias",
        "head.weight",
        "lstm.bias_hh_l0",
        "lstm.bias_ih_l0",
        "lstm.weight_hh_l0",
        "lstm.weight_ih_l0",
    ];
    assert_eq!(names, expected);
    let script = tch::CModule::load(best.join("model.pt")).unwrap();
    let inputs = Tensor::zeros([7, 4, 3], (tch::Kind::Float, tch::Device::Cpu));
    assert_eq!(script.forward_ts(&[inputs]).unwrap().size(), [7, 1, 1]);
}

fn check_damaged(file: &str, contents: &[u8], expected: &str) {
    let run = tempfile::tempdir().unwrap();
    trained(&Stream::new(1, [40, 20, 0]), run.path());
    fs::write(run.path().join("checkpoints/last").join(file), contents).unwrap();
    let error = Trainer::resume(settings(), run.path().into(), Box::new(|_| {})).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(file) && error.contains(expected), "{error}");
}

#[test]
fn damage_is_named_with_its_file() {
    check_damaged("state.json", b"{", "is damaged");
    check_damaged("schema.json", b"[]", "is damaged");
    check_damaged("model.safetensors", b"garbage", "is damaged");
    check_damaged("optimizer.safetensors", &[0xff; 100], "is damaged");
}

#[test]
fn other_data_is_refused() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [40, 0, 0]);
    let mut first = trainer(settings(), run.path());
    stream.feed(&mut first, &stream.tags()[..1]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let mut other = Stream::new(1, [40, 0, 0]);
    let mut plan = (*other.plan).clone();
    plan.schema.fingerprint = "changed".into();
    other.plan = plan.into();
    let error = other.feed(&mut resumed(settings(), run.path()), &other.tags()[1..]).unwrap_err();
    assert!(error.to_string().contains("the data was synthetic and is now changed"), "{error}");
}

#[test]
fn an_interrupted_run_keeps_the_figures_it_has() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(2, [40, 20, 20]);
    let mut trainer = trainer(settings(), run.path());
    // Two batches of validation, three of training, two of validation, then one more.
    stream.feed(&mut trainer, &stream.tags()[..8]).unwrap();
    let report = trainer.finish(Ending::Interrupted).unwrap();
    assert_eq!((report.steps, report.losses.len()), (4, 1));
    assert!(report.validation.is_some() && report.test.is_none());
    assert!(report.baseline.mean.is_none());
}

#[test]
fn a_stream_that_ends_early_is_an_error() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [40, 0, 20]);
    let mut trainer = trainer(settings(), run.path());
    stream.feed(&mut trainer, &stream.tags()[..3]).unwrap();
    let error = trainer.finish(Ending::Drained).unwrap_err().to_string();
    assert!(error.contains("ended before batch 0 of the test pass of epoch 1"), "{error}");
}

#[test]
fn nothing_to_learn_from_is_said() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [0, 20, 0]);
    let error = stream.feed(&mut trainer(settings(), run.path()), &stream.tags()).unwrap_err();
    assert!(error.to_string().contains("0 training windows for batches of 16"), "{error}");
}
