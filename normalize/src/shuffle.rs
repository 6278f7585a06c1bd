//! The shuffle: a keyed permutation of `0..n`.
//!
//! A Feistel network over the smallest even number of bits that holds `n`, walked until it lands
//! inside (at most four tries on average). It needs no memory, seeks in O(1), and does not depend
//! on threads or ranks, so a resumed run needs only (seed, epoch, position).

use millstream_data::SplitMix64;

/// Rounds of the network. Four make it statistically sound; two more are cheap.
const ROUNDS: usize = 6;

/// A permutation of `0..n` chosen by (seed, epoch).
#[derive(Debug, Clone)]
pub struct Shuffle {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// The permutation of `0..n` for this seed and epoch.
    #[must_use]
    pub fn new(n: u64, seed: u64, epoch: u32) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut state = mix(seed ^ mix(u64::from(epoch)));
        let keys = std::array::from_fn(|_| {
            state = mix(state);
            state
        });
        Shuffle { n, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Where position `i` goes.
    ///
    /// # Panics
    /// When `i` is not below `n`.
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.n, "position {i} of {}", self.n);
        let mut position = i;
        loop {
            position = self.network(position);
            if position < self.n {
                return position;
            }
        }
    }

    fn network(&self, position: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (position >> self.half_bits, position & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

fn mix(value: u64) -> u64 {
    SplitMix64::new(value).bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_position_occurs_once(n in 1u64..5_000, seed: u64, epoch: u32) {
            let shuffle = Shuffle::new(n, seed, epoch);
            let mut seen: Vec<u64> = (0..n).map(|i| shuffle.at(i)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..n));
        }
    }

    #[test]
    fn epochs_and_seeds_give_other_orders() {
        let order = |seed, epoch| {
            let shuffle = Shuffle::new(1_000, seed, epoch);
            (0..1_000).map(|i| shuffle.at(i)).collect::<Vec<_>>()
        };
        assert_ne!(order(1, 1), order(1, 2));
        assert_ne!(order(1, 1), order(2, 1));
        assert_eq!(order(1, 1), order(1, 1));
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let n = 1 << 20;
        let shuffle = Shuffle::new(n, 42, 1);
        let near = (1..10_000u64).filter(|&i| shuffle.at(i).abs_diff(shuffle.at(i - 1)) < n / 100);
        // Two random positions are that near with probability 2 %: 200 expected, 14 the deviation.
        let near = near.count();
        assert!((120..280).contains(&near), "{near}");
    }
}
