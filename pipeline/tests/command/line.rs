//! The whole line, on a small generated table.

use crate::bench::{Bench, SMALL, check_fails, stderr};
use serde_json::Value;
use std::{path::Path, process::Command};

#[test]
fn the_whole_line_learns_and_forecasts() {
    let bench = Bench::new(SMALL);
    let result = bench.json(&["pipeline", "--json", "--set", "train.epochs=8", "--trace"]);
    let mse = |v: &Value| v["mse"].as_f64().unwrap();
    assert!(mse(&result["test"]) < 0.9 * mse(&result["baseline"]["mean"]), "{result}");
    for stage in ["loader", "normalize", "prefetch", "trainer"] {
        let figures = &result["stages"][stage];
        assert!(figures["items"].as_u64().unwrap() > 0, "{result}");
        for key in ["bytes", "busy_s", "wait_in_s", "wait_out_s"] {
            assert!(figures[key].is_number(), "{stage}.{key} in {result}");
        }
    }
    for key in ["steps", "train_loss", "samples_per_s", "wait_share", "peak_rss_mb"] {
        assert!(result[key].is_number(), "{key} in {result}");
    }
    // Every batch that normalize filled reached the trainer, one for one.
    let items = |stage: &str| result["stages"][stage]["items"].as_u64().unwrap();
    assert_eq!(items("normalize"), items("trainer"));
    assert_eq!(items("loader"), 1);

    let run = bench.path(result["run"].as_str().unwrap());
    for file in [
        "config.toml",
        "metrics.jsonl",
        "trace.json",
        "predictions.parquet",
        "checkpoints/last/state.json",
        "checkpoints/best/model.safetensors",
        "checkpoints/best/optimizer.safetensors",
        "checkpoints/best/scaler.json",
        "checkpoints/best/schema.json",
    ] {
        assert!(run.join(file).is_file(), "{file} is missing");
    }
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("trace.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        trace.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    assert!(names.contains(&"fill") && names.contains(&"accept"), "the trace has no stage spans");

    // Forecasting again, as CSV, gives as many rows.
    let csv = bench.path("out.csv");
    let again = bench.json(&["predict", "--json", "--output", csv.to_str().unwrap()]);
    let lines = std::fs::read_to_string(&csv).unwrap().lines().count() as u64;
    assert_eq!(again["rows"].as_u64().unwrap() + 1, lines);
    assert_eq!(again["rows"].as_u64().unwrap(), parquet_rows(&run.join("predictions.parquet")));
    // Not every series reaches the test part.
    let series = again["series"].as_u64().unwrap() + again["skipped"].as_u64().unwrap();
    assert!((20..=24).contains(&series), "{again}");
}

/// Outcomes of a CSV of forecasts, by series, time and step.
fn outcomes(csv: &Path) -> std::collections::BTreeMap<String, f64> {
    let text = std::fs::read_to_string(csv).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let known = rows.filter(|row| !row[5].is_empty());
    known.map(|row| (row[..3].join(","), row[5].parse().unwrap())).collect()
}

#[test]
fn however_the_data_was_prepared_a_forecast_is_in_user_units() {
    let outcomes_of = |settings: &str, arguments: &[&str]| {
        let bench = Bench::new(&format!("{SMALL}{settings}"));
        bench.json(&[&["pipeline", "--json"], arguments].concat());
        let csv = bench.path("out.csv");
        bench.json(&["predict", "--json", "--output", csv.to_str().unwrap()]);
        outcomes(&csv)
    };
    let plain = outcomes_of("", &[]);
    let groups = "[scale]\nper = \"series\"\nmissing = \"mask\"\nclip = 4.0\n\
        [[scale.groups]]\ncolumns = [\"f*1\"]\nreference = \"last\"\n\
        [[scale.groups]]\ncolumns = [\"f*2\"]\nmethod = \"rank_normal\"\n";
    let padded =
        ["--set", "window.short=pad", "--set", "window.pad=right", "--set", "window.order=by_time"];
    let other = outcomes_of(groups, &padded);
    let shared: Vec<_> = plain.iter().filter_map(|(key, x)| Some((x, other.get(key)?))).collect();
    assert!(shared.len() > 100, "{} of {}", shared.len(), plain.len());
    for (plain, other) in shared {
        assert!((plain - other).abs() <= 1e-4 * plain.abs().max(1.0), "{plain} and {other}");
    }
}

fn parquet_rows(path: &Path) -> u64 {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    reader.metadata().file_metadata().num_rows() as u64
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let weights = || {
        let bench = Bench::new(SMALL);
        let result = bench.json(&["train", "--json"]);
        let run = bench.path(result["run"].as_str().unwrap());
        std::fs::read(run.join("checkpoints/best/model.safetensors")).unwrap()
    };
    assert_eq!(weights(), weights());
}

#[test]
fn an_interrupted_run_saves_and_resumes_to_the_same_weights() {
    let bench = Bench::new(SMALL);
    let whole = bench.json(&["train", "--json", "--set", "train.epochs=40"]);
    let run = &bench.interrupted(&["train", "--set", "train.epochs=40"]);
    let resumed = bench.json(&["train", "--json", "--resume", run]);
    assert_eq!(resumed["steps"], whole["steps"]);
    let weights = |run: &str| {
        std::fs::read(bench.path(run).join("checkpoints/last/model.safetensors")).unwrap()
    };
    assert_eq!(weights(run), weights(whole["run"].as_str().unwrap()), "not the same weights");
    let finished = bench.run(&["train", "--resume", run]);
    check_fails(&finished, 2, &["has finished"]);
}

/// A kill may come between the last checkpoint and the report.
#[test]
fn a_finished_run_without_its_report_gets_it() {
    let bench = Bench::new(SMALL);
    let whole = bench.json(&["train", "--json"]);
    let run = whole["run"].as_str().unwrap();
    let report = bench.path(run).join("report.json");
    std::fs::remove_file(&report).unwrap();
    let resumed = bench.json(&["train", "--json", "--resume", run]);
    assert_eq!(resumed["test"], whole["test"]);
    assert!(whole["test"]["mse"].is_number() && report.exists());
    check_fails(&bench.run(&["train", "--resume", run]), 2, &["has finished"]);
}

#[test]
fn import_fills_the_cache_and_verify_finds_damage() {
    let bench = Bench::new(SMALL);
    let report = bench.json(&["import", "--json"]);
    assert_eq!(report["series"], 24);
    let cache = bench.path(report["cache"].as_str().unwrap());
    let checked = bench.json(&["import", "--json", "--verify"]);
    assert_eq!(checked["rows"], report["rows"]);

    let shard = std::fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "arrow"))
        .unwrap();
    let mut bytes = std::fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    check_fails(&bench.run(&["import", "--verify"]), 3, &["shard-0000.arrow", "import"]);
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing() {
    let bench = Bench::new(SMALL);
    let before = bench.files();
    let fails =
        |args: &[&str], code, expected: &[&str]| check_fails(&bench.run(args), code, expected);
    fails(&["train", "--config", "nope.toml"], 2, &["cannot read the settings file nope.toml"]);
    fails(
        &["train", "--set", "train.epoch=3"],
        2,
        &["`train.epoch`", "did you mean `train.epochs`?"],
    );
    fails(&["train", "--set", "train.epochs=many"], 2, &["train.epochs", "many"]);
    fails(&["train", "--set", "train.epochs=0"], 2, &["train.epochs"]);
    fails(&["train", "--set", "train.batch_size=0"], 2, &["train.batch_size"]);
    fails(&["train", "--set", "prefetch.depth=0"], 2, &["prefetch.depth"]);
    fails(&["train", "--set", "train.learning_rate=-1"], 2, &["train.learning_rate"]);
    fails(&["train", "--set", "split.train=1.5"], 2, &["split.train"]);
    fails(&["train", "--set", "run.dir=/proc/nope"], 2, &["run.dir", "/proc/nope"]);
    fails(&["train", "--set", "prefetch.device=cuda:0"], 4, &["cuda:0", "cpu"]);
    fails(&["predict"], 2, &["no trained run"]);
    fails(&["train", "--resume", "nope"], 2, &["nope"]);
    assert_eq!(bench.files(), before, "something was left behind");

    // These need the data first, so the cache may stay; a run directory may not.
    fails(&["train", "--set", "window.lookback=500"], 3, &["window.lookback", "500"]);
    fails(&["train", "--set", "target.columns=[\"nope\"]"], 3, &["nope"]);
    assert!(!bench.path("runs").exists(), "an empty run directory was left behind");
}

