//! Whether the batch slots fit in memory, before one is allocated.

use millstream_data::{BatchLayout, Bytes, available_memory};
use std::num::NonZeroUsize;

/// Slots that would not fit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "train.batch_size = {} with window.lookback = {}, window.horizon = {} and {} values a row makes batches of {}, and prefetch.depth = {depth} of them do not fit in the {} that are free; {}",
    .layout.batch_size, .layout.lookback, .layout.horizon, .layout.features,
    Bytes(.layout.bytes()), Bytes(u128::from(*.free)), fitting(.layout, *.depth, *.free)
)]
pub struct NoRoom {
    /// What a slot would be.
    pub layout: BatchLayout,
    /// How many there would be.
    pub depth: NonZeroUsize,
    /// Bytes that are free.
    pub free: u64,
}

/// Checks that `depth` slots fit into the memory that this process can have.
///
/// # Errors
/// [`NoRoom`], with what would fit. Where the system does not say what it has, nothing is refused.
pub fn check_room(layout: BatchLayout, depth: NonZeroUsize) -> Result<(), NoRoom> {
    match available_memory() {
        Some(free) => check(layout, depth, free),
        None => Ok(()),
    }
}

fn check(layout: BatchLayout, depth: NonZeroUsize, free: u64) -> Result<(), NoRoom> {
    let needed = layout.bytes().saturating_mul(depth.get() as u128);
    if needed <= u128::from(free) { Ok(()) } else { Err(NoRoom { layout, depth, free }) }
}

/// The nearest choice that fits.
fn fitting(layout: &BatchLayout, depth: NonZeroUsize, free: u64) -> String {
    // A model needs room too.
    let free = u128::from(free / 2);
    let one = BatchLayout { batch_size: 1, ..*layout }.bytes();
    let batch = free / depth.get() as u128 / one.max(1);
    if batch > 0 {
        return format!("set train.batch_size to {batch} or less");
    }
    // Not even one window: its rows are too many.
    let row = BatchLayout { lookback: 1, horizon: 1, ..*layout }.bytes();
    match free / depth.get() as u128 / row.max(1) {
        0 => "set train.batch_size, window.lookback and window.horizon much lower".to_owned(),
        rows => format!("set window.lookback and window.horizon to {rows} or less"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::Extras;

    fn refusal(batch_size: usize, lookback: usize, depth: usize) -> Option<String> {
        let extras = Extras { padding: true, segments: true };
        let layout =
            BatchLayout { batch_size, lookback, features: 18, horizon: 1, targets: 1, extras };
        let depth = NonZeroUsize::new(depth).unwrap();
        check(layout, depth, 8_000_000_000).err().map(|error| error.to_string())
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        assert_eq!(refusal(256, 60, 3), None);
        let text = refusal(1_000_000_000, 60, 3).unwrap();
        for part in ["train.batch_size = 1000000000", "8.0 GB", "train.batch_size to 275"] {
            assert!(text.contains(part), "{text}");
        }
        let text = refusal(1, 1_000_000_000, 3).unwrap();
        assert!(text.contains("window.lookback and window.horizon to 11"), "{text}");
        // No size overflows.
        let most = i64::MAX as usize;
        assert!(refusal(most, most, most).is_some());
    }
}
