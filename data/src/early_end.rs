//! [`EarlyEnd`]: how whoever learns tells whoever makes the batches that it has learned enough.
//!
//! It only spares work: what was made before the word arrived is let go of, so what is learned does not
//! depend on when it does.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether training has ended before its last epoch. A clone is of another stream.
#[derive(Debug, Default)]
pub(crate) struct EarlyEnd(AtomicBool);

impl EarlyEnd {
    pub(crate) fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for EarlyEnd {
    fn clone(&self) -> Self {
        EarlyEnd(AtomicBool::new(self.has_come()))
    }
}

impl PartialEq for EarlyEnd {
    fn eq(&self, other: &Self) -> bool {
        self.has_come() == other.has_come()
    }
}
