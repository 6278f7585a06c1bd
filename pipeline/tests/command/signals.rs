//! Signals, and messages that nobody can read: a run goes on, or is saved and ends by the documented
//! code, whoever has gone away.

use crate::{
    bench::{Bench, SMALL, check_fails, stderr},
    running::{Running, epochs},
};
use serde_json::Value;
use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// A file that takes nothing.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_run_whose_messages_nobody_can_read_is_as_good() {
    let bench = Bench::new(SMALL);
    for args in [&["train", "--json"][..], &["train", "--json", "--verbose", "--trace"]] {
        let output = bench.command(args).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["train_loss"].is_number(), "{result}");
    }
    // The reader goes after the first line, as `head` does.
    let mut child = bench
        .command(&["train", "--json", "--verbose"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with('\n'), "{line:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// `ulimit -f`: the system would end the process, without a word.
#[test]
fn a_file_that_may_not_grow_is_an_error_with_a_name() {
    let bench = Bench::new(SMALL);
    let program = env!("CARGO_BIN_EXE_millstream");
    let script = format!("ulimit -f 16; exec {program} train");
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).current_dir(bench.folder.path()).output().unwrap();
    let text = stderr(&output);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{:?}: {text}", output.status);
    assert!(text.contains("File too large"), "{text}");
}

#[test]
fn a_pipeline_that_was_stopped_goes_on_as_one() {
    let bench = Bench::new(SMALL);
    let said = |args: &[&str]| {
        let mut child = bench.command(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        lines.find(|line| line.starts_with("epoch 1")).expect("the run says when an epoch is done");
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let said: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{said:?}");
        said.join("\n")
    };
    let pipeline = said(&["pipeline", "--set", "train.epochs=10000"]);
    assert!(pipeline.contains("go on with: millstream pipeline --resume runs/"), "{pipeline}");
}

#[test]
fn an_error_that_nobody_can_read_has_its_exit_code() {
    let bench = Bench::new(SMALL);
    let code = |args: &[&str]| bench.command(args).stderr(full()).output().unwrap().status.code();
    assert_eq!(code(&["train", "--set", "train.epochs=0"]), Some(2));
    assert_eq!(code(&["train", "--no-such-flag"]), Some(2));
    assert_eq!(code(&["train", "--set", "target.columns=[\"nope\"]"]), Some(3));
}

#[test]
fn a_result_that_cannot_be_written_is_one_line() {
    let bench = Bench::new(SMALL);
    for args in [
        &["completions", "bash"][..],
        &["--help"],
        &["train", "--help"],
        &["--version"],
        &["doctor"],
        &["doctor", "--json"],
        &["train", "--json"],
        &["train"],
    ] {
        let output = bench.command(args).stdout(full()).output().unwrap();
        check_fails(&output, 1, &["cannot write the result to stdout", "No space left"]);
        assert_eq!(stderr(&output).matches("Os {").count(), 0);
    }
}

/// A training run that goes on for as long as nobody stops it, once it has a checkpoint.
fn training(bench: &Bench, change: impl FnOnce(&mut Command)) -> Running {
    let mut command = bench.command(&["train", "--set", &epochs()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    change(&mut command);
    let running = Running::start(command);
    running.wait_for(|| bench.runs().iter().any(|run| run.join("checkpoints/last").is_dir()));
    running
}

/// What it saved can be gone on with, and stopped again.
fn check_resumes(bench: &Bench) {
    for run in bench.runs() {
        let mut command = bench.command(&["train", "--resume", run.to_str().unwrap()]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let goes_on = lines.by_ref().any(|line| {
            let is_it = line.starts_with("epoch ");
            said.push(line);
            is_it
        });
        assert!(goes_on, "{} does not go on: {said:?}", run.display());
        signal(&child, libc::SIGINT);
        let rest: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{said:?} {rest:?}");
    }
}

fn signal(child: &Child, number: libc::c_int) {
    let number = number.to_string();
    let sent = Command::new("kill").args([&format!("-{number}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn who_cannot_be_told_can_be_stopped() {
    for number in [libc::SIGINT, libc::SIGTERM] {
        let bench = Bench::new(SMALL);
        let running = training(&bench, |command| {
            command.stderr(full());
        });
        running.signal(number);
        assert_eq!(running.end().code(), Some(5), "signal {number}");
        check_resumes(&bench);
    }
}

/// As a shell starts a program, whoever started this test.
fn on_hangup(command: &mut Command, action: libc::sighandler_t) {
    let set = move || {
        // SAFETY: it changes what this process does at a signal, and nothing else.
        unsafe { libc::signal(libc::SIGHUP, action) };
        Ok(())
    };
    // SAFETY: `signal` may be called between fork and exec.
    unsafe { command.pre_exec(set) };
}

#[test]
fn a_closed_terminal_saves_however_often_it_says_so() {
    let bench = Bench::new(SMALL);
    let running = training(&bench, |command| {
        on_hangup(command.stderr(full()), libc::SIG_DFL);
    });
    // Its session and the shell both say it.
    running.signal(libc::SIGHUP);
    running.signal(libc::SIGHUP);
    assert_eq!(running.end().code(), Some(5));
    check_resumes(&bench);
}

#[test]
fn nohup_outlives_the_terminal() {
    let bench = Bench::new(SMALL);
    let running = training(&bench, |command| on_hangup(command, libc::SIG_IGN));
    running.signal(libc::SIGHUP);
    let before = bench.journal();
    running.wait_for(|| bench.journal() > before);
    running.signal(libc::SIGTERM);
    assert_eq!(running.end().code(), Some(5));
}

#[test]
fn quiet_says_where_to_go_on_and_nothing_else() {
    let bench = Bench::new(SMALL);
    let said = bench.path("said");
    let running = training(&bench, |command| {
        command.arg("--quiet").stderr(File::create(&said).unwrap());
    });
    running.signal(libc::SIGINT);
    assert_eq!(running.end().code(), Some(5));
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    let run = said.trim_end().strip_prefix("interrupted; go on with: millstream train --resume ");
    assert!(bench.path(run.unwrap_or_else(|| panic!("{said}"))).join("checkpoints/last").is_dir());
}

#[test]
fn a_model_that_is_trained_is_kept_when_its_forecasts_are_not_waited_for() {
    // Forecasts follow in a moment, so it may take a few tries to come between.
    for _ in 0..20 {
        let bench = Bench::new(SMALL);
        let said = bench.path("said");
        let mut command = bench.command(&["pipeline", "--set", "train.epochs=1"]);
        command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
        let running = Running::start(command);
        running.wait_for(|| bench.runs().iter().any(|run| run.join("report.json").is_file()));
        running.signal(libc::SIGINT);
        let code = running.end().code();
        let run = &bench.runs()[0];
        let report = std::fs::read_to_string(run.join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert!(report["train_loss"].is_number(), "{report}");
        if code == Some(5) {
            let said = std::fs::read_to_string(said).unwrap();
            let run = run.strip_prefix(bench.folder.path()).unwrap().to_str().unwrap();
            assert!(said.contains(&format!("millstream predict --run {run}")), "{said}");
            bench.json(&["predict", "--json", "--run", run]);
            return;
        }
        assert_eq!(code, Some(0));
    }
    panic!("no signal came between the training and its forecasts");
}

#[test]
fn preparing_memory_is_not_waited_for() {
    // Ranks of forty columns of a million rows take several seconds.
    let large = "[source.generate]\nseries = 2000\nrows = 500\nfeatures = 40\n\
        [scale]\ncross_section = \"rank\"\nmethod = \"rank_normal\"\n[run]\nthreads = 8\n";
    let bench = Bench::new(large);
    bench.json(&["import", "--json"]);
    let said = bench.path("said");
    let mut command = bench.command(&["train", "--json"]);
    command.stdout(Stdio::piped()).stderr(File::create(&said).unwrap());
    let running = Running::start(command);
    running.wait_for(|| running.has_thread("normalize-1"));
    let asked = std::time::Instant::now();
    running.signal(libc::SIGINT);
    let output = running.output();
    // A second is promised; a busy machine gets another.
    assert!(asked.elapsed().as_secs_f64() < 2.0, "{:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(5));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["exit_code"], 5, "{result}");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("error: interrupted before the first step; nothing was saved"), "{said}");
    assert!(!bench.path("runs").exists(), "a run with nothing in it was left behind");
}
