//! `predict`: the run's test part and no more, on data of the form its model knows, with settings
//! that it can use.

use crate::bench::{Bench, check_fails, stderr};
use std::collections::{BTreeMap, BTreeSet};

fn column(rows: &[BTreeMap<String, String>], name: &str) -> BTreeSet<String> {
    rows.iter().map(|row| row[name].clone()).collect()
}

#[test]
fn a_table_with_other_times_is_refused() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json"]);
    bench.write_csv("integers.csv", 6, 80, |t| (20_200_101 + t).to_string());
    let output = bench.run(&["predict", "--set", "source.path=integers.csv"]);
    check_fails(&output, 3, &["\"trade_date\" holds dates", "holds whole numbers"]);
    assert!(bench.forecasts(&[]).len() > 60);
}

#[test]
fn a_folder_of_the_output_that_is_not_there_is_an_error_of_usage() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json"]);
    let output = bench.run(&["predict", "--output", "nowhere/forecasts.csv"]);
    check_fails(&output, 2, &["nowhere/forecasts.csv"]);
}

#[test]
fn a_cross_section_is_that_of_all_series() {
    let bench = Bench::with_csv(8, 80, "[scale]\ncross_section = \"rank\"\n");
    bench.json(&["train", "--json"]);
    let all = bench.forecasts(&[]);
    let two = bench.forecasts(&["--set", "source.symbols=[\"s02\", \"s05\"]"]);
    assert_eq!(column(&two, "symbol").len(), 2);
    let expected: Vec<_> =
        all.into_iter().filter(|row| ["s02", "s05"].contains(&row["symbol"].as_str())).collect();
    assert_eq!(two, expected);
}

#[test]
fn a_return_is_called_a_return_and_the_time_it_is_for_is_there() {
    let settings = "kind = \"return\"\n[window]\nhorizon = 2\n";
    let bench = Bench::with_csv(6, 80, "");
    let file = bench.path("pipeline.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("[window]\n", settings);
    std::fs::write(&file, text).unwrap();
    bench.json(&["train", "--json"]);
    let rows = bench.forecasts(&[]);
    assert!(rows[0].contains_key("close_return_forecast"), "{:?}", rows[0]);
    assert!(rows[0].contains_key("close_return") && !rows[0].contains_key("close"));
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!((first["step"].as_str(), second["step"].as_str()), ("1", "2"));
    assert!(first["trade_date"] < first["target_time"]);
    assert!(first["target_time"] < second["target_time"]);
    // The last forecast is for days that nobody has seen.
    let last = rows.last().unwrap();
    assert_eq!((last["target_time"].as_str(), last["close_return"].as_str()), ("", ""));
}

/// Learned as changes, forecast as levels: of every model, in padded windows and of any times.
#[test]
fn a_difference_is_a_level_in_the_file() {
    for (model, more) in [("lstm", "window.short=pad"), ("nlinear", "window.order=by_time")] {
        let bench = Bench::with_csv(6, 80, "");
        let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
        let source: BTreeMap<(&str, &str), f32> = table
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<_>>())
            .map(|cells| ((cells[0], cells[1]), cells[2].parse().unwrap()))
            .collect();
        let model = format!("train.model={model}");
        let options = ["--set", "target.kind=difference", "--set", &model, "--set", more];
        let file = std::fs::read_to_string(bench.path("pipeline.toml")).unwrap();
        let file = file.replace("[train.model_options]\nhidden = 4\n", "");
        std::fs::write(bench.path("pipeline.toml"), file).unwrap();
        bench.json(&[&["train", "--json", "--set", "window.horizon=2"], &options[..]].concat());
        for asked in [&[][..], &["--from", "2020-01-20", "--to", "2020-02-01"]] {
            let rows = bench.forecasts(asked);
            assert!(rows.len() > 100, "{}", rows.len());
            for row in &rows {
                let level = |time: &str| source.get(&(row["symbol"].as_str(), row[time].as_str()));
                let known = row["close"].parse::<f32>().ok();
                assert_eq!(known.as_ref(), level("target_time"), "{row:?}");
                // A day changes a close by one percent at most.
                let said: f32 = row["close_forecast"].parse().unwrap();
                assert!((said - level("trade_date").unwrap()).abs() < 10.0, "{row:?}");
            }
        }
    }
}

