//! How the process ends: by `_exit`, once, with a documented code, whatever happens.
//!
//! libtorch has threads and static objects. `exit`, and returning from `main`, destroy the objects
//! beside the threads that use them, and that crashes now and then; `_exit` destroys nothing. What
//! is on disk is whole without it: files and checkpoints get their names when they are complete.
//!
//! A panic is a defect, and its message may hold anything, a password too. So only text that stands
//! in the program is shown, and where it happened.

use crate::messages::{tell, tell_error};
use millstream::{Error, ErrorKind};
use std::{
    io::{Write, stdout},
    panic::{self, PanicHookInfo},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whoever holds it ends the process.
static END: Mutex<()> = Mutex::new(());

/// Whether a panic has been told of: others are mostly consequences of the first.
static TOLD: AtomicBool = AtomicBool::new(false);

/// The right to say the last words and end the process; others who want it wait for the end.
#[derive(Debug)]
pub(crate) struct LastWords {
    _end: Option<MutexGuard<'static, ()>>,
}

impl LastWords {
    /// Waits for its turn, which never comes where another thread ends the process.
    pub(crate) fn claim() -> Self {
        LastWords { _end: Some(END.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// Does not wait: whoever has the right may be stuck, in front of a pipe that nobody reads.
    pub(crate) fn seize() -> Self {
        LastWords { _end: END.try_lock().ok() }
    }

    /// Ends the process, with nothing destroyed.
    pub(crate) fn end(&self, code: u8) -> ! {
        // SAFETY: it takes a number and does not return; no destructor of ours or of a library runs,
        // which is the point.
        unsafe { libc::_exit(code.into()) }
    }
}

/// Ends the process when all is done.
pub(crate) fn end(code: u8) -> ! {
    let last = LastWords::claim();
    // Results are flushed where they are written; a failure of that was told there.
    drop(stdout().flush());
    last.end(code)
}

/// Makes a panic say one line, without what it may have found in a value.
pub(crate) fn tell_panics_without_secrets() {
    panic::set_hook(Box::new(|panic| {
        if !TOLD.swap(true, Ordering::Relaxed) {
            tell_error(&line(panic));
            if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
                // Names of functions and files, no values.
                tell(&std::backtrace::Backtrace::force_capture().to_string());
            }
        }
    }));
}

/// What a panic is to `--json` and the exit code.
pub(crate) fn defect() -> Error {
    Error::new(ErrorKind::Other, "a defect of millstream; stderr says where")
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    // A `&str` stands in the program; what was put together at run time is a `String`.
    let what = panic.payload().downcast_ref::<&'static str>().copied();
    let what = what.map(|text| format!(" ({text})")).unwrap_or_default();
    let at = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
    let at = at.unwrap_or_default();
    format!("a defect of millstream{at}{what}; please report this line and the command")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{panic::catch_unwind, sync::Arc};

    #[test]
    fn a_panic_says_where_and_shows_no_value() {
        let (lines, before) = (Arc::new(Mutex::new(Vec::new())), panic::take_hook());
        let kept = Arc::clone(&lines);
        panic::set_hook(Box::new(move |panic| kept.lock().unwrap().push(line(panic))));
        let secret = std::hint::black_box("hunter2");
        let panics: [fn(&str); 3] = [
            |_| panic!("a batch in a line has been filled"),
            |secret| panic!("wrong password {secret}"),
            |secret| secret.parse::<u8>().map_err(|_| secret).map(drop).unwrap(),
        ];
        for panic in panics {
            catch_unwind(|| panic(secret)).unwrap_err();
        }
        panic::set_hook(before);
        let lines = lines.lock().unwrap();
        assert!(lines[0].contains("(a batch in a line has been filled)"), "{lines:?}");
        for line in lines.iter() {
            assert!(line.contains("ending.rs:") && !line.contains("hunter2"), "{line}");
            assert_eq!(line.lines().count(), 1);
        }
    }
}
