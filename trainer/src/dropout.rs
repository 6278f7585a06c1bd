//! Which units drop out in a batch.
//!
//! libtorch's generator is one per process, so it is seeded anew for every batch: what drops out
//! depends on where the batch stands in the stream, and on nothing that was drawn before.

use millstream_data::SplitMix64;

/// The seed of the dropout in one batch: a function of where the batch stands, so a batch that is
/// repeated after a resume drops out the same units.
pub(crate) fn batch_seed(seed: u64, epoch: u32, index: u64) -> u64 {
    let place = SplitMix64::new(u64::from(epoch)).bits() ^ index;
    seed ^ SplitMix64::new(place).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_batches_get_unrelated_seeds() {
        let seeds = [batch_seed(1, 1, 0), batch_seed(1, 1, 1), batch_seed(1, 2, 0)];
        for (i, a) in seeds.iter().enumerate() {
            for b in &seeds[i + 1..] {
                assert!((a ^ b).count_ones() > 10, "{a:x} {b:x}");
            }
        }
    }
}
