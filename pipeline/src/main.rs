//! The `millstream` command: the only place that sees two stages.
//!
//! Settings and flags come in, lines are wired and run, results go out: messages and bars on
//! stderr, results on stdout, one documented exit code.

mod cli;
mod device;
mod doctor;
mod failure;
mod import;
mod interrupt;
mod loading_bar;
mod memory;
mod predict;
mod progress;
mod report;
mod run_dir;
mod settings;
mod summary;
mod threads;
mod trace;
mod train;
mod training_bar;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command, TrainArgs};
use failure::{Code, Failure};
use progress::Display;
use report::Report;
use serde::Serialize;
use settings::Settings;
use std::{
    io::{IsTerminal, Write, stderr, stdout},
    process::ExitCode,
    time::Instant,
};

fn main() -> ExitCode {
    memory::keep_freed();
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let error = if colour { "\u{1b}[31merror\u{1b}[0m" } else { "error" };
            eprintln!("{error}: {failure}");
            failure.code.into()
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Pipeline(args) => pipeline(&args, true),
        Command::Train(args) => pipeline(&args, false),
        Command::Predict(args) => {
            let display = Display::new(args.common.quiet);
            let predicted = predict::predict(&args, &display, &interrupt::on_interrupt()?)?;
            if args.common.json {
                print_json(&predicted)?;
            } else if let Some(output) = &predicted.output {
                let rows = progress::grouped(predicted.rows);
                display.say(&format!(
                    "{rows} forecasts of {} series in {}",
                    predicted.series,
                    output.display()
                ));
            }
            Ok(exit_code(predicted.interrupted))
        }
        Command::Import(args) => import::import(&args),
        Command::Doctor(common) => {
            let settings = Settings::load(common.config.as_deref(), &common.set)?;
            let findings = doctor::examine(&settings);
            if common.json {
                print_json(&findings)?;
            } else {
                print(&doctor::table(&findings))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "millstream", &mut stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// `train`, and for `pipeline` the forecasts of what it trained.
fn pipeline(args: &TrainArgs, and_predict: bool) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let display = Display::new(args.common.quiet);
    let stop = interrupt::on_interrupt()?;
    let trained = train::train(args, &display, &stop)?;
    let predicted = if and_predict && !trained.interrupted {
        let display = Display::new(args.common.quiet);
        let settings = trained.settings.clone();
        Some(predict::predict_run(&trained.run, settings, None, None, &display, &stop)?)
    } else {
        None
    };
    let interrupted = trained.interrupted || predicted.as_ref().is_some_and(|p| p.interrupted);
    let seconds = begun.elapsed().as_secs_f64();
    let report = Report::new(&trained, predicted.as_ref(), &[], seconds);
    if args.common.json {
        print_json(&report)?;
    } else if !args.common.quiet {
        print(&summary::table(&report))?;
    }
    if trained.interrupted {
        display.say(&format!(
            "interrupted; go on with: millstream train --resume {}",
            trained.run.display()
        ));
    }
    Ok(exit_code(interrupted))
}

fn exit_code(interrupted: bool) -> ExitCode {
    if interrupted { Code::Interrupted.into() } else { ExitCode::SUCCESS }
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::new(Code::Other, error))?;
    print(&format!("{json}\n"))
}

fn print(text: &str) -> Result<(), Failure> {
    stdout().write_all(text.as_bytes()).map_err(|error| Failure::new(Code::Other, error))
}
