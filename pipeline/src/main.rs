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
mod output;
mod predict;
mod progress;
mod report;
mod run_dir;
mod runs;
mod settings;
mod summary;
mod threads;
mod trace;
mod train;
mod training_bar;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command, PredictArgs, TrainArgs};
use failure::{Code, Failure};
use millstream_stage::Warnings;
use predict::{Asked, Predicted, Watch};
use progress::Display;
use report::Report;
use serde::Serialize;
use settings::Settings;
use std::{
    io::{IsTerminal, Write, stderr, stdout},
    process::ExitCode,
    time::Instant,
};
use trace::Trace;
use train::Trained;

fn main() -> ExitCode {
    memory::keep_freed();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return usage(&error),
    };
    let json = command.json();
    match run(command) {
        Ok(code) => code,
        Err(failure) => {
            if json && let Err(error) = print_json(&failure.to_json()) {
                eprintln!("error: {error}");
            }
            let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let error = if colour { "\u{1b}[31merror\u{1b}[0m" } else { "error" };
            eprintln!("{error}: {failure}");
            failure.code.into()
        }
    }
}

/// Help and version as asked for, or what is wrong with the flags.
fn usage(error: &clap::Error) -> ExitCode {
    // Flags that cannot be read cannot say what they ask for, but this one can be seen.
    if error.use_stderr() && std::env::args_os().any(|flag| flag == "--json") {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        let line = line.strip_prefix("error: ").unwrap_or(line).to_owned();
        if let Err(error) = print_json(&Failure::settings(line).to_json()) {
            eprintln!("error: {error}");
        }
    }
    // Nothing is left to do where even that cannot be written.
    drop(error.print());
    if error.use_stderr() { Code::Settings.into() } else { ExitCode::SUCCESS }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Pipeline(args) => pipeline(&args, true),
        Command::Train(args) => pipeline(&args, false),
        Command::Predict(args) => predict(&args),
        Command::Import(args) => import::import(&args),
        Command::Doctor(common) => {
            let settings = Settings::load(common.config.as_deref(), &common.set)?;
            let findings = doctor::examine(&settings);
            if common.json {
                print_json(&findings)?;
            } else {
                print(&doctor::table(&findings))?;
            }
            let lacks = doctor::lacks_what_is_asked(&findings);
            Ok(if lacks { Code::Device.into() } else { ExitCode::SUCCESS })
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
    let (warnings, stop) = (warnings_on(&display), interrupt::on_interrupt()?);
    let watch = Watch { display: &display, warnings: &warnings, stop: &stop };
    let trained = train::train(args, watch)?;
    run_dir::keep_warnings(&trained.run, &warnings)?;
    let predicted = if and_predict && !trained.interrupted {
        let display = Display::new(args.common.quiet);
        let watch = Watch { display: &display, ..watch };
        predict_what_was_trained(&trained, watch)?
    } else {
        None
    };
    run_dir::keep_warnings(&trained.run, &warnings)?;
    let (lines, seconds) = (warnings.all(), begun.elapsed().as_secs_f64());
    let report = Report::new(&trained, predicted.as_ref(), &lines, seconds);
    let json = serde_json::to_vec_pretty(&report).map_err(|e| Failure::new(Code::Other, e))?;
    run_dir::write_whole(&trained.run.join("report.json"), &json)?;
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
    let interrupted = trained.interrupted || predicted.as_ref().is_some_and(|p| p.interrupted);
    Ok(exit_code(interrupted))
}

/// The forecasts of a run's test part; `None` where it has none.
fn predict_what_was_trained(
    trained: &Trained,
    watch: Watch<'_>,
) -> Result<Option<Predicted>, Failure> {
    let settings = trained.settings.clone();
    match predict::predict_run(&trained.run, settings, &Asked::default(), watch) {
        Err(failure) if failure.is_nothing_to_forecast() => {
            watch.warnings.warn(failure.to_string());
            Ok(None)
        }
        predicted => predicted.map(Some),
    }
}

/// The JSON result of `predict`.
#[derive(Debug, Serialize)]
struct PredictResult<'a> {
    #[serde(flatten)]
    predicted: &'a Predicted,
    warnings: Vec<String>,
}

fn predict(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(args.common.quiet);
    let (warnings, stop) = (warnings_on(&display), interrupt::on_interrupt()?);
    let _trace = Trace::start(args.common.verbose, None);
    let watch = Watch { display: &display, warnings: &warnings, stop: &stop };
    let predicted = predict::predict(args, watch)?;
    // The forecasts are there; a run that cannot be written to is no reason to call that a failure.
    if let Err(failure) = run_dir::keep_warnings(&predicted.run, &warnings) {
        warnings.warn(failure.to_string());
    }
    if args.common.json {
        print_json(&PredictResult { predicted: &predicted, warnings: warnings.all() })?;
    } else if let Some(line) = predicted.line() {
        display.say(&line);
    }
    Ok(exit_code(predicted.interrupted))
}

/// Warnings that a person sees at once.
fn warnings_on(display: &Display) -> Warnings {
    let display = display.clone();
    Warnings::telling(move |line| display.say(&format!("warning: {line}")))
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
