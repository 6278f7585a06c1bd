//! Filling a batch slot: for each window one copy of its rows, done in parallel.
//!
//! In steady state nothing is allocated: a slot and the scratch space are made once, and every
//! task finds its window, copies it and writes what belongs to it in the same pass.

use crate::{
    batches::Batches,
    prefetch_hints,
    reference::References,
    rows::ScaledRows,
    windows::{Window, WindowIndex, WindowShape},
};
use millstream_data::{BatchLayout, BatchMeta, BatchParts, BatchSlot, Padding};
use rayon::{iter::Either, prelude::*};

/// Windows that are looked up together and then copied, one after the other.
const TASK: usize = 4;

/// Tasks that a thread takes at once. Rayon would cut a batch into a few pieces per thread, and a
/// thread that is done would wait for another's last piece; a window is a few microseconds.
const PIECE: usize = 4;

/// Fills slots with the windows of a pass. The scratch space is reused from batch to batch.
#[derive(Debug)]
pub struct Filler {
    layout: BatchLayout,
    shape: WindowShape,
    padding: Padding,
    scratch: Vec<f32>,
}

impl Filler {
    /// A filler of batches of at most `batch_size` windows of this shape.
    #[must_use]
    pub fn new(rows: &ScaledRows, shape: WindowShape, padding: Padding, batch_size: usize) -> Self {
        let scratch = rows.references.as_ref().map_or(0, References::scratch);
        let layout = Filler::layout_of(rows, shape, batch_size);
        Filler { layout, shape, padding, scratch: vec![0.0; batch_size * scratch] }
    }

    /// The layout of the slots it would fill.
    #[must_use]
    pub fn layout_of(rows: &ScaledRows, shape: WindowShape, batch_size: usize) -> BatchLayout {
        BatchLayout {
            batch_size,
            lookback: shape.lookback,
            features: rows.channels,
            horizon: shape.horizon,
            targets: rows.targets(),
            extras: rows.extras,
        }
    }

    /// The layout of the slots it fills.
    #[must_use]
    pub fn layout(&self) -> BatchLayout {
        self.layout
    }

    /// Fills `slot` with batch number `batch` of the pass. The tag and plan are the caller's.
    ///
    /// Runs on the rayon pool it is called in. Targets past the end of a series are NaN.
    ///
    /// # Panics
    /// When the pass has no such batch, or the slot has another layout.
    pub fn fill(
        &mut self,
        slot: &mut BatchSlot,
        rows: &ScaledRows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) {
        let layout = self.layout;
        assert_eq!(slot.layout(), layout, "a slot made for these windows");
        let places = batches.places(batch);
        let count = (places.end - places.start) as usize;
        let (parts, meta) = slot.parts_mut();
        let mut windows = BatchWindows {
            rows,
            index,
            batches,
            first: places.start,
            count,
            layout,
            padding: self.padding,
            lookback: layout.lookback,
        };
        if self.padding == Padding::Right {
            windows.lookback = windows.longest();
        }
        meta.lookback = windows.lookback;
        meta.target_time.clear();
        meta.outcomes.clear();
        meta.last_known.clear();
        meta.season.clear();
        meta.series.resize(count, 0);
        meta.time.resize(count, 0);
        windows
            .tasks(parts, meta, &mut self.scratch)
            .enumerate()
            .with_max_len(PIECE)
            .for_each_init(|| None, |known, (number, task)| windows.fill(number, task, known));
    }
}

/// The windows of one batch, and how they are laid out in it.
struct BatchWindows<'a> {
    rows: &'a ScaledRows,
    index: &'a WindowIndex,
    batches: &'a Batches,
    /// Place of the first window in the pass.
    first: u64,
    count: usize,
    layout: BatchLayout,
    padding: Padding,
    /// Rows of a window in this batch.
    lookback: usize,
}

/// What a few windows are written to: their share of every part of the slot. Empty where the batch has
/// no such part.
struct Task<'a> {
    inputs: &'a mut [f32],
    targets: &'a mut [f32],
    last_known: &'a mut [f32],
    lengths: &'a mut [f32],
    mask: &'a mut [f32],
    segments: &'a mut [f32],
    series: &'a mut [u32],
    time: &'a mut [i64],
    scratch: &'a mut [f32],
}

