//! What the parts of a line are: [`Source`], [`Stage`] and [`Sink`].
//!
//! A part holds no channel and knows no neighbour. It is handed what arrived and an [`Emit`] for
//! what it makes; the line's driver does the channel work, the counting and the shutting down.

use crate::{
    counters::{Activity, Counters},
    lease::{Lease, Pool},
    link::Outlet,
};
use crossbeam_channel::{Receiver, TryRecvError};
use std::{convert::Infallible, error::Error};

/// Something that travels along a line.
pub trait Item: Send + 'static {
    /// Rows of data it carries: table rows for a panel, windows for a batch.
    fn rows(&self) -> u64;
    /// Bytes of data it carries.
    fn bytes(&self) -> u64;
}

/// What is on a lease travels as it would by itself.
impl<T: Item> Item for Lease<T> {
    fn rows(&self) -> u64 {
        T::rows(self)
    }

    fn bytes(&self) -> u64 {
        T::bytes(self)
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// More is welcome.
    Continue,
    /// Nothing more is wanted; return as soon as possible. Not an error.
    Stop,
}

/// How a sink's stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every item arrived.
    Drained,
    /// The sink itself asked to stop.
    Stopped,
    /// Someone outside asked the line to stop (Ctrl-C).
    Interrupted,
}

/// Starts a line.
pub trait Source: Send + 'static {
    /// What it makes.
    type Out: Item;
    /// Why it may fail.
    type Error: Error + Send + Sync + 'static;

    /// Makes the next item; `None` ends the stream.
    ///
    /// # Errors
    /// An error ends the line and is reported as its root cause.
    fn next(&mut self) -> Result<Option<Self::Out>, Self::Error>;
}

/// Turns each item into any number of items.
pub trait Stage: Send + 'static {
    /// What it takes.
    type In: Item;
    /// What it makes.
    type Out: Item;
    /// Why it may fail.
    type Error: Error + Send + Sync + 'static;

    /// Handles one item. When [`Emit::send`] answers [`Flow::Stop`], the next stage is gone: return
    /// `Ok(Flow::Stop)` at once.
    ///
    /// # Errors
    /// An error ends the line and is reported as its root cause.
    fn process(
        &mut self,
        input: Self::In,
        emit: &mut Emit<'_, Self::Out>,
    ) -> Result<Flow, Self::Error>;
}

/// Ends a line. Runs on the thread that calls [`Pipeline::run`](crate::Pipeline::run).
pub trait Sink {
    /// What it takes.
    type In: Item;
    /// What it leaves when the stream has ended.
    type Report;
    /// Why it may fail.
    type Error: Error + Send + Sync + 'static;

    /// Takes one item; [`Flow::Stop`] ends the line early, without an error.
    ///
    /// # Errors
    /// An error ends the line and is reported as its root cause.
    fn accept(&mut self, input: Self::In) -> Result<Flow, Self::Error>;

    /// Called once, when the stream has ended. Never called for a truncated stream.
    ///
    /// # Errors
    /// An error is reported as the line's root cause.
    fn finish(self, ending: Ending) -> Result<Self::Report, Self::Error>;
}

/// Where a [`Stage`] puts what it makes.
#[derive(Debug)]
pub struct Emit<'a, T> {
    outlet: &'a Outlet<T>,
    counters: &'a Counters,
}

impl<'a, T: Item> Emit<'a, T> {
    pub(crate) fn new(outlet: &'a Outlet<T>, counters: &'a Counters) -> Self {
        Emit { outlet, counters }
    }

    /// Sends one item on, waiting while the link is full.
    pub fn send(&mut self, item: T) -> Flow {
        let (rows, bytes) = (item.rows(), item.bytes());
        let outlet = self.outlet;
        match self.waiting(|| outlet.send(item)) {
            Ok(()) => {
                self.counters.add_item(rows, bytes);
                Flow::Continue
            }
            Err(_) => Flow::Stop,
        }
    }

    /// Takes a value from a pool, waiting until one is free; the time counts as waiting for
    /// output. `None` when the next stage is gone: return `Ok(Flow::Stop)` at once.
    ///
    /// A stage takes its slots here and not from the pool itself: the slots it waits for may lie,
    /// unread, in the link to a stage that is gone, and then only this notices.
    pub fn take<V>(&mut self, pool: &Pool<V>) -> Option<Lease<V>> {
        let gone = self.outlet.gone();
        self.waiting(|| pool.take_until(gone))
    }

    /// Tells whether the next stage is gone, from any thread: for a stage that works long on one
    /// item and has nothing to send meanwhile.
    #[must_use]
    pub fn next(&self) -> Next<'a> {
        Next { gone: self.outlet.gone() }
    }

    fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        let _span = tracing::trace_span!("wait_out").entered();
        self.counters.turn_to(Activity::WaitOut);
        let result = wait();
        self.counters.turn_to(Activity::Busy);
        result
    }
}

/// The next stage, as seen by one that is busy. See [`Emit::next`].
#[derive(Debug, Clone, Copy)]
pub struct Next<'a> {
    gone: &'a Receiver<Infallible>,
}

impl Next<'_> {
    /// Whether there is nobody left to work for: return `Ok(Flow::Stop)` at once.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone.try_recv() == Err(TryRecvError::Disconnected)
    }
}
