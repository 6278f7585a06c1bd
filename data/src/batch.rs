//! The batch: its layout, the host slot it is filled in, and what a consumer receives.
//!
//! A slot is one piece of memory that holds the parts of a batch one after another, each starting
//! at a multiple of 64 bytes, so that a device copy is a single transfer:
//!
//! | part | shape | what |
//! |---|---|---|
//! | inputs | `[batch, lookback, features]` | scaled |
//! | targets | `[batch, horizon, targets]` | scaled |
//! | last | `[batch, targets]` | each target's last known value, scaled, NaN where it has none; of changes, "none": the naive forecast |
//! | lengths | `[batch]` | where windows are padded: rows of each that are real |
//! | mask | `[batch, lookback]` | likewise: 1 for a real row, 0 for padding |
//! | segments | `[batch, lookback]` | where a segment column travels along: its small integers |
//!
//! Only the first `rows` entries of each part are filled when a batch is not full. A batch padded
//! on the right is only as long as its longest window: `lookback` is then [`BatchMeta::lookback`],
//! in its inputs, mask and segments. Who allocates the memory (heap, pinned, device) is hidden
//! behind [`HostMemory`] and [`DeviceMemory`].

use crate::plan::{Plan, Tag};
use arrow::buffer::MutableBuffer;
use millstream_stage::{Item, Lease};
use std::{any::Any, error::Error, sync::Arc};

/// Values between part borders: 64 bytes of `f32`.
const ALIGN: usize = 16;

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
    pub fn last_at(&self) -> usize {
        self.targets_at() + (self.batch_size * self.labels()).next_multiple_of(ALIGN)
    }

    /// Where the lengths of padded windows start, in values.
    #[must_use]
    pub fn lengths_at(&self) -> usize {
        self.last_at() + (self.batch_size * self.targets).next_multiple_of(ALIGN)
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
}

/// What is known about a batch besides its values. Its vectors are reused with the slot.
#[derive(Debug, Clone)]
pub struct BatchMeta {
    /// Where it stands in the stream; `None` in a slot that was never filled.
    pub tag: Option<Tag>,
    /// The stream it belongs to; `None` in a slot that was never filled.
    pub plan: Option<Arc<Plan>>,
    /// Series code of each window.
    pub series: Vec<u32>,
    /// Time of each window's last row: the moment the forecast is made.
    pub time: Vec<i64>,
    /// Time of each window's targets, step by step, where there is such a row; filled only for
    /// batches that are forecast, else empty.
    pub target_time: Vec<Option<i64>>,
    /// What came of each window, `[windows, horizon, targets]` in user units, NaN where nobody knows;
    /// empty in batches that are learned from. The targets of the slot are scaled, and a series that
    /// is small beside the others does not come back from that.
    pub outcomes: Vec<f32>,
    /// The `last` of the slot, `[windows, targets]`, likewise in user units.
    pub last_known: Vec<f32>,
    /// Rows of a window in this batch: the layout's, or those of its longest window where the
    /// batch is padded on the right.
    pub lookback: usize,
}

impl BatchMeta {
    fn new(layout: BatchLayout) -> Self {
        let size = layout.batch_size;
        let (series, time) = (Vec::with_capacity(size), Vec::with_capacity(size));
        BatchMeta {
            tag: None,
            plan: None,
            series,
            time,
            target_time: Vec::new(),
            outcomes: Vec::with_capacity(size * layout.labels()),
            last_known: Vec::with_capacity(size * layout.targets),
            lookback: layout.lookback,
        }
    }
}

/// Host memory that a batch can be filled in.
pub trait HostMemory: std::fmt::Debug + Send + Sync {
    /// The values.
    fn values(&self) -> &[f32];
    /// The values, to be overwritten.
    fn values_mut(&mut self) -> &mut [f32];
}

/// Where a batch's values lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory.
    Cpu,
    /// Memory of the CUDA device with this number.
    Cuda(usize),
}

/// Device memory that holds a batch. Whoever made it gets it back as what it is through `Any`.
pub trait DeviceMemory: Any + std::fmt::Debug + Send + Sync {
    /// Which device.
    fn place(&self) -> Place;
    /// Address of the first value, as the device sees it.
    fn address(&self) -> *const f32;
    /// The consumer is about to enqueue its first use of these values: makes the stream it
    /// computes on wait for them. Does not wait itself.
    ///
    /// # Errors
    /// When the device has failed; the values must then not be used.
    fn begin(&self) -> Result<(), DeviceFault>;
    /// The consumer has enqueued its last use of these values.
    fn finish(&self);
}

