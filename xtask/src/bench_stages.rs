//! `bench-stages`: how close each stage comes to the floor it is measured against.
//!
//! Runs the benches, each a program of its own, and turns their results into one report. It measures
//! nothing itself; what a case does is in the bench of its stage.

mod compare;
pub(crate) mod figures;
pub(crate) mod machine;
mod page;
pub(crate) mod program;
pub(crate) mod report;
mod stable;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::flags::{BenchStagesFlags, SetupFlags};
use crate::workspace::Workspace;
use crate::{postgres_server, setup};

use compare::Comparison;
use program::{
    FILES, LINE, LINK, LOADER, NORMALIZE, PREDICTOR, Program, RING, Results, TO_POSTGRES, TRAINER,
};
use report::{Against, Report};

/// Runs the task.
///
/// # Errors
/// When a bench fails, or with `--compare` when a stable case fell behind.
pub(crate) fn run(workspace: &Workspace, flags: &BenchStagesFlags) -> Result<(), Error> {
    // Read first: a mistyped file name should not cost minutes of measuring.
    let old = flags.compare.as_deref().map(Report::read).transpose()?;
    let report = match &flags.with {
        Some(path) => Report::read(path)?,
        None => measure(workspace, flags.quick)?,
    };
    let Some((path, old)) = flags.compare.as_ref().zip(old) else { return Ok(()) };
    let comparison = Comparison::new(&old, &report, flags.tolerance);
    comparison.outside().for_each(|change| println!("{change}"));
    println!("{}", comparison.repeated());
    match comparison.slower() {
        0 => Ok(()),
        count => {
            let percent = flags.tolerance * 100.0;
            Err(Error::Slower { count, percent, old: path.clone() })
        }
    }
}

/// Runs all benches and publishes their report.
fn measure(workspace: &Workspace, quick: bool) -> Result<Report, Error> {
    setup::run(workspace, &SetupFlags::default())?;
    let target = workspace.metadata()?.target_directory;
    let mut report = Report::new(commit(workspace), machine::describe(), quick);
    let folder = target.join("bench-stages");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    for program in [RING, LINK, FILES, NORMALIZE, TRAINER, PREDICTOR, LINE] {
        report.extend(program.run(workspace, &folder, quick, None)?);
    }
    for program in [LOADER, TO_POSTGRES] {
        report.extend(with_postgres(program, workspace, &folder, quick)?);
    }
    report.publish(&folder, Against::Floors)?;
    Ok(report)
}

/// The cases of a bench that needs PostgreSQL, or why there are none: on a machine without, the other
/// stages are still worth measuring.
fn with_postgres(
    program: Program,
    workspace: &Workspace,
    folder: &Path,
    quick: bool,
) -> Result<Results, Error> {
    match postgres_server::provide() {
        Ok(()) => program.run(workspace, folder, quick, None),
        Err(error) => {
            let reason = error.with_causes();
            eprintln!("SKIPPED: the {}'s benchmark of PostgreSQL: {reason}", program.stage);
            Ok(program.skipped(reason))
        }
    }
}

/// Which commit is measured.
pub(crate) fn commit(workspace: &Workspace) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(workspace.root()).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
