//! `pipeline`: from a fresh clone to a running `millstream pipeline`, in one command.
//!
//! Knows none of millstream's flags: everything is passed on, and what millstream prints on
//! stdout is all that appears there.

use std::process::Command;

use crate::error::Error;
use crate::flags::{PipelineFlags, SetupFlags};
use crate::workspace::Workspace;
use crate::{process, setup};

/// Runs the task; on success it does not return, millstream takes over the process.
///
/// # Errors
/// When set-up or the build fails.
pub(crate) fn run(workspace: &Workspace, flags: &PipelineFlags) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags::default())?;
    process::run_on_stderr(workspace.cargo().args(["build", "--release", "-p", "millstream"]))?;
    let program = workspace.metadata()?.target_directory.join("release/millstream");
    // Not in the workspace's root: relative paths among the arguments are the caller's.
    Err(process::replace_by(Command::new(program).arg("pipeline").args(&flags.args)))
}
