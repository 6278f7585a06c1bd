//! `millstream backtest`: a fold is the run that it would be by itself, nothing is known of what comes
//! after, and a backtest that was stopped goes on to the same bytes.

use crate::{
    bench::{Bench, check_fails, day, stderr},
    running::Running,
};
use serde_json::Value;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::Stdio,
};

const FOLDS: &str = "[split]\ntrain = 0.5\nvalidation = 0.1\nfolds = 3\n";

fn bench() -> Bench {
    Bench::with_csv(6, 160, FOLDS)
}

/// The lines of a file but the first.
fn rows(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// The forecasts of a backtest as CSV, each with its fold.
fn forecasts(bench: &Bench, args: &[&str]) -> Vec<String> {
    bench.json(&[&["backtest", "--json", "--output", "all.csv"], args].concat());
    rows(&bench.path("all.csv"))
}

/// Of three.
fn sample_std(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / 3.0;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt()
}

/// When a forecast is made.
fn made(row: &str) -> &str {
    row.split(',').nth(2).unwrap()
}

#[test]
fn a_fold_is_the_run_that_it_would_be_by_itself() {
    let bench = bench();
    let report = bench.json(&["backtest", "--json", "--output", "all.csv"]);
    let all = rows(&bench.path("all.csv"));
    let mut keys = HashSet::new();
    for row in &all {
        let key: Vec<&str> = row.split(',').skip(1).take(3).collect();
        assert!(keys.insert(key.join(",")), "{row} is forecast twice");
    }
    for fold in 1..=3 {
        let set = format!("split.fold={fold}");
        let alone = bench.json(&["train", "--json", "--set", &set]);
        let run = alone["run"].as_str().unwrap();
        bench.json(&["predict", "--json", "--run", run, "--output", "one.csv"]);
        let expected = rows(&bench.path("one.csv"));
        let own = all.iter().filter_map(|row| row.strip_prefix(&format!("{fold},")));
        assert!(own.eq(expected.iter()) && !expected.is_empty(), "fold {fold}");
        let found = &report["folds"][fold - 1];
        assert_eq!((&found["test"], &found["baseline"]), (&alone["test"], &alone["baseline"]));
        assert_eq!(found["rows"].as_u64(), Some(expected.len() as u64));
        let weights = "checkpoints/best/model.safetensors";
        let read = |run: &str| std::fs::read(bench.path(run).join(weights)).unwrap();
        assert_eq!(read(found["run"].as_str().unwrap()), read(run), "fold {fold}");
    }
    assert_eq!(report["rows"].as_u64(), Some(all.len() as u64));
    let folds = report["folds"].as_array().unwrap();
    let of = |name: &str| -> Vec<f64> {
        folds.iter().map(|fold| fold["test"][name].as_f64().unwrap()).collect()
    };
    for name in ["mse", "mae", "ic"] {
        let values = of(name);
        let (mean, std) = (values.iter().sum::<f64>() / 3.0, sample_std(&values));
        for (found, expected) in [("mean", mean), ("std", std)] {
            let found = report["test"][name][found].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-12, "{name}: {found} is not {expected}");
        }
    }
    // The evaluation is of the table: the same errors, in user units.
    let evaluation = &report["evaluation"];
    assert_eq!(evaluation["rows"].as_u64(), Some(all.len() as u64));
    assert_eq!(evaluation["folds"]["folds"].as_u64(), Some(3));
    let raw = of("mse_raw");
    let mean = raw.iter().sum::<f64>() / 3.0;
    for (name, expected) in [("mean", mean), ("std", sample_std(&raw))] {
        let found = evaluation["folds"][name]["mse"].as_f64().unwrap();
        // A deviation is as exact as what it is of.
        assert!((found - expected).abs() < 1e-6 * mean, "{name}: {found} is not {expected}");
    }
    // Each begins where the one before ends, and the last goes on as far as the data does.
    for pair in folds.windows(2) {
        assert_eq!(pair[0]["test_period"]["until"], pair[1]["test_period"]["from"]);
    }
    assert!(folds[2]["test_period"]["until"].is_null());
}

