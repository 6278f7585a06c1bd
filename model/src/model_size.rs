//! How much memory a model takes, held against what there is before any of it is asked for.
//!
//! An estimate from below: what training keeps of every weight and of every layer. What a step needs
//! besides is not counted, so that nothing is refused that would work.

use crate::error::ModelError;
use std::num::NonZeroUsize;

/// Weights, gradients, AdamW's two moments and the best weights so far.
pub(crate) const COPIES: f64 = 5.0;

/// What the objects of a layer's tensors take, whatever their size, in bytes.
pub(crate) const PER_LAYER: f64 = 16_384.0;

/// Refuses sizes of a model, each with its key, by which it takes more bytes than there are. `bytes`
/// may be far beyond whole numbers. The last size that alone is too large is to blame, else the first.
///
/// # Errors
/// [`ModelError::Setting`] with the largest value that would fit.
pub(crate) fn check<const N: usize>(
    sizes: [(&'static str, NonZeroUsize); N],
    available: u64,
    bytes: impl Fn([f64; N]) -> f64,
) -> Result<(), ModelError> {
    let asked = sizes.map(|(_, size)| size.get() as f64);
    let fits = |sizes: [f64; N]| bytes(sizes) <= available as f64;
    if fits(asked) {
        return Ok(());
    }
    let least_from = |index: usize| {
        let mut sizes = asked;
        sizes[index..].fill(1.0);
        sizes
    };
    let blamed = (0..N).rev().find(|index| fits(least_from(*index))).unwrap_or(0);
    let with = |sizes: [f64; N], size: f64| {
        let mut sizes = sizes;
        sizes[blamed] = size;
        sizes
    };
    // With less of the others where nothing fits into those that were asked for.
    let others = if fits(with(asked, 1.0)) { asked } else { least_from(blamed) };
    let most = largest(|size| fits(with(others, size as f64)));
    let (key, value) = sizes[blamed];
    let (needed, there) = (gigabytes(bytes(asked)), gigabytes(available as f64));
    let expected = format!(
        "at most {most}: this model takes {needed} to train, and {there} of memory are there"
    );
    Err(ModelError::Setting { key, value: value.to_string(), expected })
}

/// The largest number that fits; all below it do too.
fn largest(fits: impl Fn(u64) -> bool) -> u64 {
    let (mut fitting, mut beyond) = (0, 1u64 << 63);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) { fitting = middle } else { beyond = middle }
    }
    fitting
}

fn gigabytes(bytes: f64) -> String {
    match bytes / 1e9 {
        gigabytes if gigabytes < 1e6 => format!("{gigabytes:.1} GB"),
        gigabytes => format!("{gigabytes:.0e} GB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of `wide * wide * deep` bytes where there are 10,000,000,000.
    fn check_size(wide: usize, deep: usize, expected: Option<&str>) {
        let size = |value: usize| value.try_into().unwrap();
        let bytes = |[wide, deep]: [f64; 2]| wide * wide * deep;
        let sizes = [("wide", size(wide)), ("deep", size(deep))];
        let error = check(sizes, 10_000_000_000, bytes).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), expected, "{wide} x {deep}");
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_would() {
        check_size(100_000, 1, None);
        let wide = "wide is 200000, but must be at most 100000: this model takes 40.0 GB to train, \
                    and 10.0 GB of memory are there";
        check_size(200_000, 1, Some(wide));
        let deep = "deep is 10, but must be at most 4: this model takes 25.0 GB to train, and 10.0 \
                    GB of memory are there";
        check_size(50_000, 10, Some(deep));
        let less_wide = "wide is 200000, but must be at most 50000: this model takes 160.0 GB to \
                         train, and 10.0 GB of memory are there";
        check_size(200_000, 4, Some(less_wide));
        let nothing_so_deep = "wide is 200000, but must be at most 100000: this model takes 8e14 GB \
                               to train, and 10.0 GB of memory are there";
        check_size(200_000, 20_000_000_000_000, Some(nothing_so_deep));
    }
}
