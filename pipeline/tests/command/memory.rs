//! What a prediction takes of memory does not grow with the rows that it writes.

use crate::bench::Bench;
use std::process::{Command, Stdio};

/// The most memory that a command had, in megabytes.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it, and says what it took")]
fn peak_mb(command: &mut Command) -> f64 {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: zeros are a value of this struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it is a child of this process that nobody else waits for; both places are writable.
    let ended = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
    assert_eq!((ended, status), (id, 0));
    usage.ru_maxrss as f64 / 1024.0
}

/// Kept as they are written, the rows would take a hundred megabytes more.
#[test]
fn rows_that_were_written_are_let_go_of() {
    let bench = Bench::with_csv(40, 2_500, "");
    bench.json(&["train", "--json", "--limit-batches", "2", "--set", "window.horizon=40"]);
    let forecast = |chosen: &[&str]| {
        let command = [&["predict", "--quiet", "--output", "out.parquet"], chosen].concat();
        peak_mb(&mut bench.command(&command))
    };
    // The cache is there before either.
    forecast(&["--last", "1"]);
    let (few, many) = (forecast(&["--last", "100"]), forecast(&["--from", "2020-01-01"]));
    let rows = bench.json(&["predict", "--json", "--from", "2020-01-01"])["rows"].as_u64().unwrap();
    assert!(rows > 3_900_000, "{rows}");
    assert!(many < few + 40.0, "{few} MB for 160,000 rows, {many} MB for {rows}");
}