/// A number that is another one wherever this is done.
fn changed(csv: &str, touches: impl Fn(&str) -> bool) -> String {
    let lines = csv.lines().enumerate().map(|(at, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        if at == 0 || !touches(cells[1]) {
            return line.to_owned();
        }
        let close: f64 = cells[2].parse().unwrap();
        format!("{},{},{:.4},0.9", cells[0], cells[1], close * 1.25 + at as f64 / 100.0)
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn what_comes_after_a_moment_changes_no_forecast_before_it() {
    for refit in ["every-fold", "warm-start", "once"] {
        let bench = bench();
        let csv = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
        let forecasts = |csv: &str| {
            std::fs::write(bench.path("prices.csv"), csv).unwrap();
            forecasts(&bench, &["--refit", refit])
        };
        let report = bench.json(&["backtest", "--json", "--refit", refit]);
        let border = |fold: usize| report["folds"][fold]["test_period"]["from"].as_str().unwrap();
        let whole = forecasts(&csv);
        // The border between two folds, and a moment in the middle of the second.
        let middle = day((0..160).position(|t| day(t) == border(1)).unwrap() + 10);
        for moment in [border(1), border(2), &middle] {
            let before = |rows: &[String]| -> Vec<String> {
                rows.iter().filter(|row| made(row) < moment).cloned().collect()
            };
            // What came is in the row of the forecast; at the last step, it comes after the moment.
            let without_outcome = |rows: Vec<String>| -> Vec<String> {
                rows.iter().map(|row| row.rsplit_once(',').unwrap().0.to_owned()).collect()
            };
            let known = without_outcome(before(&whole));
            let later = forecasts(&changed(&csv, |day| day >= moment));
            assert_eq!(without_outcome(before(&later)), known, "{refit}, after {moment}");
            assert_ne!(later, whole, "{refit}: what comes after changes what is forecast after");
            assert!(known.len() > 30, "{refit}: {} forecasts before {moment}", known.len());
            // The same comparison sees a change of what may be known.
            let earlier = forecasts(&changed(&csv, |at| at < "2020-01-20"));
            assert_ne!(without_outcome(before(&earlier)), known, "{refit}, a leak is not seen");
        }
    }
}

/// The folders of all backtests.
fn backtests(bench: &Bench) -> Vec<PathBuf> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    bench.runs().into_iter().filter(|path| name(path).starts_with("backtest-")).collect()
}

fn table(backtest: &Path) -> Vec<u8> {
    std::fs::read(backtest.join("predictions.parquet")).unwrap()
}

/// Goes on with a backtest to its end, and checks what comes of it.
fn go_on(bench: &Bench, backtest: &Path, expected: &[u8], whole: &Value) {
    let path = backtest.to_str().unwrap();
    let resumed = bench.json(&["backtest", "--json", "--resume", path]);
    assert!(table(backtest) == expected, "another table of forecasts");
    assert_eq!((&resumed["test"], &resumed["rows"]), (&whole["test"], &whole["rows"]));
    check_fails(&bench.run(&["backtest", "--resume", path]), 2, &["has finished"]);
}

#[test]
fn a_backtest_that_was_killed_in_any_fold_goes_on_to_the_same_table() {
    for refit in ["every-fold", "warm-start", "once"] {
        let bench = bench();
        let args = ["backtest", "--json", "--set", "train.epochs=40", "--refit", refit];
        let whole = bench.json(&args);
        let expected = table(Path::new(&bench.path(whole["run"].as_str().unwrap())));
        std::fs::remove_dir_all(bench.path("runs")).unwrap();
        for (fold, seen) in [
            (1, "config.toml"),
            (1, "checkpoints/last"),
            (2, ""),
            (2, "checkpoints/last"),
            (3, "checkpoints/best"),
            (3, "predictions.parquet"),
        ] {
            if refit == "once" && fold > 1 && !["", "predictions.parquet"].contains(&seen) {
                continue;
            }
            let mut command = bench.command(&args);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let running = Running::start(command);
            let at = || backtests(&bench).first().map(|path| path.join(format!("fold-{fold}")));
            running.wait_for(|| at().is_some_and(|path| path.join(seen).exists()));
            running.signal(libc::SIGKILL);
            running.end();
            let backtest = backtests(&bench).remove(0);
            let first = backtest.join("fold-1/checkpoints/best/model.safetensors");
            let written = |path: &Path| std::fs::metadata(path).ok()?.modified().ok();
            let before = written(&first);
            if backtest.join("report.json").exists() {
                // It was quicker than the kill.
                assert!(table(&backtest) == expected);
            } else {
                go_on(&bench, &backtest, &expected, &whole);
            }
            if fold > 1 {
                assert_eq!(written(&first), before, "a finished fold was trained again");
            }
            std::fs::remove_dir_all(bench.path("runs")).unwrap();
        }
    }
}

#[test]
fn a_backtest_that_is_interrupted_says_how_it_goes_on() {
    let bench = bench();
    let args = ["backtest", "--json", "--set", "train.epochs=400"];
    let start = || {
        let mut command = bench.command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(command)
    };
    let running = start();
    let second = |name: &str| {
        let first = backtests(&bench).into_iter().next();
        first.is_some_and(|path| path.join("fold-2").join(name).exists())
    };
    running.wait_for(|| second("checkpoints/last"));
    let backtest = backtests(&bench).remove(0);
    let path = backtest.strip_prefix(bench.folder.path()).unwrap().to_str().unwrap().to_owned();
    let busy = bench.run(&["backtest", "--resume", &path]);
    check_fails(&busy, 2, &["is in use by millstream backtest"]);
    running.signal(libc::SIGINT);
    let output = running.output();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    let expected = format!("interrupted; go on with: millstream backtest --resume {path}");
    assert!(said.lines().any(|line| line == expected), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["output"]), (&Value::from(true), &Value::Null));
    assert_eq!(result["folds"].as_array().unwrap().len(), 1);
    assert!(!backtest.join("predictions.parquet").exists(), "half the folds look like all");
    assert!(backtest.join("fold-1/predictions.parquet").exists());

    // It goes on as it was, or not at all.
    let mut other = bench.command(&["backtest", "--resume", &path]);
    other.env("MILLSTREAM_TRAIN__EPOCHS", "3");
    check_fails(&other.output().unwrap(), 2, &["would change train.epochs from 400 to 3"]);
    let csv = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    std::fs::write(bench.path("prices.csv"), changed(&csv, |day| day > "2020-05-01")).unwrap();
    let refused = bench.run(&["backtest", "--resume", &path]);
    check_fails(&refused, 2, &["cannot resume", "the data was"]);
    check_fails(&bench.run(&["train", "--resume", &path]), 2, &["is a backtest", "--resume"]);
    let run = format!("{path}/fold-1");
    check_fails(&bench.run(&["backtest", "--resume", &run]), 2, &["is not a backtest"]);
    assert!(backtest.join("fold-2/checkpoints/last").exists(), "what was saved stays");
}

#[test]
fn a_later_fold_that_trains_on_begins_better_than_one_that_does_not() {
    let bench = bench();
    let first_loss = |refit: &str| {
        let set = ["--set", "train.epochs=30", "--set", "train.learning_rate=0.01"];
        let args = [&["backtest", "--json", "--refit", refit][..], &set].concat();
        let report = bench.json(&args);
        assert_eq!(report["refit"], refit);
        let of = |fold: usize| {
            let run = bench.path(report["folds"][fold]["run"].as_str().unwrap());
            let json = std::fs::read(run.join("report.json")).unwrap();
            let json: Value = serde_json::from_slice(&json).unwrap();
            json["first_validation_loss"].as_f64().unwrap()
        };
        [of(0), of(1)]
    };
    let (anew, on) = (first_loss("every-fold"), first_loss("warm-start"));
    assert_eq!(anew[0], on[0], "the first fold has nothing to train on from");
    assert!(on[1] < 0.5 * anew[1], "{on:?} beside {anew:?}");
}

#[test]
fn a_model_that_is_not_refitted_forecasts_what_it_would_by_itself() {
    let bench = bench();
    let report = bench.json(&["backtest", "--json", "--refit", "once", "--output", "all.csv"]);
    let all = rows(&bench.path("all.csv"));
    let second = &report["folds"][1];
    assert_eq!((&second["model_of"], &second["steps"]), (&Value::from(1), &Value::from(0)));
    // A forecast is made the day before the one that it is of.
    let day_before = |time: &Value| {
        let at = (0..160).position(|t| day(t) == time.as_str().unwrap()).unwrap();
        day(at - 1)
    };
    let [from, until] = ["from", "until"].map(|key| day_before(&second["test_period"][key]));
    let run = report["folds"][0]["run"].as_str().unwrap();
    let args = ["predict", "--json", "--run", run, "--from", &from, "--to", &until];
    bench.json(&[&args[..], &["--output", "one.csv"]].concat());
    let expected = rows(&bench.path("one.csv"));
    let own = all.iter().filter_map(|row| row.strip_prefix("2,"));
    assert!(own.eq(expected.iter()) && !expected.is_empty());
}

#[test]
fn what_cannot_be_backtested_is_one_line_and_leaves_nothing() {
    let bench = bench();
    let fails = |args: &[&str], code, expected: &[&str]| {
        check_fails(&bench.run(&[&["backtest"], args].concat()), code, expected);
        assert!(!bench.path("runs").exists(), "{args:?}: a folder was left behind");
    };
    for folds in ["split.folds=0", "split.folds=1"] {
        fails(&["--set", folds], 2, &["split.folds", "2 folds at least", "--set split.folds=5"]);
    }
    fails(&["--set", "split.fold=2"], 2, &["split.fold = 2 has no effect"]);
    fails(&["--set", "split.folds=500"], 2, &["split.folds is 500", "use at most 64 folds"]);
    fails(&["--set", "split.by=series"], 2, &["split.by"]);
    fails(&["--set", "split.embargo=16"], 2, &["fold 1: split.embargo = 16", "validation part"]);
    let test = ["--set", "split.validation=0", "--set", "split.embargo=27"];
    fails(&test, 2, &["fold 1: split.embargo = 27", "test part"]);
    let rolling = ["--refit", "once", "--set", "split.walk=rolling"];
    fails(&rolling, 2, &["split.walk = \"rolling\" has no effect"]);
    fails(&["--output", "nope/all.csv"], 2, &["nope/all.csv"]);
    fails(&["--output", "all.txt"], 2, &["all.txt"]);
    fails(&["--output", "-"], 2, &["--output -: the forecasts of all folds go to a file"]);
    let url = "postgres://me:secret@nowhere/db?table=t";
    fails(&["--output", url], 2, &["go to a file", "me:***@nowhere"]);
    fails(&["--output", "prices.csv"], 2, &["what the rows are read from"]);
    fails(&["--resume", "nope"], 2, &["nope is not a backtest"]);
    fails(&["--set", "source.path=nope.csv"], 2, &["nope.csv"]);
    let csv = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    std::fs::write(bench.path("prices.csv"), csv.replace("close", "fold")).unwrap();
    let named = ["--set", "target.columns=[\"fold\"]"];
    fails(&named, 2, &["column \"fold\"", "rename it"]);
}

#[test]
fn a_backtest_is_not_taken_for_a_run() {
    let bench = bench();
    let report = bench.json(&["backtest", "--json"]);
    let path = report["run"].as_str().unwrap();
    check_fails(&bench.run(&["predict"]), 2, &["no trained run", "a fold in runs/backtest-"]);
    check_fails(&bench.run(&["predict", "--run", path]), 2, &["is a backtest", "fold-3"]);
    let fold = format!("{path}/fold-3");
    assert!(bench.json(&["predict", "--json", "--run", &fold])["rows"].as_u64() > Some(0));
    // The newest run is a run.
    let run = bench.json(&["train", "--json"]);
    assert_eq!(bench.json(&["predict", "--json"])["run"], run["run"]);
    let output = bench.run(&["backtest"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let widest = text.lines().filter(|line| !line.contains("runs/")).map(|l| l.chars().count());
    assert!(widest.max() <= Some(80), "{text}");
    assert!(text.lines().any(|line| line.starts_with("± std")), "{text}");
    let warned = bench.json(&["predict", "--json"]);
    assert_eq!(warned["run"], run["run"]);
    let warnings = warned["warnings"].to_string();
    assert!(warnings.contains("is newer than") && warnings.contains("but is a backtest"));
}
