//! The loader's bench of PostgreSQL: how it is called, and the report it writes.
//!
//! A load takes seconds and its CPU and memory matter, so this one is a program of its own
//! instead of a criterion bench; it pairs its cases with their floors, or with peers, by itself.

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

impl Results {
    /// Nothing was measured.
    pub(crate) fn none(reason: String) -> Self {
        let skipped = Skipped { stage: "loader".into(), case: "postgres".into(), reason };
        Self { cases: Vec::new(), skipped: vec![skipped] }
    }
}

/// Builds and runs the program: beside its floors, or beside the peers that a Python has.
///
/// # Errors
/// When it fails, or its report cannot be read.
pub(crate) fn run(
    workspace: &Workspace,
    folder: &Path,
    quick: bool,
    peers: Option<&Path>,
) -> Result<Results, Error> {
    let json = folder.join("postgres.json");
    process::run_on_stderr(&mut command(workspace, &json, quick, peers))?;
    let text = fs::read_to_string(&json).map_err(Error::file("read", &json))?;
    parse(&text, &json)
}

fn parse(text: &str, json: &Path) -> Result<Results, Error> {
    serde_json::from_str(text)
        .map_err(|source| Error::Json { what: json.display().to_string(), source })
}

fn command(workspace: &Workspace, json: &Path, quick: bool, peers: Option<&Path>) -> Command {
    let mut command = workspace.cargo();
    command.args(["bench", "-p", "millstream-loader", "--bench", "postgres", "--", "--json"]);
    command.arg(json);
    if quick {
        command.arg("--quick");
    }
    if let Some(python) = peers {
        command.arg("--peers").arg(python);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_where_to_write_and_whom_to_measure() {
        let workspace = Workspace::at(Path::new("."));
        let line = |quick, peers: Option<&str>| {
            let json = Path::new("target/postgres.json");
            process::line(&command(&workspace, json, quick, peers.map(Path::new)))
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
