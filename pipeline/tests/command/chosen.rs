//! `predict --symbols`, `--last`, `--as-of`, `--part`, `--run RUN@CHECKPOINT`: what is asked for comes out
//! and nothing else, or one line says why not.

use crate::bench::{Bench, check_fails, day, stderr};
use std::collections::{BTreeMap, BTreeSet};

type Rows = Vec<BTreeMap<String, String>>;

fn trained() -> Bench {
    let bench = Bench::with_csv(6, 80, "");
    bench.json(&["train", "--json", "--set", "window.horizon=2"]);
    bench
}

fn column(rows: &Rows, name: &str) -> BTreeSet<String> {
    rows.iter().map(|row| row[name].clone()).collect()
}

fn warnings(bench: &Bench, args: &[&str]) -> String {
    bench.json(&[&["predict", "--json"], args].concat())["warnings"].to_string()
}

#[test]
fn only_the_series_that_are_asked_for_come_out() {
    let bench = trained();
    let all = bench.forecasts(&[]);
    let two = bench.forecasts(&["--symbols", "s04, s01"]);
    let expected: Rows =
        all.into_iter().filter(|row| ["s01", "s04"].contains(&row["symbol"].as_str())).collect();
    assert_eq!(two, expected);
    // The names of others for it.
    assert_eq!(bench.forecasts(&["--stocks", "s01", "--stocks", "s04"]), expected);
    let renamed = bench.run(&["batch-predict", "--json", "--stocks", "s01,s04", "--quiet"]);
    assert!(renamed.status.success(), "{}", stderr(&renamed));

    let said = warnings(&bench, &["--symbols", "s01,s0l,MSFT"]);
    assert!(said.contains("no forecast of s0l (did you mean"), "{said}");
    assert!(said.contains("MSFT: the data has no such series"), "{said}");
    let none = bench.run(&["predict", "--symbols", "MSFT"]);
    check_fails(&none, 3, &["none of the series MSFT is in the data; it has s00, s01"]);
}

#[test]
fn those_of_a_cross_section_are_compared_with_all() {
    let bench = Bench::with_csv(8, 80, "[scale]\ncross_section = \"rank\"\n");
    bench.json(&["train", "--json"]);
    let mut all = bench.forecasts(&[]);
    all.retain(|row| ["s02", "s05"].contains(&row["symbol"].as_str()));
    assert_eq!(bench.forecasts(&["--symbols", "s02,s05"]), all);
    let loaded = ["--set", "source.symbols=[\"s02\", \"s05\"]", "--symbols"];
    all.retain(|row| row["symbol"] == "s05");
    assert_eq!(bench.forecasts(&[&loaded[..], &["s05"]].concat()), all);
    let none = bench.run(&[&["predict"], &loaded[..], &["s06"]].concat());
    check_fails(&none, 3, &["none of the series s06 is among source.symbols"]);
}

