//! `millstream evaluate`: the figures that training printed, from the file of forecasts alone; and what it
//! refuses.

use crate::bench::{Bench, SMALL, check_fails, stderr};
use serde_json::Value;

/// What training calls a figure in user units, and what evaluate calls it.
const SAME: [(&str, &str); 10] = [
    ("mse_raw", "mse"),
    ("mae_raw", "mae"),
    ("directional_accuracy", "directional_accuracy"),
    ("mcc", "mcc"),
    ("ic", "ic"),
    ("icir", "icir"),
    ("rank_ic", "rank_ic"),
    ("rank_icir", "rank_icir"),
    ("pinball_raw", "pinball"),
    ("coverage", "coverage"),
];

fn check_same(what: &str, printed: &Value, found: &Value) {
    assert!(printed.is_object() && found.is_object(), "{what}: {printed}, {found}");
    for (theirs, ours) in SAME {
        let (expected, found) = (printed[theirs].as_f64(), found[ours].as_f64());
        let same = match (expected, found) {
            (Some(expected), Some(found)) => {
                (expected - found).abs() <= 1e-6 * expected.abs().max(1.0)
            }
            (expected, found) => expected == found,
        };
        assert!(same, "{what}, {ours}: training said {expected:?}, evaluate {found:?}");
    }
}

/// Trains and forecasts by these settings; the figures that were printed, and those of the file.
fn both(settings: &[&str], flags: &[&str]) -> (Value, Value) {
    let bench = Bench::with_csv(9, 110, "");
    let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let trained =
        bench.json(&[&["pipeline", "--json", "--set", "train.epochs=2"], &set[..]].concat());
    let run = trained["run"].as_str().unwrap();
    let found = bench.json(&[&["evaluate", run, "--json"], flags].concat());
    (trained, found)
}

fn check_steps(printed: &Value, found: &Value) {
    let steps =
        &found["by"].as_array().unwrap().iter().find(|by| by["by"] == "step").unwrap()["groups"];
    let printed = printed["test"]["by_step"].as_array().unwrap();
    assert_eq!(steps.as_array().unwrap().len(), printed.len());
    for (step, printed) in steps.as_array().unwrap().iter().zip(printed) {
        check_same(&format!("step {}", step["group"]), printed, step);
    }
}

#[test]
fn returns_have_the_figures_that_training_printed() {
    let (printed, found) =
        both(&["target.kind=return", "window.horizon=2", "target.season=3"], &["--season", "3"]);
    check_same("overall", &printed["test"], &found["overall"]);
    check_steps(&printed, &found);
    check_same("no change", &printed["baseline"]["last"], &found["naive"][0]["figures"]);
}

/// What a value last was before the first forecast is in the table that it comes from.
#[test]
fn values_have_them_with_their_history() {
    let flags = ["--history", "prices.csv", "--season", "5"];
    let settings = ["window.horizon=3", "target.season=5"];
    let (printed, found) = both(&settings, &flags);
    check_same("overall", &printed["test"], &found["overall"]);
    check_steps(&printed, &found);
    check_same("the last", &printed["baseline"]["last"], &found["naive"][0]["figures"]);
    check_same("a season", &printed["baseline"]["season"], &found["naive"][2]["figures"]);
    assert!(found["overall"]["mase"].as_f64().unwrap() > 0.0);
}

/// Without, all but directions, which are then of the forecasts whose last value the table tells, and said.
#[test]
fn values_alone_have_errors_and_correlations() {
    let (printed, found) = both(&["window.horizon=2"], &[]);
    // Of each series the last row has nothing to come, and that before only half of it.
    assert_eq!((&found["without_outcome"], &found["unfinished"]), (&27.into(), &9.into()));
    let mut test = printed["test"].clone();
    for name in ["directional_accuracy", "mcc"] {
        assert_ne!(found["overall"][name], Value::Null);
        test[name] = found["overall"][name].clone();
    }
    check_same("overall", &test, &found["overall"]);
    let notes = found["notes"].to_string();
    assert!(notes.contains("which the table does not tell for 18 forecasts; --history"), "{notes}");
    assert_eq!(found["naive"][0]["unknown"], 18);
}

