//! Flags that try a run out: `--fast-dev-run`, `--limit-batches`, `--overfit-batches`, `--seeds` and
//! `--max-time`.

use crate::{
    bench::{Bench, SMALL, check_fails, stderr},
    running::{Running, epochs},
};
use serde_json::Value;
use std::process::Stdio;

fn warned(result: &Value, words: &str) -> bool {
    let warnings = result["warnings"].as_array().unwrap();
    warnings.iter().any(|line| line.as_str().unwrap().contains(words))
}

#[test]
fn a_fast_run_tries_everything_and_keeps_nothing() {
    let bench = Bench::new(SMALL);
    let result = bench.json(&["pipeline", "--json", "--fast-dev-run"]);
    assert_eq!((&result["steps"], &result["samples"]), (&2.into(), &128.into()));
    assert!(result["run"].is_null() && result["predict"]["output"].is_null(), "{result}");
    assert_eq!(
        result["losses"].as_array().unwrap().len(),
        1,
        "one epoch, whatever the settings say"
    );
    assert!(result["validation"]["mse"].is_number() && result["test"]["mse"].is_number());
    // Validation before and after, training, test, in the trainer; forecasts beside them.
    assert_eq!(result["stages"]["trainer"]["items"], 4 * 2);
    assert_eq!(result["stages"]["predictor"]["items"], 2);
    assert!(warned(&result, "limited to 2 batches of each pass"), "{result}");
    assert!(!bench.path("runs").exists(), "{:?}", bench.runs());
    let said = bench.run(&["train", "--fast-dev-run"]);
    let table = String::from_utf8(said.stdout).unwrap();
    assert!(table.ends_with("this was only tried out: nothing was kept\n"), "{table}");
    assert!(!bench.path("runs").exists());
    check_fails(&bench.run(&["predict"]), 2, &["no trained run"]);
}

