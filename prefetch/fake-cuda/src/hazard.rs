//! The hazard detector: two accesses to the same bytes, one of them a write, that nothing orders.
//!
//! An access is judged when it is enqueued, by vector clocks, so a mistake shows however the
//! threads happen to run. Per allocation only the accesses are kept that a later one could still
//! collide with and that no kept one stands for.

use crate::clock::VectorClock;
use std::ops::Range;

/// What kind of mistake was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Hazard {
    /// Two accesses by streams, one of them a write, with no order between them.
    Unordered,
    /// The host writes to memory that a queued copy still reads.
    HostWrite,
    /// Memory was freed while queued work may still use it.
    FreeInUse,
    /// An asynchronous copy from memory that is not pinned: a real driver makes it wait.
    Unpinned,
    /// A copy or kernel outside of any allocation.
    OutOfBounds,
}

impl Hazard {
    /// Every kind.
    pub const ALL: [Hazard; 5] = [
        Hazard::Unordered,
        Hazard::HostWrite,
        Hazard::FreeInUse,
        Hazard::Unpinned,
        Hazard::OutOfBounds,
    ];
}

/// What a stream does to a range of memory.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) range: Range<usize>,
    pub(crate) write: bool,
    /// Its stream, and which of the stream's operations it is.
    pub(crate) stream: usize,
    pub(crate) tick: u64,
    pub(crate) what: &'static str,
}

impl Access {
    fn touches(&self, range: &Range<usize>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn done_by(&self, clock: &VectorClock) -> bool {
        clock.get(self.stream) >= self.tick
    }
}

/// The accesses to one allocation that still matter.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<Access>);

impl History {
    /// Adds an access by a stream that knows `clock`; the first access it collides with.
    pub(crate) fn add(&mut self, access: Access, clock: &VectorClock) -> Option<Access> {
        let collides = |old: &&Access| {
            old.touches(&access.range)
                && (old.write || access.write)
                && old.stream != access.stream
                && !old.done_by(clock)
        };
        let found = self.0.iter().find(collides).cloned();
        // Whoever is ordered after the new access is then ordered after these too. A read stands
        // for no write, nor for a read of another stream, which it need not come after.
        self.0.retain(|old| {
            let covered =
                access.range.start <= old.range.start && old.range.end <= access.range.end;
            let stands_for = access.write || (old.stream == access.stream && !old.write);
            !(covered && stands_for)
        });
        self.0.push(access);
        found
    }

    /// An access to `range` that the host, which knows `clock`, has not seen the end of.
    pub(crate) fn unfinished(&self, range: &Range<usize>, clock: &VectorClock) -> Option<&Access> {
        self.0.iter().find(|access| access.touches(range) && !access.done_by(clock))
    }
}

/// What was found so far.
#[derive(Debug)]
pub(crate) struct Findings {
    counts: [u64; Hazard::ALL.len()],
    texts: Vec<String>,
}

/// After so many, hazards are only counted.
const KEPT: usize = 20;

impl Findings {
    pub(crate) const fn new() -> Self {
        Findings { counts: [0; Hazard::ALL.len()], texts: Vec::new() }
    }

    pub(crate) fn add(&mut self, hazard: Hazard, text: impl FnOnce() -> String) {
        self.counts[hazard as usize] += 1;
        if self.texts.len() < KEPT {
            self.texts.push(format!("{hazard:?}: {}", text()));
        }
    }

    pub(crate) fn count(&self, hazard: usize) -> u64 {
        self.counts.get(hazard).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(stream: usize, clock: &mut VectorClock, write: bool) -> Access {
        Access { range: 0..8, write, stream, tick: clock.tick(stream), what: "test" }
    }

    #[test]
    fn a_write_must_know_every_reader() {
        let (mut copy, mut compute) = (VectorClock::default(), VectorClock::default());
        let mut history = History::default();
        let write = access(0, &mut copy, true);
        assert!(history.add(write, &copy).is_none());
        compute.join(&copy);
        let read = access(1, &mut compute, false);
        assert!(history.add(read, &compute).is_none(), "the reader knows the write");

        let unaware = access(0, &mut copy, true);
        assert!(history.add(unaware, &copy).is_some(), "the writer does not know the reader");
        assert_eq!(history.0.len(), 1, "a write stands for all before it");
    }

    #[test]
    fn readers_do_not_collide_and_a_later_one_of_the_same_stream_stands_for_the_earlier() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        let mut history = History::default();
        for _ in 0..3 {
            let read = access(0, &mut a, false);
            assert!(history.add(read, &a).is_none());
            let read = access(1, &mut b, false);
            assert!(history.add(read, &b).is_none());
        }
        assert_eq!(history.0.len(), 2);
        assert!(history.unfinished(&(4..5), &a).is_some(), "stream 1 is not known to be done");
        a.join(&b);
        assert!(history.unfinished(&(4..5), &a).is_none());
        assert!(history.unfinished(&(8..9), &VectorClock::default()).is_none(), "not touched");
    }
}
