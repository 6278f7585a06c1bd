//! The `millstream` command: the only place that sees two stages.
//!
//! Settings and flags come in, lines are wired and run, results go out: messages and bars on
//! stderr, results on stdout, one documented exit code.
// They panic when nobody can be told; see messages.rs.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod dead_runs;
mod device;
mod doctor;
mod ending;
mod export;
mod failure;
mod import;
mod interrupt;
mod loading_bar;
mod memory;
mod messages;
mod output;
mod predict;
mod progress;
mod report;
mod run_dir;
mod runs;
mod secrets;
mod settings;
mod summary;
mod threads;
mod trace;
mod train;
mod training_bar;
mod unsaved;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command, Common, PredictArgs, TrainArgs};
use ending::LastWords;
use failure::{Code, Failure};
use messages::{print, print_json, tell, tell_error};
use millstream_stage::Warnings;
use predict::{Asked, Predicted, Watch};
use progress::Display;
use report::Report;
use serde::Serialize;
use settings::Settings;
use std::{
    io::{IsTerminal, stderr, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Instant,
};
use trace::Trace;
use train::Trained;

fn main() {
    memory::keep_freed();
    interrupt::ignore_file_size_limits();
    ending::tell_panics_without_secrets();
    // Nothing that a panic left half done is looked at again.
    let code = catch_unwind(AssertUnwindSafe(command)).unwrap_or(Code::Other as u8);
    ending::end(code)
}

/// Runs the command that the flags name, to its exit code.
fn command() -> u8 {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return usage(&error),
    };
    let json = command.json();
    let failure = match catch_unwind(AssertUnwindSafe(|| run(command))) {
        Ok(Ok(code)) => return code as u8,
        Ok(Err(failure)) => failure,
        // It has been told on stderr, by the hook.
        Err(_) => {
            let failure = ending::defect();
            if json {
                drop(print_json(&failure.to_json()));
            }
            return failure.code as u8;
        }
    };
    // Where a second Ctrl-C ends the process, what it disturbed is not told any more.
    let last = LastWords::claim();
    if json {
        // Where stdout takes nothing, stderr still says what failed.
        drop(print_json(&failure.to_json()));
    }
    tell_error(&failure.to_string());
    last.end(failure.code as u8)
}

/// Help and version as asked for, or what is wrong with the flags.
fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        // As clap would: with colours where somebody looks.
        let text = error.render();
        let text = if stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        return match print(&text) {
            Ok(()) => Code::Done as u8,
            Err(failure) => {
                tell_error(&failure.to_string());
                failure.code as u8
            }
        };
    }
    // Flags that cannot be read cannot say what they ask for, but this one can be seen.
    if std::env::args_os().any(|flag| flag == "--json") {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        let line = line.strip_prefix("error: ").unwrap_or(line).to_owned();
        drop(print_json(&Failure::settings(line).to_json()));
    }
    let text = error.render();
    let text = if stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    tell(secrets::hide(&text).trim_end());
    Code::Settings as u8
}

fn run(command: Command) -> Result<Code, Failure> {
    match command {
        Command::Pipeline(args) => pipeline(&args, true),
        Command::Train(args) => pipeline(&args, false),
        Command::Predict(args) => predict(&args),
        Command::Import(args) => import::import(&args),
        Command::Export(args) => export::export(&args),
        Command::Doctor(common) => {
            let settings = Settings::load(common.config.as_deref(), &common.set)?;
            let findings = doctor::examine(&settings);
            if common.json {
                print_json(&findings)?;
            } else {
                print(&doctor::table(&findings))?;
            }
            let lacks = doctor::lacks_what_is_asked(&findings);
            Ok(if lacks { Code::Device } else { Code::Done })
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "millstream", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(Code::Done)
        }
    }
}

/// `train`, and for `pipeline` the forecasts of what it trained.
fn pipeline(args: &TrainArgs, and_predict: bool) -> Result<Code, Failure> {
    let begun = Instant::now();
    let display = Display::new(args.common.quiet);
    let (warnings, stop) = (warnings_on(&display), interrupt::on_interrupt(&args.common)?);
    let watch = Watch { display: &display, warnings: &warnings, stop: &stop };
    let trained = train::train(args, watch)?;
    let report = |predicted: Option<&Predicted>, show: Option<&Common>| {
        run_dir::keep_warnings(&trained.run, &warnings)?;
        let (lines, seconds) = (warnings.all(), begun.elapsed().as_secs_f64());
        let report = Report::new(&trained, predicted, &lines, seconds);
        let json = serde_json::to_vec_pretty(&report).map_err(|e| Failure::new(Code::Other, e))?;
        run_dir::write_whole(&trained.run.join(run_dir::REPORT), &json)?;
        match show {
            Some(common) if common.json => print_json(&report),
            Some(common) if !common.quiet => print(&summary::table(&report)),
            _ => Ok(()),
        }
    };
    let forecasts = if and_predict && !trained.interrupted {
        interrupt::nothing_to_save(format!("interrupted; {}", forecast_later(&trained.run)));
        // What was trained is there, whatever becomes of the forecasts.
        report(None, None)?;
        let display = Display::new(args.common.quiet);
        let watch = Watch { display: &display, ..watch };
        predict_what_was_trained(&trained, watch)?
    } else {
        Forecasts::None
    };
    let predicted =
        if let Forecasts::Made(predicted) = &forecasts { Some(predicted) } else { None };
    report(predicted, Some(&args.common))?;
    // This is told to a person who asked for quiet, too: it is how the work is not lost.
    if trained.interrupted {
        tell(&format!("interrupted; {}", train::go_on_later(&trained.run)));
    } else if forecasts.were_interrupted() {
        tell(&format!("interrupted; {}", forecast_later(&trained.run)));
    }
    Ok(exit_code(trained.interrupted || forecasts.were_interrupted()))
}

fn forecast_later(run: &Path) -> String {
    format!("the model is trained; forecast with: millstream predict --run {}", run.display())
}

/// What became of the forecasts of a run's test part.
enum Forecasts {
    Made(Predicted),
    /// It has none, or none were asked for.
    None,
    Interrupted,
}

impl Forecasts {
    fn were_interrupted(&self) -> bool {
        match self {
            Forecasts::Made(predicted) => predicted.interrupted,
            Forecasts::None => false,
            Forecasts::Interrupted => true,
        }
    }
}

fn predict_what_was_trained(trained: &Trained, watch: Watch<'_>) -> Result<Forecasts, Failure> {
    let settings = trained.settings.clone();
    match predict::predict_run(&trained.run, settings, &Asked::default(), watch) {
        Err(failure) if failure.is_nothing_to_forecast() => {
            watch.warnings.warn(failure.to_string());
            Ok(Forecasts::None)
        }
        Err(failure) if failure.code == Code::Interrupted => Ok(Forecasts::Interrupted),
        predicted => predicted.map(Forecasts::Made),
    }
}

/// The JSON result of `predict`.
#[derive(Debug, Serialize)]
struct PredictResult<'a> {
    #[serde(flatten)]
    predicted: &'a Predicted,
    warnings: Vec<String>,
}

fn predict(args: &PredictArgs) -> Result<Code, Failure> {
    let display = Display::new(args.common.quiet);
    let (warnings, stop) = (warnings_on(&display), interrupt::on_interrupt(&args.common)?);
    let _trace = Trace::start(args.common.verbose);
    let watch = Watch { display: &display, warnings: &warnings, stop: &stop };
    interrupt::nothing_to_save("interrupted; nothing was written".to_owned());
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

fn exit_code(interrupted: bool) -> Code {
    if interrupted { Code::Interrupted } else { Code::Done }
}
