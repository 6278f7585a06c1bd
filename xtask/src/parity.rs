//! `parity`: every model beside its PyTorch form, by `model/tests/parity.rs`.
//!
//! Those tests are ignored elsewhere, because they need PyTorch: some gigabytes that are installed once.

use crate::error::Error;
use crate::flags::SetupFlags;
use crate::test_python::PYTORCH;
use crate::workspace::Workspace;
use crate::{process, setup};

/// Runs the task.
///
/// # Errors
/// [`Error::TestPython`] when PyTorch is not to be had; when a model is not its PyTorch form.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags::default())?;
    PYTORCH.provide(workspace)?;
    let mut tests = workspace.cargo();
    tests.args(["test", "--release", "-p", "millstream-model", "--test", "parity"]);
    process::run(tests.args(["--", "--ignored"]))
}
