//! `test`: everything CI runs, in the order that fails soonest.
//!
//! CI calls this task and nothing else, so a green run here is a green run there. What a step
//! does is in `steps.rs`.

use crate::error::Error;
use crate::flags::{SetupFlags, TestFlags};
use crate::setup;
use crate::steps::{self, Step};
use crate::tidy::WITHOUT_LIBTORCH;
use crate::workspace::Workspace;

/// Runs the task.
///
/// # Errors
/// At the first step that fails.
pub(crate) fn run(workspace: &Workspace, flags: &TestFlags) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags { with_postgres: true })?;
    let tests = Step::tests(workspace, &flags.runner_args);
    if !flags.runner_args.is_empty() {
        return steps::run(workspace, vec![tests]);
    }

    let mut list = vec![Step::fmt(), Step::tidy()];
    for package in WITHOUT_LIBTORCH {
        list.push(Step::build_without_libtorch(workspace, package));
    }
    list.extend([
        Step::clippy(workspace),
        Step::python(!flags.no_python),
        tests,
        Step::parity(!flags.no_python),
        Step::featureless_loader(workspace),
        Step::doc_tests(workspace),
        Step::memcheck(),
        Step::docs(workspace),
        Step::outside(),
        Step::toys(),
    ]);
    steps::run(workspace, list)
}