#[test]
fn quantiles_have_them() {
    let settings =
        ["train.loss=quantile", "train.quantiles=[0.05, 0.25, 0.5, 0.9]", "target.kind=return"];
    let (printed, found) = both(&settings, &[]);
    check_same("overall", &printed["test"], &found["overall"]);
    for (printed, found) in printed["test"]["quantiles"]
        .as_array()
        .unwrap()
        .iter()
        .zip(found["overall"]["quantiles"].as_array().unwrap())
    {
        assert_eq!(printed["quantile"], found["quantile"]);
        check_same("a quantile", printed, found);
    }
}

#[test]
fn scores_have_correlations_alone() {
    let settings = ["target.kind=return", "train.loss=ic", "window.order=by_time"];
    let (printed, found) = both(&settings, &[]);
    check_same("overall", &printed["test"], &found["overall"]);
    assert_eq!(found["overall"]["mse"], Value::Null);
    assert_ne!(found["overall"]["ic"], Value::Null);
}

/// A file of another program: returns of twelve series on forty days.
fn peers(bench: &Bench) {
    let mut text = "date,ticker,prediction,actual\n".to_owned();
    for day in 1..=40 {
        for series in 0..12 {
            let dice =
                |salt: usize| ((day * 7919 + series * 104_729 + salt) * 2_654_435_761) % 1000;
            let (said, came) = (dice(1) as f64 / 500.0 - 1.0, dice(2) as f64 / 500.0 - 1.0);
            text += &format!("{},t{series},{said},{came}\n", crate::bench::day(day));
        }
    }
    std::fs::write(bench.path("peer.csv"), text).unwrap();
}

#[test]
fn a_person_sees_tables_that_fit_his_screen() {
    let bench = Bench::new(SMALL);
    peers(&bench);
    let by = "step,target,series,day,month,decile";
    let output = bench.run(&[
        "evaluate",
        "peer.csv",
        "--direction",
        "sign",
        "--by",
        by,
        "--output",
        "all.csv",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for expected in [
        "480 forecasts of 12 series at 40 times",
        "mse",
        "rank icir",
        "the last value",
        "by series",
        "… and 28 more, all with --json or --output FILE.csv",
        "by decile",
        "series ticker, time date, all of step 1; forecast prediction of actual",
        "direction of actual: its sign",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let table = std::fs::read_to_string(bench.path("all.csv")).unwrap();
    assert!(table.starts_with("forecaster,by,group,figure,value\n"), "{table}");
    let ics = table.lines().filter(|line| line.starts_with("model,day,") && line.contains(",ic,"));
    assert_eq!(ics.count(), 40, "one for each day");
    assert!(table.contains("\nlast,overall,,mse,"), "{table}");
}

/// What a backtest with intervals leaves.
#[test]
fn folds_and_intervals_are_shown() {
    let bench = Bench::new(SMALL);
    let mut text =
        "symbol,day,step,target_time,fold,y_forecast,y_lower_0.9,y_upper_0.9,y\n".to_owned();
    for day in 0..12 {
        for series in 0..4 {
            let (fold, came) = (day / 4 + 1, (day * 5 + series * 3) % 7);
            text += &format!("s{series},{day},1,{},{fold},{series},1,5,{came}\n", day + 1);
        }
    }
    std::fs::write(bench.path("f.csv"), text).unwrap();
    let output = bench.run(&["evaluate", "f.csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["interval 0.9: ", "4.0000 wide", "by fold", "\nmean of folds ", "\n± std "] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let found = bench.json(&["evaluate", "f.csv", "--json"]);
    assert_eq!((&found["folds"]["folds"], &found["rows"]), (&3.into(), &48.into()));
    let groups = found["by"].as_array().unwrap().iter().find(|by| by["by"] == "fold").unwrap();
    let mses = groups["groups"].as_array().unwrap().iter();
    let mean = mses.map(|fold| fold["mse"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((found["folds"]["mean"]["mse"].as_f64().unwrap() - mean).abs() < 1e-12);
}

/// Text of 32 bits is read with 64: all numbers are nearly the same, and all else is.
fn check_alike(found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()));
            // A ratio to a small deviation sees far more of the rounding than what it is made of.
            let of_values = expected.iter().filter(|(name, _)| !name.ends_with("icir"));
            of_values.for_each(|(name, expected)| check_alike(&found[name], expected));
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).for_each(|(found, expected)| check_alike(found, expected));
        }
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{found}, {expected}"
            );
        }
        (found, expected) => assert_eq!(found, expected),
    }
}

