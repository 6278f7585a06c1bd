//! The bounded link between two neighbours, and its End marker.
//!
//! A link is a crossbeam channel whose messages are either an item or `End`. The marker is what
//! separates "the stream is complete" from "the stage upstream died": a sender that goes away
//! without it leaves a [`Truncated`] stream, and a sink must not call a truncated stream finished.
//!
//! A crossbeam channel keeps unread messages when its receiver goes, until its sender goes too. If
//! those messages are leases and the sender is waiting for one of them to come back, it would wait
//! for ever. So each link has a second, empty channel that tells the sending side, in whatever it
//! waits for, that the receiving side is [`gone`](Outlet::gone).
//!
//! Nothing here knows about stages, threads or counters.

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use crossbeam_utils::Backoff;
use std::convert::Infallible;

enum Message<T> {
    Item(T),
    End,
}

/// The sending half of a link.
#[derive(Debug)]
pub struct Outlet<T> {
    sender: Sender<Message<T>>,
    gone: Receiver<Infallible>,
}

/// The receiving half of a link.
#[derive(Debug)]
pub struct Inlet<T> {
    receiver: Receiver<Message<T>>,
    /// Nothing is ever sent on it: dropping it is the message.
    _here: Sender<Infallible>,
}

/// The neighbour downstream is gone: stop quietly. Hands the unsent item back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub T);

/// The neighbour upstream is gone and never sent its End marker: it failed and says why itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

/// What came out of an [`Inlet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<T> {
    /// One item.
    Item(T),
    /// The stream is complete.
    End,
    /// Something else ended the wait: a request to stop, or the next neighbour is gone.
    Stopped,
}

/// Makes a link that holds at most `depth` items; 0 hands each item over in person.
///
/// ```
/// use millstream_stage::{Received, Truncated, link};
///
/// let (outlet, inlet) = link(1);
/// outlet.send("grain").unwrap();
/// assert_eq!(inlet.recv(), Ok(Received::Item("grain")));
/// drop(outlet); // no End marker: the reader must not take the stream for complete
/// assert_eq!(inlet.recv(), Err(Truncated));
/// ```
#[must_use]
pub fn link<T>(depth: usize) -> (Outlet<T>, Inlet<T>) {
    let (sender, receiver) = bounded(depth);
    // Not of capacity 0, though nothing is ever sent: waiting on such a channel allocates.
    let (here, gone) = bounded(1);
    (Outlet { sender, gone }, Inlet { receiver, _here: here })
}

impl<T> Outlet<T> {
    /// Sends one item, waiting while the link is full.
    ///
    /// # Errors
    /// [`Closed`] with the item when the receiver is gone.
    pub fn send(&self, item: T) -> Result<(), Closed<T>> {
        self.sender.send(Message::Item(item)).map_err(|unsent| match unsent.into_inner() {
            Message::Item(item) => Closed(item),
            Message::End => unreachable!("an item was sent"),
        })
    }

    /// Disconnects when the receiving side is gone: to be watched by whoever waits for something
    /// else while holding this end.
    #[must_use]
    pub fn gone(&self) -> &Receiver<Infallible> {
        &self.gone
    }

    /// Marks the stream complete and closes this end.
    pub fn finish(self) {
        // A receiver that has already gone does not care how the stream ended.
        drop(self.sender.send(Message::End));
    }
}

impl<T> Inlet<T> {
    /// Waits for the next item or the End marker.
    ///
    /// # Errors
    /// [`Truncated`] when the sender vanished without the End marker.
    pub fn recv(&self) -> Result<Received<T>, Truncated> {
        match self.receiver.recv() {
            Ok(message) => Ok(message.into()),
            Err(_) => Err(Truncated),
        }
    }

    /// Like [`recv`](Self::recv), but a message on `stop` takes precedence over any item.
    ///
    /// # Errors
    /// [`Truncated`] when the sender vanished without the End marker.
    pub fn recv_unless(&self, stop: &Receiver<()>) -> Result<Received<T>, Truncated> {
        if stop.is_empty()
            && let Some(message) = self.soon()
        {
            return Ok(message.into());
        }
        select_biased! {
            recv(stop) -> signal => match signal {
                Ok(()) => Ok(Received::Stopped),
                // Nobody can ask for a stop any more; that is not a request to stop.
                Err(_) => self.recv(),
            },
            recv(self.receiver) -> message => message.map(Received::from).map_err(|_| Truncated),
        }
    }

    /// Like [`recv`](Self::recv), but ends as stopped when `gone` disconnects.
    ///
    /// # Errors
    /// [`Truncated`] when the sender vanished without the End marker.
    pub fn recv_until(&self, gone: &Receiver<Infallible>) -> Result<Received<T>, Truncated> {
        if let Some(message) = self.soon() {
            return Ok(message.into());
        }
        select_biased! {
            recv(gone) -> _ => Ok(Received::Stopped),
            recv(self.receiver) -> message => message.map(Received::from).map_err(|_| Truncated),
        }
    }

    /// What comes within microseconds. A plain receive waits awake for as long before it goes to
    /// sleep, a select does not, and to sleep and be woken costs both sides more.
    fn soon(&self) -> Option<Message<T>> {
        let backoff = Backoff::new();
        while !backoff.is_completed() {
            if let Ok(message) = self.receiver.try_recv() {
                return Some(message);
            }
            backoff.snooze();
        }
        None
    }
}

impl<T> From<Message<T>> for Received<T> {
    fn from(message: Message<T>) -> Self {
        match message {
            Message::Item(item) => Received::Item(item),
            Message::End => Received::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn a_closed_link_hands_the_item_back() {
        let (outlet, inlet) = link(4);
        drop(inlet);
        assert_eq!(outlet.send(7), Err(Closed(7)));
    }

    #[test]
    fn end_arrives_after_the_items() {
        let (outlet, inlet) = link(4);
        outlet.send(1).unwrap();
        outlet.finish();
        assert_eq!(inlet.recv(), Ok(Received::Item(1)));
        assert_eq!(inlet.recv(), Ok(Received::End));
    }

    #[test]
    fn stop_wins_over_a_waiting_item_and_a_dropped_stopper_does_not_stop() {
        let (outlet, inlet) = link(4);
        let (stopper, stop) = unbounded();
        outlet.send(1).unwrap();
        stopper.send(()).unwrap();
        assert_eq!(inlet.recv_unless(&stop), Ok(Received::Stopped));
        drop(stopper);
        assert_eq!(inlet.recv_unless(&stop), Ok(Received::Item(1)));
    }
}