/// Where the windows of a task are in the index; found while the task before it was filled.
struct Positions {
    task: usize,
    positions: [u64; TASK],
}

impl BatchWindows<'_> {
    /// Rows of the longest window.
    fn longest(&self) -> usize {
        (0..self.count).map(|i| self.index.at(self.position(i)).rows()).max().unwrap_or(0)
    }

    /// The slot, cut by task.
    fn tasks<'s>(
        &self,
        parts: BatchParts<'s>,
        meta: &'s mut BatchMeta,
        scratch: &'s mut [f32],
    ) -> impl IndexedParallelIterator<Item = Task<'s>> {
        let (count, layout, lookback) = (self.count, self.layout, self.lookback);
        let BatchParts { inputs, targets, last_known, lengths, mask, segments } = parts;
        let scratch_size = scratch.len() / layout.batch_size.max(1);
        let labels =
            cut(targets, layout.labels(), count).zip(cut(last_known, layout.targets, count));
        let padding = cut(lengths, 1, count).zip(cut(mask, lookback, count));
        let keys = meta.series.par_chunks_mut(TASK).zip(meta.time.par_chunks_mut(TASK));
        cut(inputs, lookback * layout.features, count)
            .zip(cut(scratch, scratch_size, count))
            .zip(cut(segments, lookback, count))
            .zip(labels)
            .zip(padding)
            .zip(keys)
            .map(|(((((inputs, scratch), segments), labels), padding), keys)| {
                let ((targets, last_known), (lengths, mask)) = (labels, padding);
                let (series, time) = keys;
                Task { inputs, targets, last_known, lengths, mask, segments, series, time, scratch }
            })
    }

    /// Fills the share of one task. `known` are the positions that the task before it looked up.
    ///
    /// Shuffled windows lie anywhere, and so does all that belongs to them. So what is needed is asked
    /// for long before: while the windows of one task are copied, the memory comes by what belongs to
    /// them, and by the places of the next ones.
    fn fill(&self, number: usize, task: Task<'_>, known: &mut Option<Positions>) {
        let Positions { positions, .. } = known
            .take()
            .filter(|known| known.task == number)
            .unwrap_or_else(|| self.positions(number));
        let windows = positions.map(|position| self.index.at(position));
        self.prefetch_inputs(&windows[0]);
        let following = known.insert(self.positions(number + 1));
        following.positions.iter().for_each(|position| self.index.prefetch(*position));
        for window in &windows {
            prefetch_hints::touch(&self.rows.times()[window.row]);
            self.rows.labels.prefetch(window.row);
        }

        self.copy_inputs(&windows, following, task.inputs, task.scratch);
        self.mark_padding(&windows, task.lengths, task.mask);
        for (window, out) in windows.iter().zip(task.segments.chunks_exact_mut(self.row())) {
            place(self.rows.segments(window.first, window.rows()), self.padding, out);
        }
        for ((window, series), time) in windows.iter().zip(task.series).zip(task.time) {
            (*series, *time) = (window.series, self.rows.times()[window.row]);
        }
        let (labels, targets) = (&self.rows.labels, self.layout.targets);
        for (window, out) in windows.iter().zip(task.targets.chunks_exact_mut(self.layout.labels()))
        {
            labels.copy(window.row, window.series_end, out);
        }
        for (window, out) in windows.iter().zip(task.last_known.chunks_exact_mut(targets)) {
            out.copy_from_slice(labels.last(window.row, window.series));
        }
    }

    /// Copies the inputs of each window, and asks for those of the next one meanwhile.
    fn copy_inputs(
        &self,
        windows: &[Window; TASK],
        following: &Positions,
        inputs: &mut [f32],
        scratch: &mut [f32],
    ) {
        let inputs = inputs.chunks_exact_mut(self.row() * self.layout.features);
        for (i, (window, out)) in windows.iter().zip(inputs).enumerate() {
            let next = windows.get(i + 1).copied();
            self.prefetch_inputs(&next.unwrap_or_else(|| self.index.at(following.positions[0])));
            copy_inputs(self.rows, window, self.padding, out, scratch);
        }
    }

    /// Writes how long each window is, and which of its rows are real.
    fn mark_padding(&self, windows: &[Window; TASK], lengths: &mut [f32], mask: &mut [f32]) {
        let padded = lengths.iter_mut().zip(mask.chunks_exact_mut(self.row()));
        for (window, (length, mask)) in windows.iter().zip(padded) {
            *length = window.rows() as f32;
            let (real, padded) = sides(mask, window.rows(), self.padding);
            real.fill(1.0);
            padded.fill(0.0);
        }
    }

    fn prefetch_inputs(&self, window: &Window) {
        prefetch_hints::fetch(self.rows.inputs(window.first, window.rows()));
    }

    /// Where the windows of a task are; past the end of the batch, its last one.
    fn positions(&self, task: usize) -> Positions {
        let window = |i: usize| (task * TASK + i).min(self.count - 1);
        Positions { task, positions: std::array::from_fn(|i| self.position(window(i))) }
    }

    /// The position in the index of window number `i` of the batch.
    fn position(&self, i: usize) -> u64 {
        self.batches.position(self.first + i as u64)
    }

    /// Values of a window in a part that has one a row.
    fn row(&self) -> usize {
        self.lookback.max(1)
    }
}

