//! Whether there was a stdout when the process began, or none (`>&-`).
//!
//! The standard library opens `/dev/null` in place of what is closed, before `main`, so that a result would
//! be lost without a word. It cannot be told from a `/dev/null` that somebody asked for then, so this looks
//! before the library does.

use millstream::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: it asks for a flag of a descriptor, which need not be open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// What the loader calls before the standard library is prepared.
// SAFETY: the section is a list of such functions, and `look` needs nothing of the library.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Somebody asked for a result on stdout.
///
/// # Errors
/// Nobody gets it.
pub(crate) fn check() -> Result<(), Error> {
    match CLOSED.load(Ordering::Relaxed) {
        true => {
            Err(Error::new(ErrorKind::Other, "cannot write the result to stdout, which is closed"))
        }
        false => Ok(()),
    }
}