/// The device failed under a batch.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeviceFault(Box<dyn Error + Send + Sync>);

impl DeviceFault {
    /// A fault with its cause.
    #[must_use]
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        DeviceFault(Box::new(cause))
    }
}

/// A reusable host buffer for one batch.
#[derive(Debug)]
pub struct BatchSlot {
    layout: BatchLayout,
    memory: Box<dyn HostMemory>,
    /// What the batch is.
    pub meta: BatchMeta,
}

/// The parts of a slot, to be filled.
#[derive(Debug)]
pub struct Parts<'a> {
    /// `[batch, lookback, features]`
    pub inputs: &'a mut [f32],
    /// `[batch, horizon, targets]`
    pub targets: &'a mut [f32],
    /// `[batch, targets]`
    pub last: &'a mut [f32],
    /// `[batch]`; empty where nothing is padded
    pub lengths: &'a mut [f32],
    /// `[batch, lookback]`; empty where nothing is padded
    pub mask: &'a mut [f32],
    /// `[batch, lookback]`; empty where there is no segment column
    pub segments: &'a mut [f32],
}

impl BatchSlot {
    /// A slot in ordinary memory.
    #[must_use]
    pub fn on_heap(layout: BatchLayout) -> Self {
        let bytes = layout.values() * size_of::<f32>();
        BatchSlot::new(layout, Box::new(Heap(MutableBuffer::from_len_zeroed(bytes))))
    }

    /// A slot in memory that someone else allocated.
    ///
    /// # Panics
    /// When the memory does not hold exactly `layout.values()` values.
    #[must_use]
    pub fn new(layout: BatchLayout, memory: Box<dyn HostMemory>) -> Self {
        assert_eq!(memory.values().len(), layout.values(), "memory made for this layout");
        BatchSlot { layout, memory, meta: BatchMeta::new(layout) }
    }

    /// The slot's shape.
    #[must_use]
    pub fn layout(&self) -> BatchLayout {
        self.layout
    }

    /// All values, parts and padding.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        self.memory.values()
    }

    /// The parts and the meta data, to be filled.
    pub fn parts_mut(&mut self) -> (Parts<'_>, &mut BatchMeta) {
        let layout = self.layout;
        let mut rest = self.memory.values_mut();
        let mut part = |values: usize| {
            let room = values.next_multiple_of(ALIGN);
            let (part, others) = std::mem::take(&mut rest).split_at_mut(room);
            rest = others;
            &mut part[..values]
        };
        let Extras { padding, segments } = layout.extras;
        let per_row = layout.batch_size * layout.lookback;
        let parts = Parts {
            inputs: part(layout.batch_size * layout.window()),
            targets: part(layout.batch_size * layout.labels()),
            last: part(layout.batch_size * layout.targets),
            lengths: part(if padding { layout.batch_size } else { 0 }),
            mask: part(if padding { per_row } else { 0 }),
            segments: part(if segments { per_row } else { 0 }),
        };
        (parts, &mut self.meta)
    }

    /// Windows in the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.meta.series.len()
    }
}

/// A reusable device buffer for one batch.
#[derive(Debug)]
pub struct DeviceSlot {
    layout: BatchLayout,
    memory: Box<dyn DeviceMemory>,
    /// What the batch is; swapped in from the host slot it was copied from.
    pub meta: BatchMeta,
}

impl DeviceSlot {
    /// A slot in device memory, which must hold at least `layout.values()` values.
    #[must_use]
    pub fn new(layout: BatchLayout, memory: Box<dyn DeviceMemory>) -> Self {
        DeviceSlot { layout, memory, meta: BatchMeta::new(layout) }
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &dyn DeviceMemory {
        &*self.memory
    }
}

/// A batch where its consumer wants it. Dropping it returns the slot.
#[derive(Debug)]
pub enum DeviceBatch {
    /// The consumer computes on the host: the slot itself.
    Host(Lease<BatchSlot>),
    /// The consumer computes on a device.
    Device(Lease<DeviceSlot>),
}

impl DeviceBatch {
    /// What the batch is.
    #[must_use]
    pub fn meta(&self) -> &BatchMeta {
        match self {
            DeviceBatch::Host(slot) => &slot.meta,
            DeviceBatch::Device(slot) => &slot.meta,
        }
    }