impl Filler {
    /// Notes what came of the windows of a batch, in user units.
    pub(crate) fn note_outcomes(
        &self,
        slot: &mut BatchSlot,
        rows: &ScaledRows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) {
        let BatchMeta { outcomes, last_known, .. } = &mut slot.meta;
        for place in batches.places(batch) {
            let window = index.at(batches.position(place));
            let from = outcomes.len();
            outcomes.resize(from + self.layout.labels(), f32::NAN);
            rows.outcomes.copy(window.row, window.series_end, &mut outcomes[from..]);
            last_known.extend_from_slice(rows.outcomes.last(window.row, window.series));
        }
    }

    /// Notes what came of the windows of a batch a season before, in user units.
    pub(crate) fn note_season(
        &self,
        slot: &mut BatchSlot,
        rows: &ScaledRows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
        season: usize,
    ) {
        let noted = &mut slot.meta.season;
        for place in batches.places(batch) {
            let window = index.at(batches.position(place));
            let from = noted.len();
            noted.resize(from + self.layout.labels(), f32::NAN);
            let start = rows.series_start(window.row);
            rows.outcomes.season_before(window.row, start, season, &mut noted[from..]);
        }
    }

    /// Notes the times that the windows of a batch forecast, `None` past the end of a series.
    pub(crate) fn target_times(
        &self,
        slot: &mut BatchSlot,
        rows: &ScaledRows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) {
        let times = &mut slot.meta.target_time;
        for place in batches.places(batch) {
            let window = index.at(batches.position(place));
            let targets = self.shape.outcomes(window.row);
            times.extend(targets.map(|row| (row < window.series_end).then(|| rows.times()[row])));
        }
    }
}

fn copy_inputs(
    rows: &ScaledRows,
    window: &Window,
    padding: Padding,
    inputs: &mut [f32],
    scratch: &mut [f32],
) {
    let source = rows.inputs(window.first, window.rows());
    match &rows.references {
        None => place(source, padding, inputs),
        Some(references) => {
            let (real, padded) = sides(inputs, source.len(), padding);
            references.copy(source, rows.channels, window, real, scratch);
            padded.fill(0.0);
        }
    }
}

/// Copies a window to its side of its place, and fills the rest with zeros.
fn place(source: &[f32], padding: Padding, out: &mut [f32]) {
    let (real, padded) = sides(out, source.len(), padding);
    real.copy_from_slice(source);
    padded.fill(0.0);
}

/// Divides a window's place into what is real and what is padding.
fn sides(out: &mut [f32], real: usize, padding: Padding) -> (&mut [f32], &mut [f32]) {
    match padding {
        Padding::Left => {
            let (padded, real) = out.split_at_mut(out.len() - real);
            (real, padded)
        }
        Padding::None | Padding::Right => out.split_at_mut(real),
    }
}

/// A part cut by task, `size` values a window; empty pieces where the batch has no such part.
fn cut(
    part: &mut [f32],
    size: usize,
    count: usize,
) -> impl IndexedParallelIterator<Item = &mut [f32]> {
    if part.is_empty() || size == 0 {
        let empty = rayon::iter::repeat_n((), count.div_ceil(TASK));
        Either::Left(empty.map(|()| <&mut [f32]>::default()))
    } else {
        Either::Right(part[..size * count].par_chunks_mut(size * TASK))
    }
}
