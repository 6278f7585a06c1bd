//! [`BatchSlot`]: the reusable host buffer that a batch is filled in. Who allocates its memory (heap,
//! pinned) is hidden behind [`HostMemory`].

use crate::{
    batch_layout::{ALIGN, BatchLayout, Extras},
    plan::{Plan, Tag},
};
use arrow::buffer::MutableBuffer;
use millstream_stage::Item;
use std::sync::Arc;

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
    /// is small beside the others does not come back from that. Of kind `difference` these are the levels
    /// that came, and not the changes.
    pub outcomes: Vec<f32>,
    /// The `last_known` of the slot, `[windows, targets]`, likewise in user units; of kind `difference` the
    /// levels that changes count from.
    pub last_known: Vec<f32>,
    /// What came a season before, `[windows, horizon, targets]` as the outcomes, NaN where nobody knows;
    /// filled only for batches that are held against it, else empty.
    pub season: Vec<f32>,
    /// Rows of a window in this batch: the layout's, or those of its longest window where the
    /// batch is padded on the right.
    pub lookback: usize,
}

impl BatchMeta {
    pub(crate) fn new(layout: BatchLayout) -> Self {
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
            season: Vec::new(),
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
pub struct BatchParts<'a> {
    /// `[batch, lookback, features]`
    pub inputs: &'a mut [f32],
    /// `[batch, horizon, targets]`
    pub targets: &'a mut [f32],
    /// `[batch, targets]`
    pub last_known: &'a mut [f32],
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
    pub fn parts_mut(&mut self) -> (BatchParts<'_>, &mut BatchMeta) {
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
        let parts = BatchParts {
            inputs: part(layout.batch_size * layout.window()),
            targets: part(layout.batch_size * layout.labels()),
            last_known: part(layout.batch_size * layout.targets),
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

    /// The shape of [`inputs`](Self::inputs): `[rows, lookback, features]`, where a batch that is
    /// padded on the right has the lookback of its longest window.
    #[must_use]
    pub fn inputs_shape(&self) -> [usize; 3] {
        [self.rows(), self.meta.lookback, self.layout.features]
    }

    /// The shape of [`targets`](Self::targets): `[rows, horizon, targets]`.
    #[must_use]
    pub fn targets_shape(&self) -> [usize; 3] {
        [self.rows(), self.layout.horizon, self.layout.targets]
    }

    /// The inputs of the batch's windows, `[rows, lookback, features]`, scaled. Only the windows
    /// that are there: a last batch may have fewer than the layout has room for.
    #[must_use]
    pub fn inputs(&self) -> &[f32] {
        self.part(0, self.inputs_shape().iter().product())
    }

    /// Their targets, `[rows, horizon, targets]`, scaled; NaN where nobody knows yet.
    #[must_use]
    pub fn targets(&self) -> &[f32] {
        self.part(self.layout.targets_at(), self.targets_shape().iter().product())
    }

    /// Each target where it was last known, `[rows, targets]`, scaled; of changes, "none".
    #[must_use]
    pub fn last_known(&self) -> &[f32] {
        self.part(self.layout.last_known_at(), self.rows() * self.layout.targets)
    }

    /// Rows of each window that are real, `[rows]`; empty where no window can be padded.
    #[must_use]
    pub fn lengths(&self) -> &[f32] {
        let padding = usize::from(self.layout.extras.padding);
        self.part(self.layout.lengths_at(), self.rows() * padding)
    }

    /// 1 for a real row of a window and 0 for padding, `[rows, lookback]`; empty where no window
    /// can be padded.
    #[must_use]
    pub fn mask(&self) -> &[f32] {
        let padding = usize::from(self.layout.extras.padding);
        self.part(self.layout.mask_at(), self.rows() * self.meta.lookback * padding)
    }

    /// The segment of every row of a window, `[rows, lookback]`; empty without a segment column.
    #[must_use]
    pub fn segments(&self) -> &[f32] {
        let segments = usize::from(self.layout.extras.segments);
        self.part(self.layout.segments_at(), self.rows() * self.meta.lookback * segments)
    }

    /// Series code of each window, `[rows]`: a position in
    /// [`PanelSchema::series`](crate::PanelSchema::series).
    #[must_use]
    pub fn series(&self) -> &[u32] {
        &self.meta.series
    }

    /// Time of each window's last row, `[rows]`: the moment the forecast is made.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.meta.time
    }

    fn part(&self, at: usize, values: usize) -> &[f32] {
        &self.values()[at..][..values]
    }
}

impl Item for BatchSlot {
    fn rows(&self) -> u64 {
        BatchSlot::rows(self) as u64
    }

    fn bytes(&self) -> u64 {
        self.layout.data_bytes(BatchSlot::rows(self))
    }
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
            assert_eq!(at(parts.last_known), layout.last_known_at());
            assert_eq!(at(parts.lengths), layout.lengths_at());
            assert_eq!(at(parts.mask), layout.mask_at());
            assert_eq!(at(parts.segments), layout.segments_at());
            let lengths = [parts.lengths.len(), parts.mask.len(), parts.segments.len()];
            let (padding, segments) = (usize::from(padding), usize::from(segments));
            assert_eq!(lengths, [3 * padding, 15 * padding, 15 * segments]);
        }
    }
}
