//! Events: a point in a stream that others can wait for.

use crate::clock::VectorClock;
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

#[derive(Debug, Default)]
pub(crate) struct Event {
    state: Mutex<State>,
    passed: Condvar,
}

/// What is known of an event. An event that was never recorded counts as passed.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// How often it was recorded, and how many of those the streams have come to.
    recorded: u64,
    done: u64,
    /// Of the latest record: what its stream knew, and when it comes on the virtual clock.
    pub(crate) clock: VectorClock,
    pub(crate) virtual_ns: u64,
    /// When the stream came to it.
    pub(crate) real: Option<Instant>,
}

impl Event {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a record and gives its number.
    pub(crate) fn record(&self, clock: &VectorClock, virtual_ns: u64) -> u64 {
        let mut state = self.state();
        state.clock.copy_from(clock);
        state.virtual_ns = virtual_ns;
        state.recorded += 1;
        state.recorded
    }

    /// The latest record's number.
    pub(crate) fn latest(&self) -> u64 {
        self.state().recorded
    }

    /// The stream has come to record `number`.
    pub(crate) fn pass(&self, number: u64) {
        let mut state = self.state();
        state.done = state.done.max(number);
        state.real = Some(Instant::now());
        drop(state);
        self.passed.notify_all();
    }

    pub(crate) fn has_passed(&self, number: u64) -> bool {
        self.state().done >= number
    }

    pub(crate) fn wait(&self, number: u64) {
        let mut state = self.state();
        while state.done < number {
            state = self.passed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
