//! The report: stages.json for programs, stages.md for people, and whether a case fell behind.
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
pub(super) struct Report {
    schema: u32,
    commit: Option<String>,
    machine: Machine,
    cases: Vec<Case>,
}

/// One measured case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) stage: String,
    pub(super) case: String,
    /// "bytes/s" or "items/s".
    pub(super) unit: String,
    pub(super) value: f64,
    pub(super) floor: f64,
    pub(super) floor_name: String,
    /// 1.0 at the floor; lower is worse.
    pub(super) ratio: f64,
    pub(super) cpu_s: Option<f64>,
    pub(super) peak_rss_mb: Option<f64>,
}

impl Report {
    pub(super) fn new(commit: Option<String>, machine: Machine, cases: Vec<Case>) -> Self {
        Self { schema: SCHEMA, commit, machine, cases }
    }

    /// Reads a stages.json.
    ///
    /// # Errors
    /// When the file cannot be read, or has another schema.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let bad = |source| Error::Json { what: path.display().to_string(), source };
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let report: Self = serde_json::from_str(&text).map_err(bad)?;
        if report.schema != SCHEMA {
            let (found, expected) = (report.schema, SCHEMA);
            return Err(Error::ReportSchema { path: path.to_path_buf(), found, expected });
        }
        Ok(report)
    }

    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a report has only string keys and finite numbers or null") + "\n"
    }

    pub(super) fn markdown(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let Machine { cpu, cores, memory_mb } = &self.machine;
        let mut text = format!(
            "Commit {commit}, {cpu}, {cores} cores, {memory_mb} MB. \
             Ratio: 1.00 is the floor, lower is worse.\n\n\
             | stage | case | ours | floor | floor is | ratio |\n|---|---|---:|---:|---|---:|\n"
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
        text
    }

    /// The cases whose ratio is more than `tolerance` (a fraction) below that in `old`, each in a
    /// sentence. Cases that only one of the two has are not compared.
    pub(super) fn slower_than(&self, old: &Self, tolerance: f64) -> Vec<String> {
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

/// A rate with three significant digits and a decimal prefix.
fn rate(value: f64, unit: &str) -> String {
    let unit = if unit == "bytes/s" { "B/s" } else { unit };
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
            floor_name: "memcpy".into(),
            ratio: *ratio,
            cpu_s: None,
            peak_rss_mb: None,
        });
        Report::new(Some("0123abc".into()), machine, cases.collect())
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
    fn the_table_has_a_row_per_case() {
        let text = report(&[("fill", 0.8)]).markdown();
        assert!(text.starts_with("Commit 0123abc, Some CPU, 2 cores, 8000 MB."), "{text}");
        assert!(
            text.ends_with("| normalize | fill | 8.00 GB/s | 10.0 GB/s | memcpy | 0.80 |\n"),
            "{text}"
        );
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
    }
}
