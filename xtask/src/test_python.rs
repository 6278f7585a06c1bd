//! The Python environment that recomputes what a run has printed: `target/test-python`.
//!
//! Where it cannot be made, the tests that want it compare nothing, and the list of steps says so.

use std::fs;

use crate::error::Error;
use crate::prerequisites::{self, Missing};
use crate::workspace::Workspace;
use crate::{process, venv};

const REQUIREMENTS: &str = "pipeline/tests/command/requirements.txt";

/// Makes the environment, unless it is there.
///
/// # Errors
/// When there is no Python, or a package cannot be installed.
pub(crate) fn provide(workspace: &Workspace) -> Result<(), Error> {
    let python = process::find_program("python3", &prerequisites::search_path());
    let python = python.ok_or(Error::from(Missing::PeersPython))?;
    let folder = workspace.metadata()?.target_directory.join("test-python");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    let requirements = workspace.root().join(REQUIREMENTS);
    let installed = venv::provide(&python, &folder, &requirements)?;
    match installed.left_out.into_iter().next() {
        None => Ok(()),
        Some(reason) => {
            // Half an environment would fail the tests that it is for.
            let venv = folder.join("venv");
            fs::remove_dir_all(&venv).map_err(Error::file("remove", &venv))?;
            Err(Error::TestPython { reason })
        }
    }
}
