//! What a host thread knows: the context that is current on it, and what it has waited for.

use crate::{clock::VectorClock, config::Code};
use std::cell::RefCell;

/// The handle of the only context.
pub(crate) const CONTEXT: usize = 0xC0DE;

/// What the calling thread knows.
#[derive(Debug, Default)]
pub(crate) struct Host {
    era: u64,
    /// What it has waited for, and when that was done on the virtual clock.
    pub(crate) clock: VectorClock,
    pub(crate) now: u64,
    context: usize,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

pub(crate) fn current_context() -> usize {
    HOST.with_borrow(|host| host.context)
}

pub(crate) fn set_current_context(context: usize) {
    HOST.with_borrow_mut(|host| host.context = context);
}

/// Fails without a context bound to the thread, as most calls do.
pub(crate) fn need_context() -> Result<(), Code> {
    if current_context() == CONTEXT { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}

/// What the calling thread knows since the driver's latest reset.
pub(crate) fn with_host<R>(era: u64, look: impl FnOnce(&mut Host) -> R) -> R {
    HOST.with_borrow_mut(|host| {
        if host.era != era {
            *host = Host { era, context: host.context, ..Host::default() };
        }
        look(host)
    })
}