#[test]
fn a_value_from_inputs_without_a_level_is_said() {
    let bench = Bench::with_csv(6, 80, "");
    let warnings = |settings: &[&str]| {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let args: Vec<&str> = ["train", "--json"].into_iter().chain(set).collect();
        bench.json(&args)["warnings"].to_string()
    };
    let last = "scale.reference=last";
    let said = warnings(&[last]);
    assert!(said.contains("close: a value is forecast, but the inputs are relative"), "{said}");
    assert!(said.contains("set target.kind = \\\"difference\\\""), "{said}");
    let said = warnings(&[last, "target.kind=difference"]);
    assert!(!said.contains("the inputs are relative"), "{said}");
    assert!(said.starts_with("[\"no ridge regression") && !said.contains("\",\""), "{said}");
    assert_eq!(warnings(&[]), "[]");
    let refused = ["train", "--set", "target.kind=difference", "--set", "target.delay=1"];
    let expected = &["target.delay = 1", "target.kind = \"difference\"", "no level"];
    check_fails(&bench.run(&refused), 2, expected);
    let rank = ["train", "--set", "target.kind=difference", "--set", "target.cross_section=rank"];
    check_fails(&bench.run(&rank), 2, &["target.cross_section", "target.kind = \"difference\""]);
    let idle = &["target.delay = 1 has no effect", "target.kind = \"return\" or \"direction\""];
    check_fails(&bench.run(&["train", "--set", "target.delay=1"]), 2, idle);
}

#[test]
fn outcomes_are_those_of_the_source_however_small_beside_others() {
    let bench = Bench::with_csv(2, 80, "");
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let shrunk = |line: &str| -> String {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let factor = if cells[0] == "s01" { 1e-7 } else { 1e3 };
        cells[2] = cells[2].parse::<f64>().map_or(cells[2].clone(), |x| (x * factor).to_string());
        cells.join(",")
    };
    let table: Vec<String> = table.lines().map(shrunk).collect();
    std::fs::write(bench.path("prices.csv"), table.join("\n")).unwrap();
    let trained = bench.json(&["train", "--json"]);
    let warnings = trained["warnings"].to_string();
    assert!(warnings.contains("close: most changes in 1 of 2 series (s01) are lost"), "{warnings}");
    let source: BTreeMap<(&str, &str), f32> = table[1..]
        .iter()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|cells| ((cells[0], cells[1]), cells[2].parse().unwrap()))
        .collect();
    let rows = bench.forecasts(&[]);
    let known: Vec<_> = rows.iter().filter(|row| !row["close"].is_empty()).collect();
    assert!(known.iter().any(|row| row["symbol"] == "s01"));
    for row in known {
        let came = source[&(row["symbol"].as_str(), row["target_time"].as_str())];
        assert_eq!(row["close"].parse::<f32>().unwrap(), came, "{row:?}");
    }
}

#[test]
fn an_input_without_a_value_is_said() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json"]);
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let without = |line: &str| -> String {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[0] == "symbol" {
            line.into()
        } else {
            [cells[0], cells[1], "", cells[3]].join(",")
        }
    };
    let table: Vec<String> = table.lines().map(without).collect();
    std::fs::write(bench.path("empty.csv"), table.join("\n")).unwrap();
    let found = bench.json(&["predict", "--json", "--set", "source.path=empty.csv"]);
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("close: no value in any row, though the model"), "{warnings}");
}

#[test]
fn a_model_of_a_run_that_was_interrupted_is_called_so() {
    let bench = Bench::with_csv(6, 80, "");
    let run = bench.interrupted(&["train", "--set", "train.epochs=10000"]);
    let warnings = bench.json(&["predict", "--json", "--run", &run])["warnings"].to_string();
    assert!(warnings.contains("has not come to its end; this is its best model"), "{warnings}");
    bench.json(&["train", "--json"]);
    assert_eq!(bench.json(&["predict", "--json"])["warnings"].to_string(), "[]");
}

#[test]
fn the_end_of_the_test_part_is_the_end_of_the_forecasts() {
    let split = "[split]\ntrain_end = \"2020-02-20\"\nvalidation_end = \"2020-03-01\"\n\
                 test_end = \"2020-03-08\"\n";
    let bench = Bench::with_csv(6, 80, split);
    bench.json(&["train", "--json"]);
    let targets = column(&bench.forecasts(&[]), "target_time");
    assert_eq!(targets.first().unwrap(), "2020-03-01");
    assert_eq!(targets.last().unwrap(), "2020-03-07");
    // Asked for times, it is the times that the forecasts are made.
    let asked = bench.forecasts(&["--from", "2020-02-01", "--to", "2020-02-03"]);
    let made = column(&asked, "trade_date");
    assert_eq!(made.into_iter().collect::<Vec<_>>(), ["2020-02-01", "2020-02-02"]);
}