    /// Where it stands in the stream.
    ///
    /// # Panics
    /// When the slot was sent on without being filled.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.meta().tag.expect("a batch in a line has been filled")
    }

    /// The stream it belongs to.
    ///
    /// # Panics
    /// When the slot was sent on without being filled.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        self.meta().plan.as_ref().expect("a batch in a line has been filled")
    }

    /// The slot's shape.
    #[must_use]
    pub fn layout(&self) -> BatchLayout {
        match self {
            DeviceBatch::Host(slot) => slot.layout,
            DeviceBatch::Device(slot) => slot.layout,
        }
    }

    /// Which device the values are on.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            DeviceBatch::Host(_) => Place::Cpu,
            DeviceBatch::Device(slot) => slot.memory.place(),
        }
    }

    /// Address of the first value, as the device of [`place`](Self::place) sees it.
    #[must_use]
    pub fn address(&self) -> *const f32 {
        match self {
            DeviceBatch::Host(slot) => slot.values().as_ptr(),
            DeviceBatch::Device(slot) => slot.memory.address(),
        }
    }

    /// To be called before the first use of the values is enqueued: the consumer's stream then
    /// waits for them to arrive. The caller does not.
    ///
    /// # Errors
    /// When the device has failed; the values must then not be used.
    pub fn begin(&self) -> Result<(), DeviceFault> {
        match self {
            DeviceBatch::Host(_) => Ok(()),
            DeviceBatch::Device(slot) => slot.memory.begin(),
        }
    }

    /// Says that the last use of the values has been enqueued (after backward, not before): the
    /// device half may be overwritten once that work is done. A batch that is dropped without it
    /// waits for all that the consumer had enqueued by then.
    pub fn finish(&self) {
        if let DeviceBatch::Device(slot) = self {
            slot.memory.finish();
        }
    }
}

impl Item for BatchSlot {
    fn rows(&self) -> u64 {
        BatchSlot::rows(self) as u64
    }

    fn bytes(&self) -> u64 {
        batch_bytes(self.layout, BatchSlot::rows(self))
    }
}

impl Item for DeviceBatch {
    fn rows(&self) -> u64 {
        self.meta().series.len() as u64
    }

    fn bytes(&self) -> u64 {
        batch_bytes(self.layout(), self.meta().series.len())
    }
}

fn batch_bytes(layout: BatchLayout, rows: usize) -> u64 {
    (rows * (layout.window() + layout.labels() + layout.targets) * size_of::<f32>()) as u64
}

/// Ordinary memory, aligned as Arrow aligns its buffers.
#[derive(Debug)]
struct Heap(MutableBuffer);

impl HostMemory for Heap {
    fn values(&self) -> &[f32] {
        self.0.typed_data()
    }

    fn values_mut(&mut self) -> &mut [f32] {
        self.0.typed_data_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_where_the_layout_says() {
        let mut layout = BatchLayout {
            batch_size: 3,
            lookback: 5,
            features: 7,
            horizon: 2,
            targets: 3,
            extras: Extras::NONE,
        };
        for (padding, segments) in [(false, false), (true, false), (false, true), (true, true)] {
            layout.extras = Extras { padding, segments };
            let mut slot = BatchSlot::on_heap(layout);
            let base = slot.values().as_ptr().addr();
            let (parts, _) = slot.parts_mut();
            let at = |part: &[f32]| (part.as_ptr().addr() - base) / size_of::<f32>();
            assert_eq!(at(parts.inputs), 0);
            assert_eq!(at(parts.targets), layout.targets_at());
            assert_eq!(at(parts.last), layout.last_at());
            assert_eq!(at(parts.lengths), layout.lengths_at());
            assert_eq!(at(parts.mask), layout.mask_at());
            assert_eq!(at(parts.segments), layout.segments_at());
            let lengths = [parts.lengths.len(), parts.mask.len(), parts.segments.len()];
            let (padding, segments) = (usize::from(padding), usize::from(segments));
            assert_eq!(lengths, [3 * padding, 15 * padding, 15 * segments]);
        }
    }
}
