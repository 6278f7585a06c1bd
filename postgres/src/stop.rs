//! [`Stop`]: how a wait for a server is called off, from another thread and at once.
//!
//! A server can be silent at any moment: while it is connected to, in the middle of a statement,
//! when it is asked to cancel one. Whatever waits for it holds a [`Stop`] and gives up when the
//! [`Hold`] of it is dropped; nobody polls.

use std::future::pending;
use tokio::sync::watch;

/// Dropping it calls off every wait that has its [`Stop`].
#[derive(Debug)]
pub struct Hold {
    /// Never used: what counts is whether it is there.
    _sender: watch::Sender<()>,
}

/// Tells when a wait is called off. The default never is.
#[derive(Debug, Clone, Default)]
pub struct Stop(Option<watch::Receiver<()>>);

impl Stop {
    /// A new one, with what calls it off.
    #[must_use]
    pub fn new() -> (Hold, Stop) {
        let (sender, receiver) = watch::channel(());
        (Hold { _sender: sender }, Stop(Some(receiver)))
    }

    /// Waits until it is called off.
    pub(crate) async fn called(self) {
        match self.0 {
            // Nothing is ever sent, so this ends with the sender.
            Some(mut receiver) => while receiver.changed().await.is_ok() {},
            None => pending().await,
        }
    }

    /// Whether it has been called off.
    pub(crate) fn is_called(&self) -> bool {
        self.0.as_ref().is_some_and(|receiver| receiver.has_changed().is_err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_wait_is_called_off_when_its_hold_is_dropped() {
        let (hold, stop) = Stop::new();
        assert!(!stop.is_called() && stop.clone().called().now_or_never().is_none());
        drop(hold);
        assert!(stop.is_called() && stop.called().now_or_never().is_some());
        assert!(!Stop::default().is_called());
    }
}
