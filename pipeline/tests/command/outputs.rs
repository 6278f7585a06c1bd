//! Where `predict` writes besides files: rows on stdout, and nothing else there.

use crate::{
    bench::{Bench, check_fails, stderr},
    running::Running,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::{ChildStdout, Command, Stdio},
};

/// More rows than a pipe holds.
fn trained() -> Bench {
    let bench = Bench::with_csv(20, 80, "");
    bench.json(&["train", "--json"]);
    bench
}

const ALL: [&str; 5] = ["predict", "--from", "2020-01-01", "--output", "-"];

#[test]
fn stdout_has_the_rows_and_nothing_else() {
    let bench = trained();
    let output = bench.run(&ALL);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("run "), "what is for people goes to stderr");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = bench.forecasts(&ALL[1..3]);
    assert_eq!(text.lines().count(), expected.len());
    for (line, expected) in text.lines().zip(expected) {
        assert!(line.starts_with("{\"symbol\":\"s"), "{line}");
        let row: Value = serde_json::from_str(line).unwrap();
        let row = row.as_object().unwrap();
        assert_eq!(row.len(), expected.len());
        for (name, cell) in &expected {
            let found = match &row[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            assert_eq!(found, *cell, "{name} of {line}");
        }
    }
    bench.json(&["predict", "--json", "--from", "2020-01-01", "--output", "f.ndjson"]);
    assert_eq!(std::fs::read_to_string(bench.path("f.ndjson")).unwrap(), text);
}

#[test]
fn stdout_is_for_one_thing() {
    let bench = Bench::with_csv(6, 80, "");
    let run = bench.json(&["train", "--json"])["run"].as_str().unwrap().to_owned();
    let both = bench.run(&["predict", "--json", "--output", "-"]);
    check_fails(&both, 2, &["--json and --output - both write to stdout"]);
    let journal = format!("{run}/metrics.jsonl");
    let before = std::fs::read(bench.path(&journal)).unwrap();
    check_fails(&bench.run(&["predict", "--output", &journal]), 2, &["a file of the run"]);
    assert_eq!(std::fs::read(bench.path(&journal)).unwrap(), before);
    assert!(!bench.path("-").exists());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let bench = trained();
    let mut command = bench.command(&ALL);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"symbol\""), "{first}");
    // The rest does not fit the pipe, so it meets a reader that is gone.
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_does_not_read_keeps_nobody_from_stopping() {
    let bench = trained();
    let mut command = bench.command(&ALL);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let running = Running::of(child);
    // It is writing, and the pipe does not hold all of it.
    running.wait_for(|| waiting(&stdout) > 48 << 10);
    running.signal(libc::SIGINT);
    let output = running.output();
    check_fails(&output, 5, &["interrupted; stdout has a part of the forecasts"]);
}

/// Bytes in a pipe that nobody has read.
fn waiting(pipe: &ChildStdout) -> i32 {
    let mut bytes = 0;
    // SAFETY: the pipe is open, and the call writes one number to where it is told.
    let asked = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(asked, 0, "a pipe knows what it holds");
    bytes
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let bench = trained();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = bench.command(&ALL).stdout(full).output().unwrap();
    check_fails(&output, 1, &["cannot write the forecasts", "No space left"]);
}

/// As `>&-` starts a program.
fn without_stdout(mut command: Command) -> std::process::Output {
    let close = || {
        // SAFETY: the descriptor is not used any more by this process, which is to be another.
        unsafe { libc::close(libc::STDOUT_FILENO) };
        Ok(())
    };
    // SAFETY: `close` may be called between fork and exec.
    unsafe { command.pre_exec(close) };
    command.output().unwrap()
}

#[test]
fn results_without_a_stdout_are_an_error() {
    let bench = trained();
    let output = without_stdout(bench.command(&ALL));
    check_fails(&output, 1, &["cannot write the result to stdout, which is closed"]);
    let output = without_stdout(bench.command(&["predict", "--json", "--output", "f.csv"]));
    check_fails(&output, 1, &["cannot write the result to stdout, which is closed"]);
    // Who throws them away gets what he asks for.
    let thrown = bench.command(&ALL).stdout(Stdio::null()).status().unwrap();
    assert!(thrown.success());
}

#[test]
fn a_prediction_that_is_cut_short_says_that_nothing_was_written() {
    // A window at a time takes minutes.
    let large = "[source.generate]\nseries = 200\nrows = 1000\n[window]\nlookback = 5\n\
        [train]\nepochs = 1\nbatch_size = 4096\n[train.model_options]\nhidden = 4\n[run]\nthreads = 1\n";
    let bench = Bench::new(large);
    bench.json(&["train", "--json"]);
    let args = ["predict", "--part", "train", "--set", "train.batch_size=1", "--output", "f.csv"];
    for json in [false, true] {
        let mut command = bench.command(&args);
        command.args(json.then_some("--json"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = Running::start(command);
        running.wait_for(|| written_so_far(&bench) > 0);
        running.signal(libc::SIGTERM);
        let output = running.output();
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        let said = stderr(&output);
        let last = said.lines().last();
        assert_eq!(last, Some("interrupted; nothing was written"), "{said}");
        assert!(!said.contains("without saving"), "there is nothing to save: {said}");
        assert!(!bench.path("f.csv").exists());
        if json {
            let result: Value = serde_json::from_slice(&output.stdout).unwrap();
            let found = [&result["interrupted"], &result["rows"], &result["output"]];
            assert_eq!(found, [&Value::from(true), &0.into(), &Value::Null], "{result}");
        }
    }
}

/// Bytes of forecasts in a file that has no name yet.
fn written_so_far(bench: &Bench) -> u64 {
    let partial = bench.files().into_iter().find(|name| name.starts_with(".f.csv.partial"));
    let found = partial.and_then(|name| std::fs::metadata(bench.path(&name)).ok());
    found.map_or(0, |found| found.len())
}

#[test]
fn a_name_without_an_ending_says_what_is_in_it() {
    let bench = trained();
    let said = stderr(&bench.run(&["predict", "--output", "x"]));
    assert!(said.contains("series in x (Parquet)"), "{said}");
    let said = stderr(&bench.run(&["predict", "--output", ".jsonl"]));
    assert!(said.contains("series in .jsonl") && !said.contains("Parquet"), "{said}");
    let text = std::fs::read_to_string(bench.path(".jsonl")).unwrap();
    assert!(text.starts_with("{\"symbol\""), "{text}");
}
