//! The `millstream` command: a thin front of the library of the same name.
//!
//! What concerns a process is here: flags, signals, memory that malloc keeps, messages and bars on
//! stderr, results on stdout, one documented exit code.
// They panic when nobody can be told; see messages.rs.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod backtest;
mod backtest_bar;
mod backtest_table;
mod cli;
mod closed_stdout;
mod display;
mod doctor;
mod duration;
mod ending;
mod evaluate;
mod evaluation_table;
mod export;
mod import;
mod interrupt;
mod judgement;
mod loading_bar;
mod messages;
mod outcome;
mod predict;
mod preview;
mod seeds;
mod summary;
mod ticker;
mod trace;
mod train;
mod training_bar;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use ending::LastWords;
use messages::{print, print_json, tell, tell_error};
use millstream::{Error, ErrorKind, hide_passwords, keep_freed_memory};
use outcome::Code;
use std::{
    io::{IsTerminal, stderr, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
};
use train::Mode;

fn main() {
    keep_freed_memory();
    interrupt::ignore_file_size_limits();
    ending::tell_panics_without_secrets();
    // Nothing that a panic left half done is looked at again.
    let code = catch_unwind(AssertUnwindSafe(command)).unwrap_or(ErrorKind::Other.exit_code());
    ending::end(code)
}

/// Runs the command that the flags name, to its exit code.
fn command() -> u8 {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return usage(&error),
    };
    let json = command.json();
    let error = match catch_unwind(AssertUnwindSafe(|| run(command))) {
        Ok(Ok(code)) => return code.number(),
        Ok(Err(error)) => error,
        // It has been told on stderr, by the hook.
        Err(_) => {
            let error = ending::defect();
            if json {
                drop(print_json(&error.to_json()));
            }
            return error.kind().exit_code();
        }
    };
    // Where a second Ctrl-C ends the process, what it disturbed is not told any more.
    let last = LastWords::claim();
    if json {
        // Where stdout takes nothing, stderr still says what failed.
        drop(print_json(&error.to_json()));
    }
    tell_error(&error.to_string());
    last.end(error.kind().exit_code())
}

/// Help and version as asked for, or what is wrong with the flags.
fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        // As clap would: with colours where somebody looks.
        let text = error.render();
        let text = if stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        return match print(&text) {
            Ok(()) => Code::Done.number(),
            Err(error) => {
                tell_error(&error.to_string());
                error.kind().exit_code()
            }
        };
    }
    // Flags that cannot be read cannot say what they ask for, but this one can be seen.
    if std::env::args_os().any(|flag| flag == "--json") {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        let line = line.strip_prefix("error: ").unwrap_or(line).to_owned();
        drop(print_json(&Error::settings(line).to_json()));
    }
    let text = error.render();
    let text = if stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    tell(hide_passwords(&text).trim_end());
    ErrorKind::Settings.exit_code()
}

fn run(command: Command) -> Result<Code, Error> {
    match command {
        Command::Pipeline(args) => train::train(&args, Mode::Pipeline),
        Command::Train(args) => train::train(&args, Mode::Train),
        Command::Backtest(args) => backtest::backtest(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Import(args) => import::import(&args).map(|()| Code::Done),
        Command::Evaluate(args) => evaluate::evaluate(&args).map(|()| Code::Done),
        Command::Export(args) => export::export(&args).map(|()| Code::Done),
        Command::Doctor(common) => doctor::doctor(&common),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "millstream", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| Code::Done)
        }
    }
}