#[test]
fn a_stride_of_training_leaves_out_no_forecast() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json", "--set", "window.stride=2"]);
    for from in ["2020-03-10", "2020-03-11"] {
        let made = column(&bench.forecasts(&["--from", from]), "trade_date");
        let expected = (69..80).map(crate::bench::day).filter(|day| day.as_str() >= from);
        assert_eq!(made.into_iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
    let made = column(&bench.forecasts(&[]), "trade_date");
    assert_eq!(made.last().unwrap(), "2020-03-20");
    assert_eq!(made.len(), 13);
}

#[test]
fn series_that_were_held_out_are_what_is_forecast() {
    let bench = Bench::with_csv(10, 60, "[split]\nby = \"series\"\n");
    bench.json(&["train", "--json"]);
    assert_eq!(column(&bench.forecasts(&[]), "symbol").len(), 1);
}

#[test]
fn what_belongs_to_the_model_cannot_be_set() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json"]);
    for (set, key) in [
        ("window.lookback=10", "window.lookback"),
        ("window.stride=2", "window.stride"),
        ("target.delay=1", "target.delay"),
        ("target.kind=difference", "target.kind"),
        ("scale.method=robust", "scale.method"),
        ("target.columns=[\"f1\"]", "target.columns"),
        ("train.loss=mae", "train.loss"),
        ("source.features=[\"f1\"]", "source.features"),
    ] {
        check_fails(&bench.run(&["predict", "--set", set]), 2, &[key, "the model's own"]);
    }
    let variable = bench.command(&["predict"]).env("MILLSTREAM_WINDOW__LOOKBACK", "10").output();
    check_fails(&variable.unwrap(), 2, &["MILLSTREAM_WINDOW__LOOKBACK", "window.lookback"]);
    // What it has anyway is no change.
    assert!(bench.run(&["predict", "--set", "window.lookback=5"]).status.success());
    // A table without the kind of source that has one would leave the forecasts those of the file.
    let idle = &["source.table = \"x\" has no effect", "source.kind = \"postgres\""];
    check_fails(&bench.run(&["predict", "--set", "source.table=x"]), 2, idle);
    let variable = bench.command(&["predict"]).env("MILLSTREAM_SOURCE__TABLE", "x").output();
    check_fails(&variable.unwrap(), 2, idle);
    check_fails(&bench.run(&["predict", "--from", "soon"]), 2, &["--from \"soon\"", "2020-"]);
    let nothing = bench.run(&["predict", "--from", "2031-01-01"]);
    check_fails(&nothing, 3, &["nothing to forecast", "2020-03-20"]);
    let backwards = ["predict", "--from", "2020-03-02", "--to", "2020-03-01"];
    check_fails(&bench.run(&backwards), 2, &["--from 2020-03-02 is not before --to 2020-03-01"]);
}

#[test]
fn only_a_file_is_replaced() {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json"]);
    std::fs::create_dir(bench.path("folder")).unwrap();
    check_fails(&bench.run(&["predict", "--output", "folder"]), 2, &["folder is a folder"]);
    let made = std::process::Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap();
    assert!(made.success());
    check_fails(&bench.run(&["predict", "--output", "pipe"]), 2, &["pipe is no regular file"]);
}

#[test]
fn it_says_which_run_it_used_and_why_not_a_newer_one() {
    let bench = Bench::with_csv(6, 80, "");
    let trained = bench.json(&["train", "--json"]);
    let run = trained["run"].as_str().unwrap();
    // A copy under a greater name is not newer.
    let copied = std::process::Command::new("cp")
        .args(["-r", run, "runs/zzz"])
        .current_dir(bench.folder.path())
        .status();
    assert!(copied.unwrap().success());
    let newer = bench.path("runs/2999-01-01_00-00-00");
    std::fs::create_dir(&newer).unwrap();
    std::fs::copy(bench.path(run).join("config.toml"), newer.join("config.toml")).unwrap();
    let output = bench.run(&["predict", "--json"]);
    let said = stderr(&output);
    assert!(said.contains(&format!("run       {run}")), "{said}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let result: serde_json::Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!(result["run"], run);
    let warning = result["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("runs/2999-01-01_00-00-00 is newer"), "{warning}");
}

#[test]
fn a_run_finds_its_rows_from_anywhere() {
    let bench = Bench::with_csv(6, 80, "");
    let trained = bench.json(&["train", "--json"]);
    let run = bench.path(trained["run"].as_str().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let run = run.to_str().unwrap();
    let output = bench.command(&["predict", "--run", run]).current_dir(&elsewhere).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let left = std::fs::read_dir(elsewhere.path()).unwrap().count();
    assert_eq!(left, 0, "the cache is the one of the run");
}
