//! Every figure that a run leaves, recomputed from its files by a program in another language.
//!
//! `cargo xtask test` makes the Python environment, and says so loudly where it cannot; without it
//! these tests compare nothing.

use crate::bench::Bench;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The environment's Python: `target/test-python`, beside this test's own folder in `target`.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let python = target.join("test-python/venv/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED: no {}; `cargo xtask test` makes it", python.display());
        return None;
    }
    Some(python)
}

fn check(settings: &[&str]) {
    let Some(python) = python() else { return };
    let bench = Bench::with_csv(9, 110, "");
    let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let trained =
        bench.json(&[&["pipeline", "--json", "--set", "train.epochs=2"], &set[..]].concat());
    let run = bench.path(trained["run"].as_str().unwrap());
    // All there is, and so the validation windows too.
    let all = bench.path("all.parquet");
    let all = all.to_str().unwrap();
    bench.json(&["predict", "--json", "--output", all, "--from", "2020-01-01"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/recompute.py");
    let output = Command::new(python)
        .arg(script)
        .args([&run, &bench.path("prices.csv"), &run.join("predictions.parquet")])
        .arg(all)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_value() {
    check(&[]);
}

#[test]
fn several_targets_and_steps() {
    check(&["target.columns=[\"close\", \"f1\"]", "window.horizon=3"]);
}

#[test]
fn a_return_over_several_steps_in_a_fold() {
    check(&[
        "target.kind=return",
        "window.horizon=2",
        "split.folds=3",
        "split.fold=2",
        "split.train=0.4",
    ]);
}

#[test]
fn a_direction() {
    check(&["target.kind=direction", "target.dead_band=0.004"]);
}

#[test]
fn a_rolling_fold_scaled_by_series() {
    check(&[
        "scale.per=series",
        "split.folds=2",
        "split.fold=2",
        "split.walk=rolling",
        "split.train=0.4",
        "split.validation=0.2",
    ]);
}