#[test]
fn a_fast_run_that_is_stopped_leaves_nothing_either() {
    // Validation of many small batches takes a while; the second Ctrl-C comes when there may be a
    // checkpoint.
    for signals in [1, 2] {
        let bench = Bench::new(SMALL);
        bench.json(&["import", "--json"]);
        let mut command = bench.command(&["train", "--fast-dev-run"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(command);
        running.wait_for(|| !bench.runs().is_empty());
        (0..signals).for_each(|_| running.signal(libc::SIGINT));
        let code = running.end().code();
        assert!(matches!(code, Some(0 | 5)), "{code:?}");
        assert!(!bench.path("runs").exists(), "{:?}", bench.runs());
    }
}

#[test]
fn what_a_killed_fast_run_left_is_removed_by_the_next_run() {
    let bench = Bench::new(SMALL);
    let mut command = bench.command(&["train", "--fast-dev-run"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(command);
    running.wait_for(|| !bench.runs().is_empty());
    running.signal(libc::SIGKILL);
    running.end();
    bench.json(&["train", "--json", "--limit-batches", "1"]);
    let runs = bench.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(!runs[0].file_name().unwrap().to_str().unwrap().starts_with('.'), "{runs:?}");
}

#[test]
fn a_limited_run_is_marked_and_keeps_its_limit() {
    let bench = Bench::new(SMALL);
    let limited = ["--limit-batches", "3", "--set", "train.epochs=60"];
    let whole = bench.json(&[&["train", "--json"], &limited[..]].concat());
    assert_eq!((&whole["steps"], &whole["limit"]["batches"]), (&180.into(), &3.into()));
    assert!(warned(&whole, "limited to 3 batches of each pass"), "{whole}");
    let run = bench.path(whole["run"].as_str().unwrap());
    let kept = std::fs::read_to_string(run.join("warnings.txt")).unwrap();
    assert!(kept.contains("limited to 3 batches of each pass"), "{kept}");

    // It goes on with its limit, named or not, and with no other.
    let cut = &bench.interrupted(&[&["train"], &limited[..]].concat());
    let other = ["train", "--resume", cut, "--limit-batches", "4"];
    check_fails(&bench.run(&other), 2, &["--limit-batches 3", "--limit-batches 4"]);
    let other = ["train", "--resume", cut, "--overfit-batches", "3"];
    check_fails(&bench.run(&other), 2, &["--limit-batches 3", "--overfit-batches 3"]);
    let resumed = bench.json(&["train", "--json", "--resume", cut, "--limit-batches", "3"]);
    assert_eq!(resumed["steps"], whole["steps"]);
    assert_eq!((&resumed["test"], &resumed["limit"]), (&whole["test"], &whole["limit"]));
    let weights = |run: &str| {
        std::fs::read(bench.path(run).join("checkpoints/last/model.safetensors")).unwrap()
    };
    assert_eq!(weights(cut), weights(whole["run"].as_str().unwrap()));

    // A limit beyond the data is none.
    let all = bench.json(&["train", "--json"]);
    assert!(!warned(&all, "limited") && all["limit"] == "none", "{all}");
    let same = bench.json(&["train", "--json", "--limit-batches", "100000"]);
    assert!(!warned(&same, "limited"), "{same}");
    assert_eq!((&same["test"], &same["steps"]), (&all["test"], &all["steps"]));
    let cut = &bench.interrupted(&["train", "--set", "train.epochs=40"]);
    let other = ["train", "--resume", cut, "--limit-batches", "3"];
    check_fails(&bench.run(&other), 2, &["without a limit", "--limit-batches 3"]);
}

#[test]
fn what_is_overfitted_is_learned_by_heart() {
    let bench = Bench::new(SMALL);
    let result = bench.json(&[
        "train",
        "--json",
        "--overfit-batches",
        "1",
        "--set",
        "train.epochs=300",
        "--set",
        "train.schedule=constant",
    ]);
    assert_eq!((&result["steps"], &result["samples"]), (&300.into(), &(300 * 64).into()));
    assert!(result["test"].is_null() && result["limit"]["overfit"] == 1, "{result}");
    assert!(warned(&result, "overfitting 1 batch"), "{result}");
    let mse = |part: &Value| part["mse"].as_f64().unwrap();
    let naive = mse(&result["validation_baseline"]["mean"]);
    assert!(mse(&result["validation"]) < 0.2 * naive, "{result}");
}

#[test]
fn several_seeds_are_several_runs_and_one_table() {
    let bench = Bench::new(SMALL);
    let args = ["train", "--seeds", "3", "--limit-batches", "4", "--set", "train.seed=7"];
    let result = bench.json(&[&args[..], &["--json"]].concat());
    assert_eq!(result["seeds"], serde_json::json!([7, 8, 9]));
    assert_eq!((bench.runs().len(), &result["interrupted"]), (3, &false.into()));
    let runs = result["runs"].as_array().unwrap();
    for part in ["validation", "test"] {
        let values: Vec<f64> = runs.iter().map(|run| run[part]["mse"].as_f64().unwrap()).collect();
        let mean = values.iter().sum::<f64>() / 3.0;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let close = |found: &Value, expected: f64| {
            let found = found.as_f64().unwrap();
            assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
        };
        close(&result[part]["mse"]["mean"], mean);
        close(&result[part]["mse"]["std"], (squares / 2.0).sqrt());
        assert!(squares > 0.0, "seeds make a difference");
    }
    for (seed, run) in (7..).zip(runs) {
        let config = bench.path(run["run"].as_str().unwrap()).join("config.toml");
        let config = std::fs::read_to_string(config).unwrap();
        assert!(config.contains(&format!("seed = {seed}")), "{config}");
    }
    assert!(warned(&result, "limited to 4 batches"), "{result}");
    // The first of them is the run that this seed gives alone.
    let alone = bench.json(&["train", "--json", "--limit-batches", "4", "--set", "train.seed=7"]);
    assert_eq!(alone["test"], runs[0]["test"]);

    let said = bench.run(&args);
    let table = String::from_utf8(said.stdout).unwrap();
    assert!(table.lines().any(|line| line.starts_with("mse ") && line.contains('±')), "{table}");
    assert!(table.contains("of 3 runs that differ in their seed alone"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80 || line.contains(": ")), "{table}");
}

#[test]
fn seeds_that_are_stopped_are_counted_as_far_as_they_came() {
    let bench = Bench::new(SMALL);
    let said = bench.path("said");
    let mut command =
        bench.command(&["train", "--json", "--seeds", "5000", "--limit-batches", "2"]);
    let file = std::fs::File::create(&said).unwrap();
    command.stdout(Stdio::piped()).stderr(file);
    let running = Running::start(command);
    let read = || std::fs::read_to_string(&said).unwrap();
    // In the middle of one, or between two.
    running.wait_for(|| read().contains(", 3 of 5000"));
    running.signal(libc::SIGINT);
    let output = running.output();
    assert_eq!(output.status.code(), Some(5), "{}", read());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(result["test"]["mse"]["count"].as_u64().unwrap() >= 2, "{result}");
    assert!(read().lines().last().unwrap().starts_with("interrupted; "), "{}", read());
}

#[test]
fn when_its_time_is_up_a_run_is_saved_and_goes_on() {
    let bench = Bench::new(SMALL);
    let args = ["train", "--json", "--max-time", "6s", "--set", &epochs()];
    let output = bench.run(&args);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("the time of --max-time is over"), "{}", stderr(&output));
    let hint = stderr(&output);
    let hint = hint.lines().last().unwrap();
    assert!(hint.starts_with("interrupted; go on with: millstream train --resume "), "{hint}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["interrupted"], true);
    let steps = result["steps"].as_u64().unwrap();
    // For as long again, no more.
    let run = hint.rsplit(' ').next().unwrap();
    let output = bench.run(&["train", "--json", "--resume", run, "--max-time", "6s"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert!(result["steps"].as_u64().unwrap() > steps, "{result}");
    // Time enough changes nothing.
    let bench = Bench::new(SMALL);
    let all = bench.json(&["train", "--json", "--max-time", "1d"]);
    assert_eq!(all["interrupted"], false);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bench = Bench::new(SMALL);
    let check = |args: &[&str], expected: &str| {
        let output = bench.run(&[&["train"], args].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(expected), "{args:?}: {text}");
        assert!(!bench.path("runs").exists());
    };
    for flag in ["--limit-batches", "--overfit-batches", "--seeds"] {
        check(&[flag, "0"], flag);
        check(&[flag, "-1"], "-1");
        check(&[flag, "many"], "many");
    }
    check(&["--limit-batches", "2", "--overfit-batches", "2"], "cannot be used with");
    for with in [
        &["--resume", "r"][..],
        &["--trace"],
        &["--limit-batches", "1"],
        &["--overfit-batches", "1"],
        &["--seeds", "2"],
        &["--max-time", "1h"],
    ] {
        check(&[&["--fast-dev-run"], with].concat(), "cannot be used with");
    }
    check(&["--seeds", "2", "--resume", "r"], "cannot be used with");
    check(&["--seeds", "2", "--trace"], "cannot be used with");
    check(
        &["--seeds", "2", "--set", "train.seed=9223372036854775807"],
        "--seeds 2 from train.seed = 9223372036854775807 on goes beyond the greatest seed",
    );
    for time in ["0s", "90", "2 h", "-1h", "soon", ""] {
        check(&[&format!("--max-time={time}")], "--max-time");
    }
}
