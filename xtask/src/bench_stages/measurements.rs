//! Criterion's result files, read and paired: each case's own code with its floor.
//!
//! The convention: a group is `<stage>/<case>`, and in it `ours` is measured beside
//! `floor: <what the floor is>`, with a throughput in bytes or elements. Criterion's HTML, its
//! statistics and its history are left to criterion.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::report::Case;
use crate::error::Error;

/// One function of one group.
#[derive(Debug, Clone)]
pub(super) struct Measurement {
    id: BenchmarkId,
    nanoseconds: f64,
}

/// Criterion's benchmark.json.
#[derive(Debug, Clone, Deserialize)]
struct BenchmarkId {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
    throughput: Option<Throughput>,
}

#[derive(Debug, Clone, Deserialize)]
enum Throughput {
    Bits(u64),
    Bytes(u64),
    BytesDecimal(u64),
    Elements(u64),
    ElementsAndBytes { elements: u64 },
}

/// Criterion's estimates.json.
#[derive(Debug, Deserialize)]
struct Estimates {
    mean: Estimate,
    slope: Option<Estimate>,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    point_estimate: f64,
}

impl Throughput {
    fn amount_and_unit(&self) -> (u64, &'static str) {
        match *self {
            Self::Bits(bits) => (bits / 8, "bytes/s"),
            Self::Bytes(bytes) | Self::BytesDecimal(bytes) => (bytes, "bytes/s"),
            Self::Elements(items) | Self::ElementsAndBytes { elements: items } => {
                (items, "items/s")
            }
        }
    }
}

/// Reads every result below `folder` that was written after `start`.
///
/// # Errors
/// When a folder or a result file cannot be read.
pub(super) fn read_since(folder: &Path, start: SystemTime) -> Result<Vec<Measurement>, Error> {
    let mut found = Vec::new();
    if folder.is_dir() {
        visit(folder, start, &mut found)?;
    }
    Ok(found)
}

fn visit(folder: &Path, start: SystemTime, found: &mut Vec<Measurement>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::file("list", folder))? {
        let path = entry.map_err(Error::file("list", folder))?.path();
        if !path.is_dir() {
            continue;
        }
        let estimates = path.join("estimates.json");
        if path.ends_with("new") && estimates.is_file() {
            let written = estimates.metadata().and_then(|file| file.modified());
            if written.map_err(Error::file("read", &estimates))? >= start {
                let Estimates { mean, slope } = read_json(&estimates)?;
                found.push(Measurement {
                    id: read_json(&path.join("benchmark.json"))?,
                    // The slope where there is one, so that the figures are those criterion prints.
                    nanoseconds: slope.unwrap_or(mean).point_estimate,
                });
            }
        } else {
            visit(&path, start, found)?;
        }
    }
    Ok(())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    serde_json::from_str(&text)
        .map_err(|source| Error::Json { what: path.display().to_string(), source })
}

/// Pairs `ours` and the floor of every group, in the order of their names.
///
/// # Errors
/// [`Error::BenchmarkGroup`] for a group that breaks the convention.
pub(super) fn pair(measurements: Vec<Measurement>) -> Result<Vec<Case>, Error> {
    let mut groups: BTreeMap<(String, Option<String>), Vec<Measurement>> = BTreeMap::new();
    for measurement in measurements {
        let key = (measurement.id.group_id.clone(), measurement.id.value_str.clone());
        groups.entry(key).or_default().push(measurement);
    }
    groups.iter().map(|((group, value), members)| case(group, value.as_deref(), members)).collect()
}