#[test]
fn a_disk_that_takes_no_more_is_one_line() {
    let bench = Bench::new(SMALL);
    bench.json(&["import", "--json"]);
    // Files of at most 8 KiB: settings and metrics fit, a checkpoint does not.
    let script =
        format!("trap '' XFSZ; ulimit -f 8; exec {} train", env!("CARGO_BIN_EXE_millstream"));
    let mut shell = Command::new("bash");
    let output = shell.args(["-c", &script]).current_dir(bench.folder.path()).output().unwrap();
    check_fails(&output, 1, &["cannot write", "safetensors"]);
    assert!(!bench.path("runs").exists(), "a run that saved nothing was left behind");
}

#[test]
fn doctor_help_and_completions_answer() {
    let bench = Bench::new(SMALL);
    let doctor = bench.run(&["doctor"]);
    let text = String::from_utf8(doctor.stdout).unwrap();
    for what in ["libtorch", "CUDA driver", "device", "memory", "threads", "database"] {
        assert!(text.contains(what), "{text}");
    }
    let help = String::from_utf8(bench.run(&["--help"]).stdout).unwrap();
    assert!(help.contains("Exit codes") && help.contains("Examples"), "{help}");
    let script = String::from_utf8(bench.run(&["completions", "bash"]).stdout).unwrap();
    assert!(script.contains("_millstream"), "{script}");
}

#[test]
fn messages_stay_off_stdout_and_colour_off_pipes() {
    let bench = Bench::new(SMALL);
    let output = bench.run(&["train", "--json"]);
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(!stderr(&output).contains('\u{1b}'), "{}", stderr(&output));
    let quiet = bench.run(&["train", "--json", "--quiet"]);
    assert_eq!(stderr(&quiet), "");
}
