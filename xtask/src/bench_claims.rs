//! `bench-claims`: what optimisation guides promise, measured before and after.
//!
//! Runs the program that measures, and turns its rows into a JSON file for programs and a table
//! for people. What a claim is and how it is measured is in `pipeline/benches/claims`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::bench_stages::machine::Machine;
use crate::bench_stages::{commit, machine};
use crate::error::Error;
use crate::flags::{BenchClaimsFlags, SetupFlags};
use crate::workspace::Workspace;
use crate::{postgres_server, process, setup, whole};

/// All claims of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    commit: Option<String>,
    machine: Machine,
    /// A first look only.
    #[serde(default)]
    quick: bool,
    claims: Vec<Claim>,
}

/// What the program writes.
#[derive(Debug, Deserialize)]
struct Measured {
    claims: Vec<Claim>,
}

/// One claim: its figure, the reason why there is none, or a figure with what limits it.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    claim: String,
    promised: String,
    measured: Option<f64>,
    unit: String,
    /// Validation losses, where something is trained.
    loss_before: Option<f64>,
    loss_after: Option<f64>,
    how: String,
    reason: Option<String>,
}

/// Runs the task.
///
/// # Errors
/// When the program fails, or a file cannot be written. Without PostgreSQL the claim that needs it
/// is skipped.
pub(crate) fn run(workspace: &Workspace, flags: &BenchClaimsFlags) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags::default())?;
    let folder = workspace.metadata()?.target_directory.join("bench-claims");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    let without_postgres = postgres_server::provide().err().map(|error| error.with_causes());
    if let Some(reason) = &without_postgres {
        eprintln!("SKIPPED: the claim about queries: {reason}");
    }

    let measured = folder.join("measured.json");
    let mut program = command(workspace, &measured, flags.quick, without_postgres.as_deref());
    process::run_on_stderr(&mut program)?;
    let text = fs::read_to_string(&measured).map_err(Error::file("read", &measured))?;
    let Measured { claims } = serde_json::from_str(&text)
        .map_err(|source| Error::Json { what: measured.display().to_string(), source })?;

    let (commit, machine) = (commit(workspace), machine::describe());
    let report = Report { commit, machine, quick: flags.quick, claims };
    let json = folder.join("claims.json");
    whole::write(&json, &report.json())?;
    let table = report.markdown();
    whole::write(&folder.join("claims.md"), &table)?;
    print!("{table}");
    eprintln!("written to {} and claims.md beside it", json.display());
    Ok(())
}

fn command(
    workspace: &Workspace,
    json: &Path,
    quick: bool,
    without_postgres: Option<&str>,
) -> Command {
    let mut command = workspace.cargo();
    command.args(["bench", "-p", "millstream", "--bench", "claims", "--", "--json"]).arg(json);
    if quick {
        command.arg("--quick");
    }
    if let Some(reason) = without_postgres {
        command.args(["--without-postgres", reason]);
    }
    command
}

impl Report {
    /// Reads a claims.json.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        serde_json::from_str(&text)
            .map_err(|source| Error::Json { what: path.display().to_string(), source })
    }

    fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a report has only string keys and finite numbers or null") + "\n"
    }

    /// Where it was measured, and a row per claim.
    pub(crate) fn markdown(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let Machine { cpu, cores, memory_mb } = &self.machine;
        let quick = if self.quick { ", a first look (--quick)" } else { "" };
        let mut text = format!(
            "Commit {commit}, {cpu}, {cores} cores, {memory_mb} MB{quick}. Medians over rounds in \
             which before and after take turns.\n\n\
             | claim | promised | measured | validation loss before / after | how |\n\
             |---|---|---:|---|---|\n"
        );
        for claim in &self.claims {
            let Claim { claim: name, promised, .. } = claim;
            let (measured, losses, how) = (claim.figure(), claim.losses(), claim.explanation());
            writeln!(text, "| {name} | {promised} | {measured} | {losses} | {how} |")
                .expect("a String takes every write");
        }
        text
    }
}

impl Claim {
    fn figure(&self) -> String {
        let Some(measured) = self.measured else { return "none".to_owned() };
        let digits = if measured.abs() < 10.0 { 2 } else { 0 };
        format!("{measured:.digits$} {}", self.unit)
    }

    fn losses(&self) -> String {
        let both = self.loss_before.zip(self.loss_after);
        both.map_or("–".to_owned(), |(before, after)| format!("{before:.5} / {after:.5}"))
    }

    /// How it was measured, and what limits the figure.
    fn explanation(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        let sentences = [self.how.as_str(), reason].into_iter().filter(|text| !text.is_empty());
        sentences.collect::<Vec<_>>().join("; ").replace('|', r"\|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = r#"{"claims": [
        {"claim": "hidden states reused", "promised": "2–4 %", "measured": 0.123, "unit": "% gain",
         "loss_before": 0.5, "loss_after": 0.500001, "how": "zeros | made once", "reason": "no GPU"},
        {"claim": "panel in memory", "promised": "10–30×", "measured": null, "unit": "× as fast",
         "loss_before": null, "loss_after": null, "how": "", "reason": "skipped: no PostgreSQL"}]}"#;

    fn report() -> Report {
        let Measured { claims } = serde_json::from_str(MEASURED).unwrap();
        let machine = Machine { cpu: "Some CPU".into(), cores: 2, memory_mb: 1000 };
        Report { commit: Some("abc".into()), machine, quick: false, claims }
    }

    #[test]
    fn the_program_is_told_where_to_write_and_what_is_missing() {
        let workspace = Workspace::at(Path::new("."));
        let line = |quick, without| {
            process::line(&command(&workspace, Path::new("claims.json"), quick, without))
        };
        let start = "cargo bench -p millstream --bench claims -- --json claims.json";
        assert_eq!(line(false, None), start);
        let expected = format!("{start} --quick --without-postgres 'not installed'");
        assert_eq!(line(true, Some("not installed")), expected);
    }

    #[test]
    fn every_claim_is_a_row_with_its_figure_or_its_reason() {
        let table = report().markdown();
        assert!(table.starts_with("Commit abc, Some CPU, 2 cores, 1000 MB. "), "{table}");
        let quick = Report { quick: true, ..report() }.markdown();
        assert!(quick.contains("1000 MB, a first look (--quick). "), "{quick}");
        let rows: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                r"| hidden states reused | 2–4 % | 0.12 % gain | 0.50000 / 0.50000 | zeros \| made once; no GPU |",
                "| panel in memory | 10–30× | none | – | skipped: no PostgreSQL |",
            ]
        );
    }

    #[test]
    fn what_is_absent_is_null() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(json["machine"]["cores"], 2);
        assert_eq!(json["claims"][0]["loss_after"], 0.500_001);
        let skipped = json["claims"][1].as_object().unwrap();
        let null = |key: &str| skipped.get(key).is_some_and(serde_json::Value::is_null);
        assert!(null("measured") && null("loss_before") && null("loss_after"), "{skipped:?}");
    }
}
