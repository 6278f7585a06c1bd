//! Ctrl-C: the first asks the line to stop at the next step, the second ends the process.

use crate::failure::{Code, Failure};
use crossbeam_channel::{Receiver, unbounded};

/// A channel that gets a message at the first Ctrl-C (or SIGTERM).
pub(crate) fn on_interrupt() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = unbounded();
    let mut asked = false;
    ctrlc::set_handler(move || {
        if asked {
            std::process::exit(Code::Interrupted as i32);
        }
        asked = true;
        eprintln!("\nstopping at the next step (Ctrl-C again to stop at once, without saving)");
        // The line may have ended just now; then there is nothing left to stop.
        let _ = sender.send(());
    })
    .map_err(|error| Failure::new(Code::Other, error))?;
    Ok(receiver)
}
