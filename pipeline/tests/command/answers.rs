//! What was asked is done, refused, or said: warnings that reach everybody, errors with the right code,
//! and nothing that is kept under another name than it is looked for.

use crate::bench::{Bench, SMALL, check_fails, stderr};
use serde_json::Value;

fn entries(bench: &Bench) -> usize {
    let folders = std::fs::read_dir(bench.path(".millstream/cache")).unwrap().flatten();
    folders.filter(|entry| entry.path().join("manifest.json").is_file()).count()
}

#[test]
fn what_import_refreshes_is_what_train_opens() {
    let scale = "[scale]\nreference = \"close\"\nrelative = \"ratio\"\n";
    let bench = Bench::with_csv(6, 80, scale);
    let set = ["--set", "source.features=[\"f1\"]", "--set", "target.columns=[\"f1\"]"];
    bench.json(&[&["import", "--json"], &set[..]].concat());
    assert_eq!(entries(&bench), 1);
    bench.json(&[&["train", "--json"], &set[..]].concat());
    assert_eq!(entries(&bench), 1, "train read the source into another entry");
    bench.json(&["predict", "--json"]);
    assert_eq!(entries(&bench), 1, "predict read the source into another entry");
}

#[test]
fn import_needs_no_target() {
    let bench = Bench::with_csv(6, 80, "");
    let file = bench.path("pipeline.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[target]\ncolumns = [\"close\"]\n", "")).unwrap();
    assert_eq!(bench.json(&["import", "--json"])["series"], 6);
    // Which column is forecast does not change the rows.
    bench.json(&["train", "--json", "--set", "target.columns=[\"close\"]"]);
    assert_eq!(entries(&bench), 1);
}

#[test]
fn a_warning_reaches_the_screen_the_summary_the_result_and_the_run() {
    let bench = Bench::with_csv(6, 80, "");
    let symbols = "source.symbols=[\"s01\", \"s02\", \"s3\", \"s04\"]";
    let output = bench.run(&["train", "--set", symbols]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (said, shown) = (stderr(&output), String::from_utf8(output.stdout).unwrap());
    let is_it = |line: &&str| line.starts_with("warning: ") && line.contains("s3");
    assert_eq!(said.lines().filter(is_it).count(), 1, "{said}");
    assert!(shown.contains("s3"), "{shown}");

    let result = bench.json(&["train", "--json", "--set", symbols]);
    let names =
        |lines: &Value| lines.as_array().unwrap().iter().any(|w| w.to_string().contains("s3"));
    assert!(names(&result["warnings"]), "{result}");
    let run = bench.path(result["run"].as_str().unwrap());
    let kept = std::fs::read_to_string(run.join("warnings.txt")).unwrap();
    assert!(kept.contains("s3"), "{kept}");

    // Asked for by name, it must be there.
    let required = ["train", "--set", symbols, "--set", "source.symbols_required=true"];
    check_fails(&bench.run(&required), 2, &["s3"]);
}

#[test]
fn an_error_is_json_too() {
    let bench = Bench::new(SMALL);
    let output = bench.run(&["train", "--json", "--set", "split.train=1.5"]);
    assert_eq!(output.status.code(), Some(2));
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&result["kind"], &result["exit_code"]), (&"settings".into(), &2.into()));
    assert!(result["error"].as_str().unwrap().contains("split.train is 1.5"), "{result}");
    check_fails(&output, 2, &["split.train is 1.5"]);
}

#[test]
fn doctor_misses_what_was_asked_for() {
    let bench = Bench::new(SMALL);
    assert_eq!(bench.run(&["doctor"]).status.code(), Some(0));
    assert!(bench.json(&["doctor", "--json"])["findings"].is_array());
    let cuda = bench.run(&["doctor", "--set", "prefetch.device=cuda:0"]);
    assert_eq!(cuda.status.code(), Some(4), "{}", stderr(&cuda));
    let url = "source.url=postgres://nobody@127.0.0.1:1/none";
    let database = ["doctor", "--set", "source.kind=postgres", "--set", url];
    assert_eq!(
        bench.run(&[&database[..], &["--set", "source.table=t"]].concat()).status.code(),
        Some(4)
    );
}

#[test]
fn a_wrong_setting_found_late_is_still_a_setting() {
    let bench = Bench::with_csv(6, 80, "");
    for (set, expected) in [
        ("split.folds=70", "split.folds"),
        ("scale.clip=-1", "scale.clip"),
        ("split.train_end=soon", "split.train_end"),
        ("split.embargo=70", "split.embargo"),
        ("target.columns=[\"close\", \"close\"]", "close"),
        ("scale.groups=[{columns=[\"[\"]}]", "scale.groups"),
    ] {
        check_fails(&bench.run(&["train", "--set", set]), 2, &[expected]);
        assert!(!bench.path("runs").exists(), "{set} left a run");
    }
}

#[test]
fn names_that_clash_are_refused_before_training() {
    let bench = Bench::with_csv(6, 80, "");
    let rename = |from: &str, to: &str| {
        let text = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
        std::fs::write(bench.path("other.csv"), text.replacen(from, to, 1)).unwrap();
    };
    rename("trade_date", "step");
    let step = ["train", "--set", "source.path=other.csv", "--set", "source.time=step"];
    check_fails(&bench.run(&step), 2, &["two columns named \"step\""]);
    rename("f1", "close_forecast");
    let both = "target.columns=[\"close\", \"close_forecast\"]";
    let clash = ["train", "--set", "source.path=other.csv", "--set", both];
    check_fails(&bench.run(&clash), 2, &["two columns named \"close_forecast\""]);
}

#[test]
fn an_empty_part_is_said_and_the_run_goes_on() {
    let bench = Bench::with_csv(6, 80, "");
    let shares = ["--set", "split.train=0.9", "--set", "split.validation=0.1"];
    let result = bench.json(&[&["pipeline", "--json"], &shares[..]].concat());
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("no window to test with: that part has 0 of 80"), "{warnings}");
    assert!(result["test"].is_null(), "{result}");
}

#[test]
fn a_run_that_goes_on_keeps_its_own_settings() {
    let bench = Bench::new(SMALL);
    let run = &bench.interrupted(&["train", "--set", "train.epochs=60"]);
    for (name, value, key) in [
        ("MILLSTREAM_TRAIN__EPOCHS", "2", "train.epochs"),
        ("MILLSTREAM_TRAIN__LEARNING_RATE", "0.5", "train.learning_rate"),
        ("MILLSTREAM_WINDOW__STRIDE", "3", "window.stride"),
        ("MILLSTREAM_TARGET__DELAY", "1", "target.delay"),
        ("MILLSTREAM_TARGET__KIND", "difference", "target.kind"),
        ("MILLSTREAM_SPLIT__TRAIN", "0.5", "split.train"),
    ] {
        let output = bench.command(&["train", "--resume", run]).env(name, value).output().unwrap();
        check_fails(&output, 2, &[name, key]);
    }
    bench.json(&["train", "--json", "--resume", run]);
}
