//! The report: a JSON file for programs, a table for people, and whether a case fell behind.
//!
//! A ratio is what is compared, never a throughput: the floor was measured in the same run on the
//! same machine, so most of the machine cancels out.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use crate::error::Error;

/// Grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// All cases of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    schema: u32,
    commit: Option<String>,
    machine: Machine,
    cases: Vec<Case>,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

/// One measured case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) stage: String,
    pub(crate) case: String,
    /// "bytes/s", "items/s", "rows/s", "rows/cpu-s", or "bytes" where less is better.
    pub(crate) unit: String,
    pub(crate) value: f64,
    pub(crate) floor: f64,
    /// The best of several rounds, where `value` and `floor` are medians.
    #[serde(default)]
    pub(crate) value_best: Option<f64>,
    #[serde(default)]
    pub(crate) floor_best: Option<f64>,
    pub(crate) floor_name: String,
    /// 1.0 at the floor; lower is worse.
    pub(crate) ratio: f64,
    pub(crate) cpu_s: Option<f64>,
    pub(crate) peak_rss_mb: Option<f64>,
}

/// A case that could not be measured here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) stage: String,
    pub(crate) case: String,
    pub(crate) reason: String,
}

/// What a report compares with, which decides how its table is worded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Against {
    Floors,
    Peers,
}

impl Against {
    /// The name of the JSON file, the heading of the other column, and what a ratio means.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Floors => ["stages", "floor", "1.00 is the floor, lower is worse"],
            Self::Peers => ["peers", "peer", "above 1.00 ours takes less than the peer"],
        }
    }
}

impl Report {
    pub(crate) fn new(
        commit: Option<String>,
        machine: Machine,
        cases: Vec<Case>,
        skipped: Vec<Skipped>,
    ) -> Self {
        Self { schema: SCHEMA, commit, machine, cases, skipped }
    }

    /// Writes the report to a folder, for programs and for people, and prints its table.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn publish(&self, folder: &Path, against: Against) -> Result<(), Error> {
        let [name, ..] = against.words();
        let json = folder.join(format!("{name}.json"));
        fs::write(&json, self.json()).map_err(Error::file("write", &json))?;
        let markdown = folder.join(format!("{name}.md"));
        let table = self.markdown(against);
        fs::write(&markdown, &table).map_err(Error::file("write", &markdown))?;
        print!("{table}");
        eprintln!("written to {} and {name}.md beside it", json.display());
        Ok(())
    }

    /// Reads a stages.json.
    ///
    /// # Errors
    /// When the file cannot be read, or has another schema.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let bad = |source| Error::Json { what: path.display().to_string(), source };
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let report: Self = serde_json::from_str(&text).map_err(bad)?;
        if report.schema != SCHEMA {
            let (found, expected) = (report.schema, SCHEMA);
            return Err(Error::ReportSchema { path: path.to_path_buf(), found, expected });
        }
        Ok(report)
    }

    fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a report has only string keys and finite numbers or null") + "\n"
    }

    fn markdown(&self, against: Against) -> String {
        let [_, other, meaning] = against.words();
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let Machine { cpu, cores, memory_mb } = &self.machine;
        let mut text = format!(
            "Commit {commit}, {cpu}, {cores} cores, {memory_mb} MB. Ratio: {meaning}.\n\n\
             | stage | case | ours | {other} | {other} is | ratio |\n|---|---|---:|---:|---|---:|\n"
        );
        for case in &self.cases {
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.2} |",
                case.stage,
                case.case,
                rate(case.value, &case.unit),
                rate(case.floor, &case.unit),
                case.floor_name,
                case.ratio
            )
            .expect("a String takes every write");
        }
        for Skipped { stage, case, reason } in &self.skipped {
            let reason = reason.replace('|', r"\|");
            writeln!(text, "| {stage} | {case} | skipped | | {reason} | |")
                .expect("a String takes every write");
        }
        text
    }

    /// The cases whose ratio is more than `tolerance` (a fraction) below that in `old`, each in a
    /// sentence. Cases that only one of the two has are not compared.
    pub(crate) fn slower_than(&self, old: &Self, tolerance: f64) -> Vec<String> {
        let mut slower = Vec::new();
        for case in &self.cases {
            let same = |other: &&Case| other.stage == case.stage && other.case == case.case;
            let Some(before) = old.cases.iter().find(same) else { continue };
            if case.ratio < before.ratio * (1.0 - tolerance) {
                slower.push(format!(
                    "{}/{}: ratio {:.3}, was {:.3} ({:+.1} %)",
                    case.stage,
                    case.case,
                    case.ratio,
                    before.ratio,
                    (case.ratio / before.ratio - 1.0) * 100.0
                ));
            }
        }
        slower
    }
}

