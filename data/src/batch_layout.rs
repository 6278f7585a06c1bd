//! [`BatchLayout`]: where the parts of a batch lie in its slot.
//!
//! A slot is one piece of memory that holds the parts of a batch one after another, each starting
//! at a multiple of 64 bytes, so that a device copy is a single transfer:
//!
//! | part | shape | what |
//! |---|---|---|
//! | inputs | `[batch, lookback, features]` | scaled |
//! | targets | `[batch, horizon, targets]` | scaled |
//! | last_known | `[batch, targets]` | each target's last known value, scaled, NaN where it has none; of changes, "none": the naive forecast |
//! | lengths | `[batch]` | where windows are padded: rows of each that are real |
//! | mask | `[batch, lookback]` | likewise: 1 for a real row, 0 for padding |
//! | segments | `[batch, lookback]` | where a segment column travels along: its small integers |
//!
//! Only the first `rows` entries of each part are filled when a batch is not full. A batch padded
//! on the right is only as long as its longest window: `lookback` is then [`BatchMeta::lookback`](crate::BatchMeta::lookback),
//! in its inputs, mask and segments.

/// Values between part borders: 64 bytes of `f32`.
pub(crate) const ALIGN: usize = 16;

/// Parts of a batch that not every stream has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// Windows may be padded: there are lengths and a mask.
    pub padding: bool,
    /// A segment column travels along.
    pub segments: bool,
}

impl Extras {
    /// No such part.
    pub const NONE: Extras = Extras { padding: false, segments: false };
}

/// The shape of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLayout {
    /// Windows in a full batch.
    pub batch_size: usize,
    /// Rows of a window.
    pub lookback: usize,
    /// Values in a row.
    pub features: usize,
    /// Steps forecast.
    pub horizon: usize,
    /// Target columns.
    pub targets: usize,
    /// Parts that not every stream has.
    pub extras: Extras,
}

impl BatchLayout {
    /// Bytes of one window in a slot, however large the settings that it is made of.
    #[must_use]
    pub fn window_bytes(&self) -> u128 {
        let [lookback, features] = [self.lookback, self.features].map(|n| n as u128);
        let [horizon, targets] = [self.horizon, self.targets].map(|n| n as u128);
        let padding = if self.extras.padding { lookback + 1 } else { 0 };
        let segments = if self.extras.segments { lookback } else { 0 };
        let labels = (horizon + 1).saturating_mul(targets);
        let values = lookback.saturating_mul(features).saturating_add(labels + padding + segments);
        values.saturating_mul(size_of::<f32>() as u128)
    }

    /// Bytes of a slot, but for what aligns its parts.
    #[must_use]
    pub fn bytes(&self) -> u128 {
        // The batch's times and series codes lie beside its values, and its outcomes once more.
        let [horizon, targets] = [self.horizon, self.targets].map(|n| n as u128);
        let labels = (horizon + 1).saturating_mul(targets).saturating_mul(size_of::<f32>() as u128);
        let beside = labels.saturating_add((size_of::<u32>() + size_of::<i64>()) as u128);
        (self.window_bytes().saturating_add(beside)).saturating_mul(self.batch_size as u128)
    }

    /// Values of one window's inputs.
    #[must_use]
    pub fn window(&self) -> usize {
        self.lookback * self.features
    }

    /// Values of one window's targets.
    #[must_use]
    pub fn labels(&self) -> usize {
        self.horizon * self.targets
    }

    /// Where the targets start, in values.
    #[must_use]
    pub fn targets_at(&self) -> usize {
        (self.batch_size * self.window()).next_multiple_of(ALIGN)
    }

    /// Where the last known values start, in values.
    #[must_use]
    pub fn last_known_at(&self) -> usize {
        self.targets_at() + (self.batch_size * self.labels()).next_multiple_of(ALIGN)
    }

    /// Where the lengths of padded windows start, in values.
    #[must_use]
    pub fn lengths_at(&self) -> usize {
        self.last_known_at() + (self.batch_size * self.targets).next_multiple_of(ALIGN)
    }

    /// Where the mask of padded windows starts, in values.
    #[must_use]
    pub fn mask_at(&self) -> usize {
        let lengths = if self.extras.padding { self.batch_size } else { 0 };
        self.lengths_at() + lengths.next_multiple_of(ALIGN)
    }

    /// Where the segments start, in values.
    #[must_use]
    pub fn segments_at(&self) -> usize {
        let mask = if self.extras.padding { self.batch_size * self.lookback } else { 0 };
        self.mask_at() + mask.next_multiple_of(ALIGN)
    }

    /// Values a slot holds.
    #[must_use]
    pub fn values(&self) -> usize {
        let segments = if self.extras.segments { self.batch_size * self.lookback } else { 0 };
        self.segments_at() + segments.next_multiple_of(ALIGN)
    }

    /// Bytes of data in a batch of so many windows.
    pub(crate) fn data_bytes(&self, rows: usize) -> u64 {
        (rows * (self.window() + self.labels() + self.targets) * size_of::<f32>()) as u64
    }
}