fn case(group: &str, value: Option<&str>, members: &[Measurement]) -> Result<Case, Error> {
    let broken = |problem| Error::BenchmarkGroup { group: group.to_owned(), problem };
    let (stage, name) =
        group.split_once('/').ok_or_else(|| broken("name the group <stage>/<case>"))?;
    let function = |measurement: &Measurement| measurement.id.function_id.clone();

    let ours = members
        .iter()
        .find(|measurement| function(measurement).as_deref() == Some("ours"))
        .ok_or_else(|| broken("has no function `ours`"))?;
    let mut floors = members.iter().filter_map(|measurement| {
        let name = function(measurement)?.strip_prefix("floor:")?.trim().to_owned();
        Some((name, measurement))
    });
    let (floor_name, floor) =
        floors.next().ok_or_else(|| broken("has no function `floor: <name>`"))?;
    if floors.next().is_some() {
        return Err(broken("has more than one floor; put the other in a group of its own"));
    }

    let rate = |measurement: &Measurement| {
        let (amount, unit) = measurement.id.throughput.as_ref()?.amount_and_unit();
        Some((amount as f64 / (measurement.nanoseconds * 1e-9), unit))
    };
    let no_throughput = || broken("set a throughput of bytes or elements on the group");
    let (value_per_s, unit) = rate(ours).ok_or_else(no_throughput)?;
    let (floor_per_s, floor_unit) = rate(floor).ok_or_else(no_throughput)?;
    if unit != floor_unit {
        return Err(broken("`ours` and the floor have different kinds of throughput"));
    }
    Ok(Case {
        stage: stage.to_owned(),
        case: value.map_or_else(|| name.to_owned(), |value| format!("{name}/{value}")),
        unit: unit.to_owned(),
        value: value_per_s,
        floor: floor_per_s,
        value_best: None,
        floor_best: None,
        floor_name,
        ratio: value_per_s / floor_per_s,
        cpu_s: None,
        peak_rss_mb: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn measured(group: &str, function: &str, bytes: u64, nanoseconds: f64) -> Measurement {
        let id = BenchmarkId {
            group_id: group.into(),
            function_id: Some(function.into()),
            value_str: None,
            throughput: Some(Throughput::Bytes(bytes)),
        };
        Measurement { id, nanoseconds }
    }

    #[test]
    fn ours_is_paired_with_its_floor() {
        let cases = pair(vec![
            measured("normalize/fill", "floor: memcpy", 1000, 500.0),
            measured("normalize/fill", "ours", 1000, 1000.0),
        ])
        .unwrap();
        let [case] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((case.stage.as_str(), case.case.as_str()), ("normalize", "fill"));
        assert_eq!((case.floor_name.as_str(), case.unit.as_str()), ("memcpy", "bytes/s"));
        assert!((case.value - 1e9).abs() < 1.0 && (case.floor - 2e9).abs() < 1.0);
        assert!((case.ratio - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_group_that_breaks_the_convention_is_named() {
        let check = |measurements: Vec<Measurement>, expected: &str| {
            let error = pair(measurements).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let floor = |group: &str| measured(group, "floor: memcpy", 1, 1.0);
        check(vec![floor("fill")], "`fill`: name the group <stage>/<case>");
        check(vec![floor("a/b")], "`a/b`: has no function `ours`");
        check(vec![measured("a/b", "ours", 1, 1.0)], "has no function `floor: <name>`");
        let second = measured("a/b", "floor: other", 1, 1.0);
        check(vec![measured("a/b", "ours", 1, 1.0), floor("a/b"), second], "more than one floor");
        let mut bare = measured("a/b", "ours", 1, 1.0);
        bare.id.throughput = None;
        check(vec![bare, floor("a/b")], "set a throughput");
    }

    #[test]
    fn only_results_of_this_run_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("stage_link/ours/new");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(temp.path().join("report")).unwrap();
        let id = r#"{"group_id":"stage/link","function_id":"ours","value_str":"depth 3",
            "throughput":{"Elements":10},"full_id":"stage/link/ours"}"#;
        fs::write(folder.join("benchmark.json"), id).unwrap();
        let estimates = r#"{"mean":{"point_estimate":20.0},"slope":null}"#;
        fs::write(folder.join("estimates.json"), estimates).unwrap();

        let minute = Duration::from_secs(60);
        let read = |start| read_since(temp.path(), start).unwrap();
        assert!(read(SystemTime::now() + minute).is_empty());
        let found = read(SystemTime::now() - minute);
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert!((only.nanoseconds - 20.0).abs() < 1e-9);
        assert_eq!(only.id.value_str.as_deref(), Some("depth 3"));
    }
}
