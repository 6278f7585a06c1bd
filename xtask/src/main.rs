//! `cargo xtask`: everything one does with this workspace besides writing code.
//!
//! This file only dispatches. The flags are in `flags.rs`, each task is in the file of its
//! name, and exit codes are decided in `error.rs`. No task links libtorch or another crate of
//! the workspace: xtask must build in seconds on a machine that has nothing yet.

mod bench_claims;
mod bench_peers;
mod bench_report;
mod bench_stages;
mod break_it;
mod clean_data;
mod cuda_venv;
mod debian;
mod error;
mod exclusive;
mod flags;
mod libtorch;
mod lint;
mod memcheck;
mod outside;
mod parity;
mod pipeline;
mod postgres_server;
mod prerequisites;
mod process;
mod seeded_target;
mod setup;
mod steps;
mod test;
mod test_python;
mod tidy;
mod toys;
mod venv;
mod wheels;
mod whole;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::error::Error;
use crate::flags::{Flags, Task};
use crate::workspace::Workspace;

fn main() -> ExitCode {
    match dispatch(Flags::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(task: Task) -> Result<(), Error> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup(flags) => setup::run(&workspace, &flags),
        Task::Pipeline(flags) => pipeline::run(&workspace, &flags),
        Task::Test(flags) => test::run(&workspace, &flags),
        Task::Lint => lint::run(&workspace),
        Task::Memcheck => memcheck::run(&workspace),
        Task::Break(flags) => break_it::run(&workspace, &flags),
        Task::Outside => outside::run(&workspace),
        Task::Parity => parity::run(&workspace),
        Task::Toys => toys::run(&workspace),
        Task::Tidy => tidy::run(&workspace),
        Task::BenchStages(flags) => bench_stages::run(&workspace, &flags),
        Task::BenchPeers(flags) => bench_peers::run(&workspace, &flags),
        Task::BenchClaims(flags) => bench_claims::run(&workspace, &flags),
        Task::BenchReport => bench_report::run(&workspace),
        Task::CleanData(flags) => clean_data::run(&workspace, &flags),
    }
}
