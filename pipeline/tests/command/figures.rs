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
pub(crate) fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let python = target.join("test-python/venv/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED: no {}; `cargo xtask test` makes it", python.display());
        return None;
    }
    Some(python)
}

fn check(settings: &[&str]) {
    check_with(settings, |_, close| Some(close));
}

/// With a table in which the close of a series (by its number) and row becomes another or none.
fn check_with(settings: &[&str], change: fn((usize, usize), f64) -> Option<f64>) {
    let Some(python) = python() else { return };
    let bench = Bench::with_csv(9, 110, "");
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let mut lines = table.lines().map(str::to_owned);
    let header = lines.next().unwrap();
    let changed = lines.enumerate().map(|(row, line)| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let close = change((row / 110, row % 110), cells[2].parse().unwrap());
        cells[2] = close.map_or_else(String::new, |close| close.to_string());
        cells.join(",")
    });
    let changed: Vec<String> = std::iter::once(header).chain(changed).collect();
    std::fs::write(bench.path("prices.csv"), changed.join("\n")).unwrap();
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

/// Figures and forecasts are of every window, however few are learned from.
#[test]
fn a_value_learned_with_a_stride() {
    check(&["window.stride=3"]);
}

/// "Predict the last" is the last known value, however long ago.
#[test]
fn a_value_that_is_missing_now_and_then() {
    check_with(&[], |(_, row), close| (row % 9 != 4 && row % 31 > 2).then_some(close));
}

/// Small beside the others, a series changes by less than its scaled values can say.
#[test]
fn values_of_many_sizes() {
    let size = |(series, _): (usize, usize), close: f64| Some(close * [1e3, 1.0, 1e-7][series % 3]);
    check_with(&["window.horizon=2"], size);
}

#[test]
fn values_scaled_by_their_logarithm() {
    check(&["scale.method=log1p"]);
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

/// The label of qlib.
#[test]
fn a_return_after_a_delay() {
    check(&["target.kind=return", "target.delay=1"]);
}

#[test]
fn a_return_over_several_steps_after_a_long_delay_in_a_fold() {
    check(&[
        "target.kind=return",
        "target.delay=3",
        "target.season=4",
        "window.horizon=2",
        "split.folds=2",
        "split.fold=1",
        "split.train=0.4",
    ]);
}

#[test]
fn a_direction_after_a_delay() {
    check(&["target.kind=direction", "target.dead_band=0.004", "target.delay=2"]);
}

/// Levels near 0, so that what 32 bits leave of a forecast is far below what is compared.
#[test]
fn a_difference() {
    let settings = ["target.kind=difference", "window.horizon=2"];
    check_with(&settings, |_, close| Some(close - 100.0));
    // Its inputs have no level, as its labels have none.
    let settings = [&settings[..], &["scale.reference=last"]].concat();
    check_with(&settings, |_, close| Some(close - 100.0));
}

/// A window whose last row misses the target has no label, and is not judged.
#[test]
fn differences_of_several_targets_by_series_with_gaps() {
    let change = |(series, row): (usize, usize), close: f64| {
        (row % 9 != 4 && row % 31 > 2).then_some((close - 100.0 - series as f64) * 0.5)
    };
    check_with(
        &[
            "target.kind=difference",
            "target.columns=[\"close\", \"f1\"]",
            "window.horizon=2",
            "scale.per=series",
        ],
        change,
    );
}

#[test]
fn quantiles_of_several_steps() {
    check(&[
        "train.loss=quantile",
        "train.quantiles=[0.05, 0.25, 0.5, 0.9]",
        "window.horizon=2",
        "scale.method=log1p",
        "target.season=5",
    ]);
}

/// Where series have sizes of their own, and changes that a season need not reach.
#[test]
fn seasons_of_returns_by_series() {
    check(&[
        "target.kind=return",
        "window.horizon=4",
        "target.season=3",
        "scale.per=series",
        "split.train=0.4",
    ]);
}

#[test]
fn the_log_odds_of_a_direction() {
    check(&[
        "target.kind=direction",
        "target.dead_band=0.004",
        "train.loss=bce",
        "target.season=2",
    ]);
}

#[test]
fn scores_that_order_the_series() {
    check(&["target.kind=return", "train.loss=ic", "window.order=by_time"]);
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
