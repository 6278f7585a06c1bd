//! What benches that are programs of their own have in common: the command line, a clock, rounds,
//! and the report that `cargo xtask bench-stages` reads.
//!
//! Not criterion: besides the time, CPU and memory count, other programs take part, and what is
//! compared has to take turns. A bench includes this folder with `#[path]`; what it measures is its
//! own affair.

pub(crate) mod arguments;
pub(crate) mod child;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod sample;

use std::process::ExitCode;

/// Any error: they all end up as a line on stderr.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a bench.
pub(crate) fn main(bench: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
