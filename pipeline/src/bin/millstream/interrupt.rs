//! Ctrl-C, SIGTERM and SIGHUP: the first asks the line to stop at the next step, the second ends the
//! process.
//!
//! A line stops between two batches. Before the first there may be none for a long time: a server is
//! silent, a gigabyte is sorted. What is there then is nothing that could be saved, so a process that
//! has not stopped by itself soon is ended, and leaves no empty run behind.
//!
//! A handler can do next to nothing, so it writes the number of its signal into a pipe. The thread
//! that reads them never waits for anybody, least of all for a terminal: the others do the talking.

use crate::{
    cli::Common,
    ending::LastWords,
    messages::{print_json, tell, tell_error},
};
use millstream::{Error, ErrorKind, StopHandle, UnsavedRun};
use std::{
    io::{self, PipeReader, Read},
    os::fd::{BorrowedFd, IntoRawFd},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a line that has nothing to save may take to stop. A person counts to one.
const PATIENCE: Duration = Duration::from_millis(700);

/// Whether there was a signal. It concerns the process, so this is one for the process.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Where the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// How it speaks, once signals are heard.
static VOICE: OnceLock<Voice> = OnceLock::new();

/// What is lost when the process ends now.
static WORK: Mutex<Work> =
    Mutex::new(Work { is_under_way: false, saves: true, whole: false, new_run: None, words: None });

/// Whether the line has stopped, so that nobody need say that it will. Whoever says that holds it.
static STOPPED: Mutex<bool> = Mutex::new(false);

struct Work {
    /// Whether there may be something to save.
    is_under_way: bool,
    /// Whether there ever will be.
    saves: bool,
    /// Whether that is all or nothing.
    whole: bool,
    /// A new run, which goes while it holds nothing.
    new_run: Option<UnsavedRun>,
    /// What to say to somebody who stops it before that.
    words: Option<String>,
}

/// How the command speaks.
#[derive(Debug, Clone, Copy)]
struct Voice {
    json: bool,
    quiet: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen to signals")]
struct Deaf {
    source: io::Error,
}

/// Nothing is there to be saved from here on. Whoever stops the process now hears these words.
pub(crate) fn nothing_to_save(words: String) {
    let mut work = work();
    (work.is_under_way, work.words) = (false, Some(words));
}

/// Nothing is ever to be saved. Whoever stops the process hears these words.
pub(crate) fn nothing_to_wait_for(words: String) {
    nothing_to_save(words);
    work().saves = false;
}

/// All is to be written at the end, or nothing. Whoever stops the process before that hears these words.
pub(crate) fn all_or_nothing(words: String) {
    nothing_to_save(words);
    work().whole = true;
}

/// Makes a new run, which is removed if the process ends before there is a checkpoint in it. Whoever
/// ends the process waits for it to be made, so that none is left that nobody knows of.
pub(crate) fn make_run<T, E>(
    make: impl FnOnce() -> Result<T, E>,
    unsaved: impl FnOnce(&T) -> Option<UnsavedRun>,
) -> Result<T, E> {
    let mut work = work();
    let run = make()?;
    work.new_run = unsaved(&run);
    Ok(run)
}

/// From here on there may be something to save, so a stop is waited for.
pub(crate) fn is_under_way() {
    let mut work = work();
    work.is_under_way = work.saves;
}

/// The line has stopped by itself: what there is to say of that is said by others.
pub(crate) fn has_stopped() {
    *STOPPED.lock().unwrap_or_else(PoisonError::into_inner) = true;
    is_under_way();
}

/// Stops the lines of this handle at the first signal.
pub(crate) fn on_interrupt(common: &Common, lines: StopHandle) -> Result<(), Error> {
    let voice = *VOICE.get_or_init(|| Voice { json: common.json, quiet: common.quiet });
    let listen = || {
        let signals = signals()?;
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || hear(signals, &lines, voice))
    };
    listen().map_err(|source| Error::new(ErrorKind::Other, Deaf { source }))?;
    Ok(())
}

/// A file that grows beyond `ulimit -f` is then an error of the write, which has a name and a place,
/// and not the end of the process without a word.
pub(crate) fn ignore_file_size_limits() {
    // SAFETY: nothing is called when the signal comes.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn hear(mut signals: PipeReader, lines: &StopHandle, voice: Voice) {
    let mut signal = [0];
    // The pipe is never closed, and a read of it has no other reason to fail.
    while signals.read_exact(&mut signal).is_ok() {
        let first = !ASKED.swap(true, Ordering::Relaxed);
        if first {
            lines.stop();
            // Where no thread can be had, the line still stops, if silently.
            drop(thread::Builder::new().name("stopping".to_owned()).spawn(move || stop(voice)));
        } else if i32::from(signal[0]) != libc::SIGHUP {
            // A closed terminal tells the shell and the program, and both tell the program.
            let last = LastWords::seize();
            remove_new_run();
            last.end(ErrorKind::Interrupted.exit_code());
        }
    }
}

/// Says that the line stops, and sees to it while there is nothing to save.
fn stop(voice: Voice) {
    let (is_under_way, whole) = {
        let work = work();
        (work.is_under_way, work.whole)
    };
    let stopped = STOPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if !voice.quiet && is_under_way && !*stopped {
        let without = if whole { "" } else { ", without saving" };
        tell(&format!("\nstopping at the next step (Ctrl-C again to stop at once{without})"));
    }
    drop(stopped);
    end_if_nothing_is_lost(voice);
}

/// A line stops because its time is up: it has as long as one that a person stops.
pub(crate) fn time_is_up() {
    let Some(voice) = VOICE.get().copied() else { return };
    let end = move || end_if_nothing_is_lost(voice);
    drop(thread::Builder::new().name("stopping".to_owned()).spawn(end));
}

/// Ends the process where there is still nothing to save after a while.
fn end_if_nothing_is_lost(voice: Voice) {
    thread::sleep(PATIENCE);
    let words = {
        let mut work = work();
        if work.is_under_way {
            return;
        }
        work.words.take()
    };
    let last = LastWords::claim();
    remove_new_run();
    let error = Error::new(ErrorKind::Interrupted, words.unwrap_or_else(|| NOTHING.to_owned()));
    if voice.json {
        // Where stdout takes nothing, stderr still says it.
        drop(print_json(&error.to_json()));
    }
    tell_error(&error.to_string());
    last.end(ErrorKind::Interrupted.exit_code())
}

/// What is said where nobody said anything better.
const NOTHING: &str = "interrupted";

fn remove_new_run() {
    if let Some(run) = work().new_run.take() {
        run.remove();
    }
}

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of signals, as they come.
fn signals() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // `nohup` has said that a closed terminal is no concern of this program.
        if signal == libc::SIGHUP && is_ignored(signal)? {
            continue;
        }
        let handler = note as extern "C" fn(libc::c_int);
        let mut action = no_action();
        action.sa_sigaction = handler as libc::sighandler_t;
        // A call that is interrupted goes on: nothing in this program expects otherwise.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `note` may be called at any moment: it only loads a number and writes to a file.
        let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(reader)
}

fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    let mut action = no_action();
    // SAFETY: with no new action it only fills in what the old one is.
    let found = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if found == 0 {
        Ok(action.sa_sigaction == libc::SIG_IGN)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What `sigaction` is given to fill in, and what an action is made of.
fn no_action() -> libc::sigaction {
    // SAFETY: it is a struct of numbers and sets of bits, for which zeros are values: no handler, no
    // flags, an empty mask.
    unsafe { std::mem::zeroed() }
}

extern "C" fn note(signal: libc::c_int) {
    // SAFETY: the pipe is never closed.
    let pipe = unsafe { BorrowedFd::borrow_raw(PIPE.load(Ordering::Relaxed)) };
    // The call itself, without a C library that would change `errno` under whoever was interrupted.
    // A pipe that takes no more holds thousands of signals, and one more says nothing new.
    let _ = rustix::io::write(pipe, &[signal as u8]);
}
