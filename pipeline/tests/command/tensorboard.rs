//! The real TensorBoard reads what a run wrote for it, and finds every figure of `metrics.jsonl` once.
//!
//! `cargo xtask test` makes the Python environment; without it these tests compare nothing, and say so.

use crate::{
    bench::{Bench, SMALL},
    figures::python,
    running::{Running, epochs},
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn check(run: &Path) {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/read_events.py");
    let output = Command::new(python).arg(script).arg(run).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn event_files(run: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let is_event = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("events.out.tfevents.")
    };
    entries.filter(is_event).collect()
}

#[test]
fn a_run_is_shown_with_its_settings_and_weights() {
    let bench = Bench::new(SMALL);
    let trained = bench.json(&["train", "--json", "--set", "train.histograms=true"]);
    let run = bench.path(trained["run"].as_str().unwrap());
    assert_eq!(event_files(&run).len(), 1);
    check(&run);
}

#[test]
fn a_run_that_was_interrupted_and_goes_on_shows_nothing_twice() {
    let bench = Bench::new(SMALL);
    let run = &bench.interrupted(&["train", "--set", "train.epochs=40"]);
    let trained: Value = bench.json(&["train", "--json", "--resume", run]);
    let run = bench.path(trained["run"].as_str().unwrap());
    assert_eq!(event_files(&run).len(), 2);
    check(&run);
}

#[test]
fn what_a_killed_run_showed_after_its_checkpoint_is_gone() {
    let bench = Bench::new(SMALL);
    let mut command = bench.command(&["train", "--set", "train.log_every=1", "--set", &epochs()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(command);
    let last = |bench: &Bench| bench.runs().first().map(|run| run.join("checkpoints/last"));
    running.wait_for(|| last(&bench).is_some_and(|last| last.exists()));
    let journal = bench.journal();
    running.wait_for(|| bench.journal() > journal + 200);
    running.signal(libc::SIGKILL);
    running.end();
    let run = bench.runs().remove(0);
    let before = std::fs::read(&event_files(&run)[0]).unwrap();
    let mut command = bench.command(&["train", "--resume", run.to_str().unwrap()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(command);
    running.wait_for(|| event_files(&run).len() == 2);
    running.signal(libc::SIGINT);
    assert_eq!(running.end().code(), Some(5));
    let mut files = event_files(&run);
    files.sort();
    let after = std::fs::read(&files[0]).unwrap();
    // The kill may have come right after a checkpoint: then there was nothing to take back.
    assert!(!after.is_empty() && before.starts_with(&after), "it was cut, and no more");
}
