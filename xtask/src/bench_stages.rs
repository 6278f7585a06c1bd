//! `bench-stages`: how close each stage comes to the floor it is measured against.
//!
//! Runs the criterion benches and those that are programs of their own, and turns their results
//! into one report. It measures nothing itself; what a case does is in the bench of its stage.

pub(crate) mod machine;
mod measurements;
pub(crate) mod program;
pub(crate) mod report;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::error::Error;
use crate::flags::{BenchStagesFlags, SetupFlags};
use crate::workspace::Workspace;
use crate::{postgres_server, process, setup};

use program::{LINE, LOADER, NORMALIZE, PREDICTOR, Results, TRAINER};
use report::{Against, Report};

/// The packages with criterion benches, whose groups are named `<stage>/<case>`.
const PACKAGES: [&str; 2] = ["millstream-stage", "millstream-prefetch"];

/// Runs the task.
///
/// # Errors
/// When a bench fails or breaks the naming convention, or with `--compare` when a case fell behind.
pub(crate) fn run(workspace: &Workspace, flags: &BenchStagesFlags) -> Result<(), Error> {
    // Read first: a mistyped file name should not cost minutes of measuring.
    let old = match &flags.compare {
        Some(path) => Some((path, Report::read(path)?)),
        None => None,
    };
    setup::run(workspace, &SetupFlags::default())?;
    let target = workspace.metadata()?.target_directory;
    let criterion = target.join("criterion");

    let start = SystemTime::now();
    let mut bench = bench_command(workspace, flags.quick);
    process::run_on_stderr(bench.env("CRITERION_HOME", &criterion))?;

    let measurements = measurements::read_since(&criterion, start)?;
    if measurements.is_empty() {
        return Err(Error::NoBenchmarks { folder: criterion });
    }
    let mut cases = measurements::pair(measurements)?;

    let folder = target.join("bench-stages");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    let mut programs = Results::default();
    for program in [NORMALIZE, TRAINER, PREDICTOR, LINE] {
        programs.extend(program.run(workspace, &folder, flags.quick, None)?);
    }
    programs.extend(loader(workspace, &folder, flags.quick)?);
    cases.extend(programs.cases);
    let report = Report::new(commit(workspace), machine::describe(), cases, programs.skipped);
    report.publish(&folder, Against::Floors)?;

    let Some((path, old)) = old else { return Ok(()) };
    let slower = report.slower_than(&old, flags.tolerance);
    for case in &slower {
        println!("slower: {case}");
    }
    match slower.len() {
        0 => Ok(()),
        count => {
            let percent = flags.tolerance * 100.0;
            Err(Error::Slower { count, percent, old: path.clone() })
        }
    }
}

/// The loader's cases, or why there are none: on a machine without PostgreSQL the other stages are
/// still worth measuring.
fn loader(workspace: &Workspace, folder: &Path, quick: bool) -> Result<Results, Error> {
    match postgres_server::provide() {
        Ok(()) => LOADER.run(workspace, folder, quick, None),
        Err(error) => {
            let reason = error.with_causes();
            eprintln!("SKIPPED: the loader's benchmark of PostgreSQL: {reason}");
            Ok(LOADER.skipped(reason))
        }
    }
}

fn bench_command(workspace: &Workspace, quick: bool) -> Command {
    let mut command = workspace.cargo();
    command.arg("bench");
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    // Only the criterion benches: a library's test harness would choke on criterion's flags.
    command.args(["--bench", "*"]);
    if quick {
        command.args(["--", "--quick"]);
    }
    command
}

/// Which commit is measured.
pub(crate) fn commit(workspace: &Workspace) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(workspace.root()).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn quick_is_criterions_own_flag() {
        let workspace = Workspace::at(Path::new("."));
        let line = process::line(&bench_command(&workspace, true));
        let expected =
            "cargo bench -p millstream-stage -p millstream-prefetch --bench '*' -- --quick";
        assert_eq!(line, expected);
        assert!(!process::line(&bench_command(&workspace, false)).contains("--quick"));
    }
}
