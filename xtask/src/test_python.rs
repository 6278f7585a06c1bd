//! The Python environments of the tests, in `target/`: made once, and kept.
//!
//! Where one cannot be made, what needs it compares nothing, and the list of steps says so.

use std::fs;

use crate::error::Error;
use crate::prerequisites::{self, Missing};
use crate::workspace::Workspace;
use crate::{process, venv};

/// An environment.
#[derive(Debug)]
pub(crate) struct Environment {
    /// Below `target`.
    folder: &'static str,
    /// What is in it, relative to the workspace.
    requirements: &'static str,
    /// What is not done without it.
    purpose: &'static str,
}

/// Recomputes what a run has printed.
pub(crate) const FIGURES: Environment = Environment {
    folder: "test-python",
    requirements: "pipeline/tests/command/requirements.txt",
    purpose: "the figures are not recomputed",
};

/// Has the models in their PyTorch form; some gigabytes.
pub(crate) const PYTORCH: Environment = Environment {
    folder: "test-pytorch",
    requirements: "model/python/requirements.txt",
    purpose: "the models are not compared with PyTorch",
};

impl Environment {
    /// Makes the environment, unless it is there.
    ///
    /// # Errors
    /// [`Error::TestPython`] when there is no Python, or a package cannot be installed.
    pub(crate) fn provide(&self, workspace: &Workspace) -> Result<(), Error> {
        self.install(workspace).map_err(|error| self.without(&error.with_causes()))
    }

    /// What is not done, and why.
    pub(crate) fn without(&self, reason: &str) -> Error {
        Error::TestPython { purpose: self.purpose, reason: reason.to_owned() }
    }

    fn install(&self, workspace: &Workspace) -> Result<(), Error> {
        let python = process::find_program("python3", &prerequisites::search_path());
        let python = python.ok_or(Error::from(Missing::PeersPython))?;
        let folder = workspace.metadata()?.target_directory.join(self.folder);
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let requirements = workspace.root().join(self.requirements);
        let installed = venv::provide(&python, &folder, &requirements)?;
        match installed.left_out.into_iter().next() {
            None => Ok(()),
            Some(reason) => {
                // Half an environment would fail the tests that it is for.
                let venv = folder.join("venv");
                fs::remove_dir_all(&venv).map_err(Error::file("remove", &venv))?;
                Err(self.without(&reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::pins;
    use crate::wheels::TORCH_VERSION;
    use std::path::Path;

    #[test]
    fn torch_is_the_version_of_libtorch_and_every_package_is_pinned() {
        for environment in [FIGURES, PYTORCH] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let text = fs::read_to_string(path.join(environment.requirements)).unwrap();
            assert!(pins(&text).all(|pin| pin.contains("==")), "{text}");
            let torch = pins(&text).any(|pin| pin == format!("torch=={TORCH_VERSION}"));
            assert_eq!(torch, environment.folder == PYTORCH.folder);
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        let error = PYTORCH.without("--no-python").with_causes();
        assert_eq!(error, "the models are not compared with PyTorch: --no-python");
    }
}
