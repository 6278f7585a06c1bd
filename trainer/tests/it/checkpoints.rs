//! What a checkpoint holds, and what happens when it is damaged.

use crate::stream::{Stream, resumed, saved_model, settings, trainer};
use millstream_data::{DataSchema, Scaling};
use millstream_model::{Inputs, Mode};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{Trainer, read_position};
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
    let values = Tensor::zeros([7, 4, 3], (tch::Kind::Float, tch::Device::Cpu));
    let inputs = Inputs { values, lengths: None, mask: None, segments: None };
    let model = saved_model(&best, &stream);
    assert_eq!(model.forward(&inputs, Mode::Evaluate).unwrap().size(), [7, 1, 1]);
}

/// Why the run in this folder cannot be resumed.
fn refused(run: &Path) -> String {
    Trainer::resume(settings(), run, Box::new(|_| {})).unwrap_err().to_string()
}

/// Flips one bit of every `step`-th byte of a file; each must be noticed.
fn check_flipped(run: &Path, path: &Path, step: usize) {
    let good = fs::read(path).unwrap();
    for at in (0..good.len()).step_by(step) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(path, bytes).unwrap();
        let error = refused(run);
        let expected = format!("{} is damaged: it is not what was written there", path.display());
        assert!(error.starts_with(&expected), "byte {at}: {error}");
        assert!(error.ends_with("; restore the checkpoint or start a new run"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    fs::write(path, good).unwrap();
}

#[test]
fn every_flipped_byte_is_noticed() {
    let run = tempfile::tempdir().unwrap();
    trained(&Stream::new(1, [40, 20, 0]), run.path());
    for which in ["last", "best"] {
        let folder = run.path().join("checkpoints").join(which);
        for (file, step) in [
            ("checksums.txt", 1),
            ("scaler.json", 1),
            ("schema.json", 1),
            ("state.json", 1),
            ("model.safetensors", 97),
            ("optimizer.safetensors", 197),
        ] {
            check_flipped(run.path(), &folder.join(file), step);
        }
    }
    resumed(settings(), run.path());
}

#[test]
fn a_checkpoint_without_checksums_is_refused() {
    let run = tempfile::tempdir().unwrap();
    trained(&Stream::new(1, [40, 20, 0]), run.path());
    fs::remove_file(run.path().join("checkpoints/last/checksums.txt")).unwrap();
    let error = refused(run.path());
    assert!(error.contains("cannot read") && error.contains("last/checksums.txt"), "{error}");
    assert!(read_position(run.path()).is_err(), "nor does it have a position");
}

#[test]
fn a_file_that_is_missing_or_cut_short_is_named() {
    for file in ["model.safetensors", "scaler.json", "optimizer.safetensors"] {
        let run = tempfile::tempdir().unwrap();
        trained(&Stream::new(1, [40, 20, 0]), run.path());
        let path = run.path().join("checkpoints/last").join(file);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = refused(run.path());
        assert!(error.contains(file) && error.contains("is damaged"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = refused(run.path());
        assert!(error.contains(file) && error.contains("cannot read"), "{error}");
    }
}

/// A run is marked as finished by a new folder in place of the old one; a crash in between leaves
/// one of the two, and each is whole.
#[test]
fn a_crash_while_a_run_is_marked_as_finished_leaves_a_whole_checkpoint() {
    let run = tempfile::tempdir().unwrap();
    trained(&Stream::new(1, [40, 20, 0]), run.path());
    let folder = run.path().join("checkpoints");
    assert!(read_position(run.path()).unwrap().finished);
    fs::rename(folder.join("last"), folder.join(".last.old")).unwrap();
    fs::create_dir(folder.join(".last.partial-1")).unwrap();
    assert!(read_position(run.path()).unwrap().finished);
    resumed(settings(), run.path());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left over");
}

/// The disk had room for the first `best`, and then for no `last`; both are of the same moment.
#[test]
fn a_run_goes_on_from_its_best_where_there_is_no_last() {
    let stream = Stream::new(3, [40, 20, 0]);
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    trained(&stream, whole.path());
    let mut first = trainer(settings(), cut.path());
    // Validation, the first epoch and its validation.
    stream.feed(&mut first, &stream.tags()[..7]).unwrap();
    drop(first);
    fs::remove_dir_all(cut.path().join("checkpoints/last")).unwrap();
    let position = read_position(cut.path()).unwrap();
    assert_eq!((position.epoch, position.index, position.finished), (2, 0, false));
    let mut second = resumed(settings(), cut.path());
    stream.feed(&mut second, &stream.tags()[7..]).unwrap();
    second.finish(Ending::Drained).unwrap();
    let weights = |run: &Path| fs::read(run.join("checkpoints/last/model.safetensors")).unwrap();
    assert!(weights(cut.path()) == weights(whole.path()));
}

/// What a kill may leave anywhere in a run folder, with the name of what it would have become.
#[test]
fn what_a_kill_left_is_gone_after_the_next_run() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(2, [40, 20, 0]);
    let mut first = trainer(settings(), run.path());
    stream.feed(&mut first, &stream.tags()[..7]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let place = |name: &str| run.path().join(name);
    for file in [".metrics.jsonl.partial-1", ".report.json.partial-0a", "run.lock"] {
        fs::write(place(file), "half").unwrap();
    }
    for folder in [".last.old", ".best.old", ".last.partial-1", ".best.partial-2"] {
        fs::create_dir(place("checkpoints").join(folder)).unwrap();
        fs::write(place("checkpoints").join(folder).join("state.json"), "{}").unwrap();
    }
    let mut second = resumed(settings(), run.path());
    stream.feed(&mut second, &stream.tags()[7..]).unwrap();
    second.finish(Ending::Drained).unwrap();
    let names = |folder: &str| {
        let entries = fs::read_dir(run.path().join(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let mut files = names("");
    // One of each time that it was begun.
    files.iter_mut().for_each(|name| name.truncate("events.out.tfevents".len()));
    let expected = ["checkpoints", "events.out.tfevents", "events.out.tfevents", "metrics.jsonl"];
    assert_eq!(files, expected);
    assert_eq!(names("checkpoints"), ["best", "last"]);
}

#[test]
fn a_folder_that_holds_a_run_is_not_overwritten() {
    let check = |run: &Path| {
        let error = Trainer::new(settings(), run, Box::new(|_| {})).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&run.display().to_string()), "{error}");
        assert!(error.contains("already holds a run; resume it, or choose another"), "{error}");
    };
    let run = tempfile::tempdir().unwrap();
    trained(&Stream::new(1, [40, 20, 0]), run.path());
    let weights = || fs::read(run.path().join("checkpoints/last/model.safetensors")).unwrap();
    let before = weights();
    check(run.path());
    fs::remove_file(run.path().join("metrics.jsonl")).unwrap();
    check(run.path());
    assert!(weights() == before);
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("metrics.jsonl"), "{}\n").unwrap();
    check(other.path());
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
    let expected = "the data was \"synthetic\" and is now \"changed\"";
    assert!(error.to_string().contains(expected), "{error}");
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
    assert!(report.saved && report.validation.is_some() && report.test.is_none());
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
