//! `lint`: the part of `test` that runs no tests.
//!
//! It adds no check of its own, so that what passes here passes in `test`.

use crate::error::Error;
use crate::flags::SetupFlags;
use crate::setup;
use crate::steps::{self, Step};
use crate::workspace::Workspace;

/// Runs the task.
///
/// # Errors
/// At the first step that fails.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    // Clippy and rustdoc compile the build scripts' C++, so they need libtorch too.
    setup::run(workspace, &SetupFlags::default())?;
    let list = vec![Step::fmt(), Step::tidy(), Step::clippy(workspace), Step::docs(workspace)];
    steps::run(workspace, list)
}
