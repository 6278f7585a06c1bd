//! Vector clocks: who is known to be done when something starts.

/// One counter per stream; a missing one is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(Vec<u64>);

impl VectorClock {
    pub(crate) fn get(&self, stream: usize) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    /// Counts one more operation of `stream` and gives its number.
    pub(crate) fn tick(&mut self, stream: usize) -> u64 {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] += 1;
        self.0[stream]
    }

    /// Learns all that `other` knows.
    pub(crate) fn join(&mut self, other: &VectorClock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Becomes a copy of `other`, in the memory it has.
    pub(crate) fn copy_from(&mut self, other: &VectorClock) {
        self.0.clone_from(&other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_what_both_knew() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        a.tick(0);
        a.tick(0);
        b.tick(3);
        a.join(&b);
        assert_eq!((a.get(0), a.get(3), a.get(9)), (2, 1, 0));
        assert_eq!((b.get(0), b.get(3)), (0, 1));
    }
}
