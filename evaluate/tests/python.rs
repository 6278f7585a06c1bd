//! Every figure beside what pandas, scipy and scikit-learn find of the same tables.
//!
//! `cargo xtask test` makes the Python environment, and says so loudly where it cannot; without it this test
//! compares nothing.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_evaluate::{
    ColumnNames, Direction, EvaluateSettings, Evaluation, Forecasts, History, TableFile,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const TOLERANCE: f64 = 1e-9;

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

/// What differs from what was expected, with where it is.
#[derive(Default)]
struct Differences {
    found: Vec<String>,
    compared: usize,
}

impl Differences {
    fn number(&mut self, place: &str, found: &Value, expected: &Value) {
        self.compared += 1;
        let same = match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => {
                (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0)
            }
            (found, expected) => found == expected,
        };
        if !same {
            self.found.push(format!("{place}: {found}, expected {expected}"));
        }
    }

    /// All that is expected of an object is found in it; so are the numbers in its lists.
    fn object(&mut self, place: &str, found: &Value, expected: &Value) {
        match expected {
            Value::Object(entries) => {
                for (name, expected) in entries {
                    self.object(&format!("{place}.{name}"), &found[name], expected);
                }
            }
            Value::Array(entries) => {
                self.number(&format!("{place}.len"), &list_len(found), &entries.len().into());
                for (at, expected) in entries.iter().enumerate() {
                    self.object(&format!("{place}[{at}]"), &found[at], expected);
                }
            }
            Value::String(_) if found == expected => {}
            Value::String(_) => self.found.push(format!("{place}: {found}, expected {expected}")),
            expected => self.number(place, found, expected),
        }
    }
}

fn list_len(value: &Value) -> Value {
    value.as_array().map_or(Value::Null, |list| list.len().into())
}

fn ask(ask: &Value) -> EvaluateSettings {
    let mut settings = EvaluateSettings::default();
    let by = ask["by"].as_array().unwrap().iter();
    settings.by = by.map(|by| by.as_str().unwrap().parse().unwrap()).collect();
    settings.partial = true;
    settings.direction = match ask["direction"].as_str().unwrap() {
        "sign" => Some(Direction::Sign),
        _ => Some(Direction::Change),
    };
    settings.season = ask["season"].as_u64().and_then(|n| std::num::NonZero::new(n as usize));
    settings
}

fn evaluated(folder: &Path, settings: &EvaluateSettings) -> Evaluation {
    let files = ["forecasts.parquet", "forecasts.csv"].map(|name| folder.join(name));
    let file = files.iter().find(|file| file.exists()).unwrap();
    let file = TableFile::open(file).unwrap();
    let mut forecasts = Forecasts::new(file.names(), &ColumnNames::default()).unwrap();
    let columns = forecasts.columns().clone();
    file.read(columns.names(), |batch| forecasts.add(batch)).unwrap();
    let history = folder.join("history.csv");
    let history = history.exists().then(|| {
        let file = TableFile::open(history).unwrap();
        let mut history = History::of(&forecasts, file.names()).unwrap();
        let names: Vec<String> = history.names().map(str::to_owned).collect();
        file.read(names.iter().map(String::as_str), |batch| history.add(batch)).unwrap();
        history
    });
    forecasts.evaluate(settings, history.as_ref()).unwrap()
}

fn compare(folder: &Path) -> Differences {
    let text = std::fs::read_to_string(folder.join("case.json")).unwrap();
    let case: Value = serde_json::from_str(&text).unwrap();
    let found = evaluated(folder, &ask(&case["ask"]));
    let json = serde_json::to_value(&found).unwrap();
    let expected = &case["expected"];
    let mut differences = Differences::default();
    differences.object("overall", &json["overall"], &expected["overall"]);
    for (by, groups) in expected["by"].as_object().unwrap() {
        let grouping = by.parse().unwrap();
        let found = found.groups(grouping).unwrap();
        let groups = groups.as_object().unwrap();
        assert_eq!(found.len(), groups.len(), "{by} of {}", folder.display());
        for group in found {
            let place = format!("by {by} {}", group.group);
            let json = serde_json::to_value(&group.figures).unwrap();
            differences.object(&place, &json, &groups[&group.group]);
        }
    }
    for naive in &found.naive {
        let name = naive.forecaster.name();
        let json = serde_json::to_value(naive).unwrap();
        differences.object(name, &json, &expected["naive"][name]);
    }
    differences.object("folds", &json["folds"], expected.get("folds").unwrap_or(&Value::Null));
    if let Some(deciles) = expected.get("deciles") {
        differences.object("deciles", &json["deciles"]["overall"], deciles);
    }
    differences
}

#[test]
fn figures_are_those_of_pandas_scipy_and_scikit_learn() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures.py");
    let made = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut cases = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let case = entry.unwrap().path();
        let Differences { found, compared } = compare(&case);
        assert!(compared > 20, "{} compares {compared} figures", case.display());
        assert_eq!(found, [""; 0], "{}", case.display());
        cases += 1;
    }
    assert!(cases >= 9, "{cases} cases");
}