#[test]
fn the_last_steps_of_each_series() {
    let bench = trained();
    let rows = bench.forecasts(&["--last", "3"]);
    assert_eq!(rows.len(), 6 * 3 * 2);
    let days: BTreeSet<String> = (77..80).map(day).collect();
    assert_eq!(column(&rows, "trade_date"), days);
    assert_eq!(bench.forecasts(&["--lookback", "3"]), rows);
    // They are as in a longer list.
    let all = bench.forecasts(&["--from", "2020-01-01"]);
    let of_days = all.into_iter().filter(|row| days.contains(&row["trade_date"]));
    assert_eq!(of_days.collect::<Rows>(), rows);
    for other in [&["--from", "2020-03-01"][..], &["--to", "2020-03-01"], &["--part", "test"]] {
        let output = bench.run(&[&["predict", "--last", "3"], other].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
    assert_eq!(bench.run(&["predict", "--last", "0"]).status.code(), Some(2));
}

#[test]
fn as_of_a_day_it_is_as_if_the_table_ended_there() {
    let bench = trained();
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let border = day(70);
    let early = table.lines().filter(|line| line.split(',').nth(1).unwrap() <= border.as_str());
    let header = table.lines().next().unwrap();
    let early: Vec<&str> = std::iter::once(header).chain(early.filter(|l| *l != header)).collect();
    std::fs::write(bench.path("early.csv"), early.join("\n")).unwrap();
    for chosen in [&["--last", "4"][..], &["--part", "new"], &["--from", "2020-02-01"]] {
        let as_of = bench.forecasts(&[chosen, &["--as-of", &border]].concat());
        let then = bench.forecasts(&[chosen, &["--set", "source.path=early.csv"]].concat());
        assert_eq!(as_of, then, "{chosen:?}");
        let last = as_of.iter().filter(|row| row["trade_date"] == border);
        let nothing = ["target_time", "close"].map(|name| (name, ""));
        for row in last {
            assert_eq!(nothing.map(|(name, _)| (name, row[name].as_str())), nothing);
        }
    }
    let all = bench.forecasts(&["--as-of", &border]);
    assert_eq!(column(&all, "trade_date").len(), 71 - 4, "from the fifth day on");
    check_fails(
        &bench.run(&["predict", "--as-of", "soon"]),
        2,
        &["--as-of \"soon\" is not a time"],
    );
    let never = bench.run(&["predict", "--as-of", "2019-01-01"]);
    let expected = ["nothing to forecast", "as of 2019-01-01", "the data goes from 2020-01-01"];
    check_fails(&never, 3, &expected);
}

#[test]
fn a_part_of_the_run() {
    let bench = trained();
    assert_eq!(bench.forecasts(&["--part", "test"]), bench.forecasts(&[]));
    let part = |name: &str| bench.forecasts(&["--part", name]);
    let times = |rows: &Rows| {
        let times = column(rows, "target_time");
        [times.first().unwrap().clone(), times.last().unwrap().clone()]
    };
    // 56 days to learn from, 12 to validate, 12 to test.
    assert_eq!(times(&part("train")), [day(5), day(55)]);
    assert_eq!(times(&part("validation")), [day(56), day(67)]);
    let new = part("new");
    assert_eq!(column(&new, "trade_date"), BTreeSet::from([day(78), day(79)]));
    assert!(new.iter().any(|row| row["close"].is_empty()));
    // More rows have come since: parts stay where they were.
    bench.write_csv("more.csv", 6, 120, day);
    let more = bench.forecasts(&["--part", "validation", "--set", "source.path=more.csv"]);
    assert_eq!(times(&more), [day(56), day(67)]);
}

#[test]
fn a_checkpoint_is_named_behind_its_run() {
    let bench = Bench::with_csv(6, 80, "");
    let trained = bench.json(&["train", "--json", "--set", "train.epochs=3"]);
    let run = trained["run"].as_str().unwrap();
    let at = |checkpoint: &str| bench.forecasts(&["--run", &format!("{run}@{checkpoint}")]);
    assert_eq!(at("best"), bench.forecasts(&["--run", run]));
    let step = |name: &str| -> u64 {
        let state = bench.path(run).join("checkpoints").join(name).join("state.json");
        let state: serde_json::Value =
            serde_json::from_slice(&std::fs::read(state).unwrap()).unwrap();
        state["step"].as_u64().unwrap()
    };
    assert_eq!(at(&step("last").to_string()), at("last"));
    let output = bench.run(&["predict", "--run", &format!("{run}@7777")]);
    let last = format!("last (step {})", step("last"));
    check_fails(&output, 2, &["has no checkpoint 7777; it has best (step", &last]);
    let output = bench.run(&["predict", "--run", &format!("{run}@bst")]);
    check_fails(&output, 2, &["\"bst\" is no checkpoint", "@best, @last or the number of a step"]);
}

#[test]
fn short_series_and_old_rows_are_said() {
    let bench = trained();
    let mut table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    for series in 0..7 {
        table += &format!("new{series},2020-03-19,1.0,0.5\nnew{series},2020-03-20,1.0,0.5\n");
    }
    std::fs::write(bench.path("new.csv"), table).unwrap();
    let set = ["--set", "source.path=new.csv"];
    let said = warnings(&bench, &[&set[..], &["--last", "1"]].concat());
    let short = "left out: 7 series too short (new0, new1, new2, new3, new4 and 2 more)";
    assert!(said.contains(short), "{said}");
    assert!(said.contains("the newest row is of 2020-03-20, ") && said.contains("a step is 1 day"));
    let said = warnings(&bench, &[&set[..], &["--last", "1", "--as-of", "2020-03-20"]].concat());
    assert!(!said.contains("the newest row is of"), "{said}");
    let alone = bench.run(&[&["predict", "--symbols", "new3"], &set[..]].concat());
    let expected = ["nothing to forecast", "no window of 5 rows", "1 series are too short"];
    check_fails(&alone, 3, &expected);
}

#[test]
fn another_table_in_other_units_is_said() {
    let bench = trained();
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let cents = |line: &str| -> String {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        cells[2] = cells[2].parse::<f64>().map_or(cells[2].clone(), |x| (x * 100.0).to_string());
        cells.join(",")
    };
    let table: Vec<String> = table.lines().map(cents).collect();
    std::fs::write(bench.path("cents.csv"), table.join("\n")).unwrap();
    let said = warnings(&bench, &["--set", "source.path=cents.csv"]);
    assert!(said.contains("far outside what the model learned from"), "{said}");
    assert!(said.contains(": close in ") && !said.contains("f1 in"), "{said}");
    assert_eq!(warnings(&bench, &[]), "[]");
}

#[test]
fn a_few_rows_are_shown_unless_nobody_looks() {
    let bench = trained();
    let output = bench.run(&["predict", "--symbols", "s01,s02"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("symbol  trade_date  step  target_time  close_forecast"),
        "{shown}"
    );
    assert!(
        lines[1].starts_with("s01     2020-") && lines[8].starts_with("s02     2020-"),
        "{shown}"
    );
    assert!(lines[6].starts_with("… ") && lines.len() == 10, "{shown}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    for silent in ["--json", "--quiet"] {
        let output = bench.run(&["predict", silent]);
        assert!(!String::from_utf8_lossy(&output.stdout).contains("trade_date"), "{silent}");
    }
}

#[test]
fn intervals_hold_as_many_outcomes_as_they_say() {
    let bench = Bench::with_csv(20, 200, "[source]\nfeatures = [\"f1\"]\n");
    // Two sections of one name are none of TOML; the settings are put together.
    let file = std::fs::read_to_string(bench.path("pipeline.toml")).unwrap();
    let file = file.replace("[source]\nfeatures = [\"f1\"]\n", "");
    let file =
        file.replace("path = \"prices.csv\"\n", "path = \"prices.csv\"\nfeatures = [\"f1\"]\n");
    std::fs::write(bench.path("pipeline.toml"), &file).unwrap();
    bench.json(&["train", "--json", "--set", "target.kind=return", "--set", "window.horizon=2"]);
    let rows = bench.forecasts(&["--intervals", "0.9,0.5"]);
    let number = |row: &BTreeMap<String, String>, name: &str| row[name].parse::<f32>().ok();
    let mut inside = [0.0; 2];
    let mut known = 0.0;
    for row in &rows {
        let forecast = number(row, "close_return_forecast").unwrap();
        let ends = ["0.9", "0.5"].map(|level| {
            ["lower", "upper"]
                .map(|end| number(row, &format!("close_return_{end}_{level}")).unwrap())
        });
        assert!(
            ends.iter().all(|[lower, upper]| *lower < forecast && forecast < *upper),
            "{row:?}"
        );
        assert!(ends[0][0] < ends[1][0] && ends[1][1] < ends[0][1], "{row:?}");
        let Some(came) = number(row, "close_return") else { continue };
        known += 1.0;
        for (inside, [lower, upper]) in inside.iter_mut().zip(ends) {
            *inside += f64::from(u8::from(lower <= came && came <= upper));
        }
    }
    // What comes is like what was: a walk whose steps are drawn alike.
    let [nine, five] = inside.map(|inside| inside / known);
    assert!((0.85..0.95).contains(&nine) && (0.42..0.58).contains(&five), "{nine} {five}");

    // A series alone has the same intervals, and outcomes of the test have no part in any.
    let alone = bench.forecasts(&["--intervals", "0.9,0.5", "--symbols", "s07"]);
    assert!(rows.iter().filter(|row| row["symbol"] == "s07").eq(&alone));
    let table = std::fs::read_to_string(bench.path("prices.csv")).unwrap();
    let others = |line: &str| -> String {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let after = cells[1].as_str() >= day(170).as_str();
        cells[2] = if after { "7".into() } else { cells[2].clone() };
        if line.starts_with("symbol") { line.to_owned() } else { cells.join(",") }
    };
    let table: Vec<String> = table.lines().map(others).collect();
    std::fs::write(bench.path("others.csv"), table.join("\n")).unwrap();
    let others = bench.forecasts(&["--intervals", "0.9,0.5", "--set", "source.path=others.csv"]);
    assert_ne!(others, rows);
    let without = |rows: &Rows| {
        let mut rows = rows.clone();
        rows.iter_mut().for_each(|row| drop(row.remove("close_return")));
        rows
    };
    assert_eq!(without(&others), without(&rows));
}

#[test]
fn intervals_that_cannot_be_are_refused() {
    let bench = trained();
    let refused = |args: &[&str], code: i32, expected: &[&str]| {
        check_fails(&bench.run(&[&["predict"], args].concat()), code, expected);
        assert!(!bench.files().contains(&"out.csv".to_owned()));
    };
    refused(&["--intervals", "90", "--output", "out.csv"], 2, &["between 0 and 1"]);
    refused(&["--intervals", "0.9,0.9"], 2, &["two columns named \"close_lower_0.9\""]);
    let few = ["--intervals", "0.9999", "--output", "out.csv"];
    refused(&few, 3, &["needs 9999 validation windows", "close, step 1 has 66"]);
    let bench = Bench::with_csv(6, 80, "");
    let direction = ["--set", "target.kind=direction", "--set", "train.loss=bce"];
    bench.json(&[&["train", "--json"], &direction[..]].concat());
    let output = bench.run(&["predict", "--intervals", "0.9"]);
    check_fails(&output, 2, &["no intervals: its probabilities have no units"]);
}
