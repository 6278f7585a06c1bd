//! Ctrl-C: the first asks the line to stop at the next step, the second ends the process.

use crate::failure::{Code, Failure};
use crossbeam_channel::{Receiver, unbounded};
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether there was a Ctrl-C. A signal concerns the process, so this is one for the process.
static ASKED: AtomicBool = AtomicBool::new(false);

/// What a loader that is in the middle of a long read should do.
pub(crate) fn go_on() -> ControlFlow<()> {
    if ASKED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A channel that gets a message at the first Ctrl-C (or SIGTERM).
pub(crate) fn on_interrupt() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = unbounded();
    ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(Code::Interrupted as i32);
        }
        eprintln!("\nstopping at the next step (Ctrl-C again to stop at once, without saving)");
        // The line may have ended just now; then there is nothing left to stop.
        let _ = sender.send(());
    })
    .map_err(|error| Failure::new(Code::Other, error))?;
    Ok(receiver)
}