/// A rate or an amount with three significant digits and a decimal prefix.
fn rate(value: f64, unit: &str) -> String {
    let unit = match unit {
        "bytes/s" => "B/s",
        "bytes" => "B",
        other => other,
    };
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let decimals = if scaled >= 99.95 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.decimals$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cases: &[(&str, f64)]) -> Report {
        let machine = Machine { cpu: "Some CPU".into(), cores: 2, memory_mb: 8000 };
        let cases = cases.iter().map(|(name, ratio)| Case {
            stage: "normalize".into(),
            case: (*name).into(),
            unit: "bytes/s".into(),
            value: ratio * 10e9,
            floor: 10e9,
            value_best: None,
            floor_best: None,
            floor_name: "memcpy".into(),
            ratio: *ratio,
            cpu_s: None,
            peak_rss_mb: None,
        });
        Report::new(Some("0123abc".into()), machine, cases.collect(), Vec::new())
    }

    #[test]
    fn what_is_written_can_be_read_and_another_schema_cannot() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("stages.json");
        let mut written = report(&[("fill", 0.8)]);
        fs::write(&path, written.json()).unwrap();
        assert_eq!(Report::read(&path).unwrap().json(), written.json());
        assert!(written.json().contains("\"cpu_s\": null"));

        written.schema = 2;
        fs::write(&path, written.json()).unwrap();
        assert!(matches!(Report::read(&path), Err(Error::ReportSchema { found: 2, .. })));
    }

    #[test]
    fn a_report_of_before_cases_had_rounds_can_be_read() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("stages.json");
        let old = r#"{"schema": 1, "commit": null,
            "machine": {"cpu": "Some CPU", "cores": 2, "memory_mb": 8000},
            "cases": [{"stage": "normalize", "case": "fill", "unit": "bytes/s", "value": 8e9,
            "floor": 1e10, "floor_name": "memcpy", "ratio": 0.8, "cpu_s": null,
            "peak_rss_mb": null}]}"#;
        fs::write(&path, old).unwrap();
        let old = Report::read(&path).unwrap();
        assert!(old.skipped.is_empty() && old.cases[0].value_best.is_none());
        assert_eq!(report(&[("fill", 0.8)]).slower_than(&old, 0.1), [""; 0]);
    }

    #[test]
    fn a_report_lands_in_the_files_of_its_kind() {
        let temp = tempfile::tempdir().unwrap();
        let written = report(&[("fill", 0.8)]);
        written.publish(temp.path(), Against::Floors).unwrap();
        written.publish(temp.path(), Against::Peers).unwrap();
        let read = |name: &str| fs::read_to_string(temp.path().join(name)).unwrap();
        assert_eq!(read("stages.json"), read("peers.json"));
        assert!(read("stages.md").contains("| floor is |"));
        assert!(read("peers.md").contains("| peer is |"));
    }

    #[test]
    fn the_table_has_a_row_per_case() {
        let mut report = report(&[("fill", 0.8)]);
        let text = report.markdown(Against::Floors);
        assert!(text.starts_with("Commit 0123abc, Some CPU, 2 cores, 8000 MB."), "{text}");
        assert!(
            text.ends_with("| normalize | fill | 8.00 GB/s | 10.0 GB/s | memcpy | 0.80 |\n"),
            "{text}"
        );
        report.skipped.push(Skipped {
            stage: "loader".into(),
            case: "postgres".into(),
            reason: "no server | no programs".into(),
        });
        let text = report.markdown(Against::Floors);
        let line = "| loader | postgres | skipped | | no server \\| no programs | |\n";
        assert!(text.ends_with(line), "{text}");
    }

    #[test]
    fn only_a_fall_beyond_the_tolerance_counts() {
        let old = report(&[("fill", 0.80), ("scale", 0.50), ("gone", 0.9)]);
        let new = report(&[("fill", 0.73), ("scale", 0.44), ("fresh", 0.1)]);
        assert_eq!(
            new.slower_than(&old, 0.10),
            ["normalize/scale: ratio 0.440, was 0.500 (-12.0 %)"]
        );
        assert_eq!(new.slower_than(&old, 0.15), [""; 0]);
    }

    #[test]
    fn rates_have_three_digits() {
        let check = |value: f64, unit: &str, expected: &str| {
            assert_eq!(rate(value, unit), expected);
        };
        check(1.234e9, "bytes/s", "1.23 GB/s");
        check(99.96e6, "items/s", "100 Mitems/s");
        check(12_340.0, "items/s", "12.3 kitems/s");
        check(5.0, "items/s", "5.00 items/s");
        check(4.32e8, "bytes", "432 MB");
    }
}
