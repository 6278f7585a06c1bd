//! Where `predict` writes besides files: rows on stdout, and nothing else there.

use crate::{
    bench::{Bench, check_fails, stderr},
    running::Running,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    os::fd::AsRawFd,
    process::{ChildStdout, Stdio},
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
