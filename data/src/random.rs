//! Random numbers that depend on nothing but a seed.
//!
//! libtorch's generator is one per process: whoever else draws from it changes what comes next.
//! Initial weights are drawn from here instead, so a seed gives the same model on any device and
//! beside any neighbour. It is not meant for anything secret.

/// The SplitMix64 generator (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A sequence of its own for each seed.
    #[inline]
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `[-bound, bound)`.
    pub fn uniform(&mut self, bound: f32) -> f32 {
        // The top 24 bits are exactly what an f32 in [0, 1) can hold.
        let unit = (self.bits() >> 40) as f32 / (1u32 << 24) as f32;
        (2.0 * unit - 1.0) * bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn uniform_numbers_fill_their_range() {
        let mut random = SplitMix64::new(7);
        let drawn: Vec<f32> = (0..10_000).map(|_| random.uniform(0.5)).collect();
        let mean = drawn.iter().sum::<f32>() / drawn.len() as f32;
        assert!(drawn.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!(drawn.iter().any(|x| *x < -0.49) && drawn.iter().any(|x| *x > 0.49));
    }
}