#[test]
fn every_format_says_the_same() {
    let bench = Bench::with_csv(5, 60, "");
    bench.json(&["train", "--json"]);
    let figures = ["f.csv", "f.parquet", "f.jsonl"].map(|file| {
        bench.json(&["predict", "--json", "--output", file]);
        bench.json(&["evaluate", file, "--json"])
    });
    check_alike(&figures[0], &figures[1]);
    check_alike(&figures[0], &figures[2]);
}

#[test]
fn what_cannot_be_judged_is_refused_in_a_line() {
    let bench = Bench::new(SMALL);
    let check = |text: &str, flags: &[&str], code: i32, expected: &str| {
        std::fs::write(bench.path("f.csv"), text).unwrap();
        let output = bench.run(&[&["evaluate", "f.csv"], flags].concat());
        check_fails(&output, code, &[expected]);
        assert_eq!(output.stdout, b"", "{text}");
    };
    let good = "date,symbol,pred,y\n1,a,1,2\n2,a,1,2\n";
    check("", &[], 3, "f.csv is not a CSV table");
    check("date,symbol,pred,y\n", &[], 3, "none of the 0 rows has an outcome in y");
    check("date,symbol,pred,y\n1,a,1,\n", &[], 3, "none of the 1 rows has an outcome");
    check(
        "date,symbol,pred,y\n1,a,1,2\n1,a,1,2\n",
        &[],
        3,
        "rows 1 and 2 both forecast \"a\" at 1",
    );
    check("date,symbol,pred,y\n1,a,,2\n", &[], 3, "row 1: column \"pred\" holds NaN");
    check("date,symbol,pred,y\n1,a,x,2\n", &[], 3, "row 1: column \"pred\" holds \"x\"");
    check("date,symbol,pred,y\nsoon,a,1,2\n", &[], 3, "row 1 holds \"soon\"");
    check("date,symbol,yhat,pred,y\n1,a,1,1,2\n", &[], 2, "name one with --forecast");
    check("date,symbol,y\n1,a,2\n", &[], 2, "name it with --forecast");
    check(
        good,
        &["--actual", "yy"],
        2,
        "there is no column \"yy\" for --actual; did you mean \"y\"?",
    );
    check(good, &["--by", "month"], 2, "plain numbers have no months");
    check(good, &["--by", "fold"], 2, "no column of folds");
    check(good, &["--output", "f.csv"], 2, "f.csv would be written over");
    check(
        good,
        &["--output", "f.txt"],
        2,
        "no format that is written; expected a file that ends in .parquet, .csv or .jsonl",
    );
    check(
        "date,target_time,symbol,pred,y\n2,1,a,1,2\n",
        &[],
        3,
        "row 1: column \"target_time\" holds 1",
    );
    check(good, &["--history", "gone.csv"], 2, "the history: cannot read gone.csv");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let bench = Bench::new(SMALL);
    peers(&bench);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = bench.command(&["evaluate", "peer.csv"]).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_is_not_there_is_refused_in_a_line() {
    let bench = Bench::new(SMALL);
    check_fails(&bench.run(&["evaluate", "gone.parquet"]), 2, &["cannot read gone.parquet"]);
    std::fs::create_dir(bench.path("run")).unwrap();
    let expected = "run has no forecasts; millstream predict --run run makes them";
    check_fails(&bench.run(&["evaluate", "run"]), 2, &[expected]);
    let output = bench.run(&["evaluate", "gone.csv", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["kind"], &json["exit_code"]), (&"settings".into(), &2.into()));
    let output = bench.run(&["evaluate", "f.csv", "--by", "week"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Nothing is left where a folder is not there.
#[test]
fn figures_are_written_whole_or_not_at_all() {
    let bench = Bench::new(SMALL);
    peers(&bench);
    let output = bench.run(&["evaluate", "peer.csv", "--output", "nowhere/all.csv"]);
    check_fails(&output, 2, &["cannot write nowhere/all.csv"]);
    let files = bench.files();
    assert_eq!(files, ["peer.csv", "pipeline.toml"]);
}
