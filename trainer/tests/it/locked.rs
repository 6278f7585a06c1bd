//! One trainer at a time has a run folder.

use crate::stream::{Stream, resumed, settings, trainer};
use millstream_stage::{Ending, Sink, Warnings};
use millstream_trainer::{RunLock, TrainError, Trainer, read_position};
use std::{fs, path::Path};

fn refused(run: &Path) {
    let check = |error: TrainError| {
        let text = error.to_string();
        assert!(matches!(error, TrainError::InUse { .. }), "{text}");
        let process = format!("process {} on ", std::process::id());
        assert!(text.contains(&process) && text.contains(&run.display().to_string()), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    check(Trainer::resume(settings(), run, Box::new(|_| {})).unwrap_err());
    check(Trainer::new(settings(), run, Box::new(|_| {})).unwrap_err());
    check(read_position(run).unwrap_err());
}

#[test]
fn a_run_that_is_under_way_is_neither_resumed_nor_changed() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(2, [40, 20, 0]);
    let mut live = trainer(settings(), run.path());
    refused(run.path());
    // Validation, the first epoch and its validation: there is something to resume.
    stream.feed(&mut live, &stream.tags()[..8]).unwrap();
    // What only the one who writes it may remove.
    let partial = run.path().join("checkpoints/.last.partial-1");
    fs::create_dir(&partial).unwrap();
    refused(run.path());
    assert!(partial.exists());
    stream.feed(&mut live, &stream.tags()[8..]).unwrap();
    live.finish(Ending::Drained).unwrap();
    assert!(read_position(run.path()).unwrap().finished);
    assert!(!run.path().join("run.lock").exists());
}

#[test]
fn a_lock_outlives_its_trainer_where_somebody_keeps_it() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(1, [40, 0, 0]);
    let lock = RunLock::take(run.path(), "somebody").unwrap();
    let mut first = Trainer::new_in(lock.clone(), settings(), Box::new(|_| {})).unwrap();
    stream.feed(&mut first, &stream.tags()[..1]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let error = read_position(run.path()).unwrap_err().to_string();
    assert!(error.contains("is in use by somebody (process "), "{error}");
    assert_eq!(lock.position().unwrap().index, 1);
    drop(lock);
    resumed(settings(), run.path());
}

/// Damage to the journal is said, and costs neither the run nor its line before the first step.
#[test]
fn a_damaged_journal_stops_nobody() {
    let run = tempfile::tempdir().unwrap();
    let stream = Stream::new(2, [40, 20, 0]);
    let mut first = trainer(settings(), run.path());
    stream.feed(&mut first, &stream.tags()[..8]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let path = run.path().join("metrics.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    assert!(good.starts_with("{\"epoch\":0,"), "{good}");
    let mut bytes = good.clone().into_bytes();
    bytes[3] = 0xff;
    fs::write(&path, bytes).unwrap();
    let warnings = Warnings::default();
    let mut second = resumed(settings(), run.path()).warn_to(warnings.clone());
    stream.feed(&mut second, &stream.tags()[8..]).unwrap();
    let report = second.finish(Ending::Drained).unwrap();
    assert!(report.first_validation_loss.is_some());
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(&good), "{after}");
    let said = warnings.all();
    assert!(said[0].contains("metrics.jsonl is not what the run wrote: a line"), "{said:?}");
}
