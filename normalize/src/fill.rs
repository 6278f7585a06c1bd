//! Filling a batch slot: for each window one copy of its rows, done in parallel.
//!
//! In steady state nothing is allocated: a slot and the scratch space are made once, and every
//! task finds its window, copies it and writes what belongs to it in the same pass.

use crate::{
    batches::Batches,
    prefetch_hints,
    reference::References,
    rows::Rows,
    windows::{Shape, Window, WindowIndex},
};
use millstream_data::{BatchLayout, BatchMeta, BatchSlot, Padding};
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
    padding: Padding,
    scratch: Vec<f32>,
}

impl Filler {
    /// A filler of batches of at most `batch_size` windows of this shape.
    #[must_use]
    pub fn new(rows: &Rows, shape: Shape, padding: Padding, batch_size: usize) -> Self {
        let scratch = rows.references.as_ref().map_or(0, References::scratch);
        let layout = Filler::layout_of(rows, shape, batch_size);
        Filler { layout, padding, scratch: vec![0.0; batch_size * scratch] }
    }

    /// The layout of the slots it would fill.
    #[must_use]
    pub fn layout_of(rows: &Rows, shape: Shape, batch_size: usize) -> BatchLayout {
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
        rows: &Rows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) {
        let layout = self.layout;
        assert_eq!(slot.layout(), layout, "a slot made for these windows");
        let places = batches.places(batch);
        let count = (places.end - places.start) as usize;
        let position = |i: usize| batches.position(places.start + i as u64);
        let (parts, meta) = slot.parts_mut();
        meta.lookback = match self.padding {
            Padding::Right => (0..count).map(|i| index.at(position(i)).rows()).max().unwrap_or(0),
            Padding::None | Padding::Left => layout.lookback,
        };
        meta.target_time.clear();
        meta.outcomes.clear();
        meta.last_known.clear();
        meta.series.resize(count, 0);
        meta.time.resize(count, 0);

        let (padding, lookback) = (self.padding, meta.lookback);
        let (row, scratch) = (lookback.max(1), self.scratch.len() / layout.batch_size.max(1));
        let labels = tasks(parts.targets, layout.labels(), count).zip(tasks(
            parts.last_known,
            layout.targets,
            count,
        ));
        let extras = tasks(parts.lengths, 1, count)
            .zip(tasks(parts.mask, lookback, count))
            .zip(tasks(parts.segments, lookback, count))
            .zip(tasks(&mut self.scratch, scratch, count));
        tasks(parts.inputs, lookback * layout.features, count)
            .zip(labels)
            .zip(extras)
            .zip(meta.series.par_chunks_mut(TASK).zip(meta.time.par_chunks_mut(TASK)))
            .enumerate()
            .with_max_len(PIECE)
            .for_each_init(
                || None,
                |known, (task, (((inputs, (targets, last)), extras), (series, time)))| {
                    let (((lengths, mask), segments), scratch) = extras;
                    // Shuffled windows lie anywhere, and so does all that belongs to them. So what is
                    // needed is asked for long before: while the windows of one task are copied, the
                    // memory comes by what belongs to them, and by the places of the next ones.
                    let find = |task: usize| -> [u64; TASK] {
                        std::array::from_fn(|i| position((task * TASK + i).min(count - 1)))
                    };
                    let positions = match known.take() {
                        Some((of, positions)) if of == task => positions,
                        _ => find(task),
                    };
                    let windows = positions.map(|position| index.at(position));
                    prefetch_hints::fetch(rows.inputs(windows[0].first, windows[0].rows()));
                    let following = find(task + 1);
                    following.iter().for_each(|position| index.ahead(*position));
                    *known = Some((task + 1, following));
                    for window in &windows {
                        prefetch_hints::touch(&rows.times()[window.row]);
                        rows.labels.ahead(window.row);
                    }
                    let inputs = inputs.chunks_exact_mut(row * layout.features);
                    for (i, (window, out)) in windows.iter().zip(inputs).enumerate() {
                        let next =
                            windows.get(i + 1).copied().unwrap_or_else(|| index.at(following[0]));
                        prefetch_hints::fetch(rows.inputs(next.first, next.rows()));
                        copy_inputs(rows, window, padding, out, scratch);
                    }
                    let padded = lengths.iter_mut().zip(mask.chunks_exact_mut(row));
                    for (window, (length, mask)) in windows.iter().zip(padded) {
                        *length = window.rows() as f32;
                        let (real, padded) = sides(mask, window.rows(), padding);
                        real.fill(1.0);
                        padded.fill(0.0);
                    }
                    for (window, out) in windows.iter().zip(segments.chunks_exact_mut(row)) {
                        place(rows.segments(window.first, window.rows()), padding, out);
                    }
                    for ((window, series), time) in windows.iter().zip(series).zip(time) {
                        (*series, *time) = (window.series, rows.times()[window.row]);
                    }
                    for (window, out) in
                        windows.iter().zip(targets.chunks_exact_mut(layout.labels()))
                    {
                        rows.labels.copy(window.row, window.series_end, out);
                    }
                    for (window, out) in windows.iter().zip(last.chunks_exact_mut(layout.targets)) {
                        out.copy_from_slice(rows.labels.last(window.row, window.series));
                    }
                },
            );
    }
}

impl Filler {
    /// Notes what came of the windows of a batch, in user units.
    pub(crate) fn note_outcomes(
        &self,
        slot: &mut BatchSlot,
        rows: &Rows,
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

    /// Notes the times that the windows of a batch forecast, `None` past the end of a series.
    pub(crate) fn target_times(
        &self,
        slot: &mut BatchSlot,
        rows: &Rows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) {
        let times = &mut slot.meta.target_time;
        for place in batches.places(batch) {
            let window = index.at(batches.position(place));
            let targets = window.row + 1..=window.row + self.layout.horizon;
            times.extend(targets.map(|row| (row < window.series_end).then(|| rows.times()[row])));
        }
    }
}

fn copy_inputs(
    rows: &Rows,
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
fn tasks(
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
