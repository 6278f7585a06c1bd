//! The report: a JSON file for programs, a table and a page for people.
//!
//! A ratio is what counts, never a throughput: the floor was measured in the same run on the same
//! machine, so most of the machine cancels out. Reports are compared in `compare.rs`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::{cell, rate};
use super::machine::Machine;
use super::page;
use super::program::Results;
use crate::error::Error;
use crate::whole;

/// Grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// All cases of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    schema: u32,
    commit: Option<String>,
    machine: Machine,
    /// Whether it was a first look, with fewer rows and rounds.
    #[serde(default)]
    quick: bool,
    pub(crate) cases: Vec<Case>,
    #[serde(default)]
    pub(crate) skipped: Vec<Skipped>,
}

/// One measured case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) stage: String,
    pub(crate) case: String,
    /// "bytes/s", "items/s", "rows/s", "rows/cpu-s", "windows/s", or "bytes" where less is better.
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
    pub(super) fn words(self) -> [&'static str; 3] {
        match self {
            Self::Floors => ["stages", "floor", "1.00 is the floor, lower is worse"],
            Self::Peers => ["peers", "peer", "above 1.00 ours takes less than the peer"],
        }
    }
}

impl Case {
    /// What a case is called, in a report and in the list of those that are stable.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.stage, self.case)
    }
}

impl Report {
    /// A run in which nothing was measured yet.
    pub(crate) fn new(commit: Option<String>, machine: Machine, quick: bool) -> Self {
        Self { schema: SCHEMA, commit, machine, quick, cases: Vec::new(), skipped: Vec::new() }
    }

    /// Adds what a program measured.
    pub(crate) fn extend(&mut self, results: Results) {
        self.cases.extend(results.cases);
        self.skipped.extend(results.skipped);
    }

    /// Writes the report to a folder, for programs and for people, and prints its table.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn publish(&self, folder: &Path, against: Against) -> Result<(), Error> {
        let [name, ..] = against.words();
        let table = format!("{}\n\n{}", self.origin(against), self.table(against));
        for (extension, text) in
            [("json", &self.json()), ("md", &table), ("html", &page::render(self, against))]
        {
            let path = folder.join(name).with_extension(extension);
            whole::write(&path, text)?;
        }
        print!("{table}");
        eprintln!("written to {}/{name}.json, {name}.md and {name}.html", folder.display());
        Ok(())
    }

    /// Reads a stages.json or peers.json.
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

    /// What was measured where, and what a ratio means, in two sentences.
    pub(crate) fn origin(&self, against: Against) -> String {
        let [_, _, meaning] = against.words();
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let Machine { cpu, cores, memory_mb } = &self.machine;
        let quick = if self.quick { ", a first look (--quick)" } else { "" };
        format!("Commit {commit}, {cpu}, {cores} cores, {memory_mb} MB{quick}. Ratio: {meaning}.")
    }

    /// A row per case, and one for each that was skipped.
    pub(crate) fn table(&self, against: Against) -> String {
        let [_, other, _] = against.words();
        let mut text = format!(
            "| stage | case | ours | {other} | {other} is | ratio | CPU s |\n\
             |---|---|---:|---:|---|---:|---:|\n"
        );
        for case in &self.cases {
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.2} |{} |",
                case.stage,
                case.case,
                rate(case.value, &case.unit),
                rate(case.floor, &case.unit),
                cell(&case.floor_name),
                case.ratio,
                case.cpu_s.map_or(String::new(), |cpu_s| format!(" {cpu_s:.2}")),
            )
            .expect("a String takes every write");
        }
        for Skipped { stage, case, reason } in &self.skipped {
            let reason = cell(reason);
            writeln!(text, "| {stage} | {case} | skipped | | {reason} | | |")
                .expect("a String takes every write");
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report(cases: &[(&str, f64)]) -> Report {
        let machine = Machine { cpu: "Some CPU".into(), cores: 2, memory_mb: 8000 };
        let mut report = Report::new(Some("0123abc".into()), machine, false);
        report.cases.extend(cases.iter().map(|(name, ratio)| Case {
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
        }));
        report
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
        assert!(old.skipped.is_empty() && old.cases[0].value_best.is_none() && !old.quick);
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
        assert!(read("stages.html").contains("<title>"));
    }

    #[test]
    fn the_table_has_a_row_per_case() {
        let mut report = report(&[("fill", 0.8)]);
        let origin = report.origin(Against::Floors);
        assert!(origin.starts_with("Commit 0123abc, Some CPU, 2 cores, 8000 MB."), "{origin}");
        report.cases[0].cpu_s = Some(1.5);
        let text = report.table(Against::Floors);
        let row = "| normalize | fill | 8.00 GB/s | 10.0 GB/s | memcpy | 0.80 | 1.50 |\n";
        assert!(text.ends_with(row), "{text}");
        report.skipped.push(Skipped {
            stage: "loader".into(),
            case: "postgres".into(),
            reason: "no server | no programs".into(),
        });
        let text = report.table(Against::Floors);
        let row = "| loader | postgres | skipped | | no server \\| no programs | | |\n";
        assert!(text.ends_with(row), "{text}");
    }

    #[test]
    fn a_first_look_says_that_it_is_one() {
        let mut report = report(&[]);
        assert!(!report.origin(Against::Floors).contains("quick"));
        report.quick = true;
        assert!(report.origin(Against::Floors).contains("8000 MB, a first look (--quick)."));
    }
}
