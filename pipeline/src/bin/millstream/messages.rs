//! Words for a person on stderr, results on stdout: the one place that writes to either, but for the
//! forecasts that `predict --output -` is asked for.
//!
//! A message that nobody can read is no reason to stop working: a full disk behind `2>`, a reader
//! that went (`2>&1 | head`) or a closed terminal must neither end a training run nor keep it from
//! hearing a signal. So messages are written as well as it goes. A result that cannot be written is
//! an error: somebody asked for it. The macros of the standard library panic in both cases and are
//! linted away in `main.rs`.

use crate::closed_stdout;
use millstream::{Error, ErrorKind};
use serde::Serialize;
use std::io::{self, IsTerminal, Write, stderr, stdout};

/// Says one line, if anybody can be told.
pub(crate) fn tell(line: &str) {
    // In one piece, so that lines of several threads or processes stay lines.
    drop(Stderr.write_all(format!("{line}\n").as_bytes()));
}

/// Says what went wrong.
pub(crate) fn tell_error(error: &str) {
    let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let word = if colour { "\u{1b}[31merror\u{1b}[0m" } else { "error" };
    tell(&format!("{word}: {error}"));
}

/// Writes a result.
///
/// # Errors
/// When it is not out in full: the disk is full, or the reader is gone.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|source| Error::new(ErrorKind::Other, CannotPrint { source }))
}

/// Writes tables for a person, who may have seen enough before the end: `… | head`.
///
/// # Errors
/// When it is not out in full though somebody reads it.
pub(crate) fn print_while_read(text: &str) -> Result<(), Error> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|source| Error::new(ErrorKind::Other, CannotPrint { source })),
    }
}

/// Writes a result as one line of JSON.
///
/// # Errors
/// As [`print()`], and when stdout was closed from the start.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    closed_stdout::check()?;
    let json = serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::Other, error))?;
    print(&format!("{json}\n"))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to stdout")]
struct CannotPrint {
    source: io::Error,
}

/// Stderr as a writer that never fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // There is nobody left to tell that there is nobody to tell.
        drop(stderr().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
