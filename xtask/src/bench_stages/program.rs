//! Benches that are programs of their own: how they are called, and the report they write.
//!
//! CPU and memory matter beside time, and what is compared has to take turns; so they pair their cases
//! with their floors, or with peers, by themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::report::{Case, Skipped};
use crate::error::Error;
use crate::process;
use crate::workspace::Workspace;

/// What the program measured, and what it could not.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Results {
    pub(crate) cases: Vec<Case>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A program among the benches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// The stage it measures.
    pub(crate) stage: &'static str,
    package: &'static str,
    bench: &'static str,
}

/// Handing an item to the next stage.
pub(super) const LINK: Program =
    Program { stage: "stage", package: "millstream-stage", bench: "link" };

/// From the host to a device.
pub(super) const RING: Program =
    Program { stage: "prefetch", package: "millstream-prefetch", bench: "ring" };

/// Reading PostgreSQL.
pub(crate) const LOADER: Program =
    Program { stage: "loader", package: "millstream-loader", bench: "postgres" };

/// Reading the cache and files.
pub(super) const FILES: Program =
    Program { stage: "loader", package: "millstream-loader", bench: "files" };

/// From a panel in memory to batches.
pub(crate) const NORMALIZE: Program =
    Program { stage: "normalize", package: "millstream-normalize", bench: "batches" };

/// Training steps.
pub(crate) const TRAINER: Program =
    Program { stage: "trainer", package: "millstream-trainer", bench: "steps" };

/// From a checkpoint to a file of forecasts.
pub(super) const PREDICTOR: Program =
    Program { stage: "predictor", package: "millstream-predictor", bench: "forecasts" };

/// From a cached panel to a trained model.
pub(super) const LINE: Program = Program { stage: "line", package: "millstream", bench: "line" };

/// From a table in PostgreSQL to forecasts in PostgreSQL.
pub(super) const TO_POSTGRES: Program =
    Program { stage: "predictor", package: "millstream", bench: "to_postgres" };

impl Program {
    /// Builds and runs the program: beside its floors, or beside the peers that a Python has.
    ///
    /// # Errors
    /// When it fails, or its report cannot be read.
    pub(crate) fn run(
        &self,
        workspace: &Workspace,
        folder: &Path,
        quick: bool,
        peers: Option<&Path>,
    ) -> Result<Results, Error> {
        let json = folder.join(self.bench).with_extension("json");
        process::run_on_stderr(&mut self.command(workspace, &json, quick, peers))?;
        let text = fs::read_to_string(&json).map_err(Error::file("read", &json))?;
        parse(&text, &json)
    }

    /// Nothing was measured.
    pub(crate) fn skipped(&self, reason: String) -> Results {
        let skipped = Skipped { stage: self.stage.into(), case: self.bench.into(), reason };
        Results { cases: Vec::new(), skipped: vec![skipped] }
    }

    fn command(
        &self,
        workspace: &Workspace,
        json: &Path,
        quick: bool,
        peers: Option<&Path>,
    ) -> Command {
        let mut command = workspace.cargo();
        command.args(["bench", "-p", self.package, "--bench", self.bench, "--", "--json"]);
        command.arg(json);
        if quick {
            command.arg("--quick");
        }
        if let Some(python) = peers {
            command.arg("--peers").arg(python);
        }
        command
    }
}

fn parse(text: &str, json: &Path) -> Result<Results, Error> {
    serde_json::from_str(text)
        .map_err(|source| Error::Json { what: json.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_where_to_write_and_whom_to_measure() {
        let workspace = Workspace::at(Path::new("."));
        let line = |quick, peers: Option<&str>| {
            let json = Path::new("target/postgres.json");
            process::line(&LOADER.command(&workspace, json, quick, peers.map(Path::new)))
        };
        let start = "cargo bench -p millstream-loader --bench postgres -- \
                     --json target/postgres.json";
        assert_eq!(line(false, None), start);
        assert_eq!(line(true, None), format!("{start} --quick"));
        assert_eq!(
            line(false, Some("venv/bin/python")),
            format!("{start} --peers venv/bin/python")
        );
    }

    #[test]
    fn the_programs_report_has_cases_of_ours_and_what_was_skipped() {
        let text = r#"{"cases": [{"stage": "loader", "case": "postgres", "unit": "rows/s",
            "value": 2e5, "floor": 2.5e5, "value_best": 2.1e5, "floor_best": 2.6e5,
            "floor_name": "raw drain", "ratio": 0.8, "cpu_s": 2.5, "peak_rss_mb": 480.0}],
            "skipped": [{"stage": "loader", "case": "postgres-cpu-psql", "reason": "no psql"}]}"#;
        let results = parse(text, Path::new("postgres.json")).unwrap();
        assert_eq!(results.cases[0].value_best, Some(2.1e5));
        assert_eq!(results.skipped[0].reason, "no psql");
        let error = parse("{}", Path::new("postgres.json")).unwrap_err();
        assert!(error.to_string().contains("postgres.json"), "{error}");
    }
}
