//! Filling a batch slot: for each window one copy of its rows, done in parallel.

use crate::{
    rows::Rows,
    shuffle::Shuffle,
    windows::{Shape, Window, WindowIndex},
};
use millstream_stage::{BatchLayout, BatchSlot};
use rayon::prelude::*;

/// In which order a pass visits the windows of its index.
#[derive(Debug)]
pub enum Order {
    /// By series, then time.
    Sorted,
    /// Shuffled.
    Shuffled(Shuffle),
}

/// Fills slots with the windows of one pass. The scratch list is reused from batch to batch.
#[derive(Debug)]
pub struct Filler {
    shape: Shape,
    windows: Vec<Window>,
}

impl Filler {
    /// A filler for windows of this shape, in batches of at most `batch_size`.
    #[must_use]
    pub fn new(shape: Shape, batch_size: usize) -> Self {
        Filler { shape, windows: Vec::with_capacity(batch_size) }
    }

    /// The batch layout these rows need.
    #[must_use]
    pub fn layout(&self, rows: &Rows, batch_size: usize) -> BatchLayout {
        BatchLayout {
            batch_size,
            lookback: self.shape.lookback,
            features: rows.features,
            horizon: self.shape.horizon,
            targets: rows.targets,
        }
    }

    /// Fills `slot` with batch number `batch` of the pass. The tag and plan are the caller's.
    ///
    /// Runs on the rayon pool it is called in. Targets past the end of a series are NaN.
    ///
    /// # Panics
    /// When the pass has no such batch.
    pub fn fill(
        &mut self,
        slot: &mut BatchSlot,
        rows: &Rows,
        index: &WindowIndex,
        order: &Order,
        batch: u64,
    ) {
        let layout = slot.layout();
        let size = layout.batch_size as u64;
        let positions = batch * size..((batch + 1) * size).min(index.len());
        assert!(!positions.is_empty(), "batch {batch} of {} windows", index.len());
        let (parts, meta) = slot.parts_mut();
        self.windows.clear();
        meta.series.clear();
        meta.time.clear();
        for position in positions {
            let window = match order {
                Order::Sorted => index.at(position),
                Order::Shuffled(shuffle) => index.at(shuffle.at(position)),
            };
            meta.series.push(window.series);
            meta.time.push(rows.times()[window.row]);
            self.windows.push(window);
        }

        let shape = self.shape;
        self.windows
            .par_iter()
            .zip(parts.inputs.par_chunks_exact_mut(layout.window()))
            .zip(parts.targets.par_chunks_exact_mut(layout.labels()))
            .zip(parts.last.par_chunks_exact_mut(layout.targets))
            .for_each(|(((window, inputs), targets), last)| {
                let first = window.row + 1 - shape.lookback;
                inputs.copy_from_slice(rows.inputs(first, shape.lookback));
                let known = shape.horizon.min(window.series_end - window.row - 1);
                let (outcomes, future) = targets.split_at_mut(known * layout.targets);
                outcomes.copy_from_slice(rows.labels(window.row + 1, known));
                future.fill(f32::NAN);
                last.copy_from_slice(rows.labels(window.row, 1));
            });
    }
}
