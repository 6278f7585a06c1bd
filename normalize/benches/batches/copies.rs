//! The floors of filling: the inputs of the same windows copied into the same slots, by who knows
//! beforehand where they lie, and copies nothing but them.

use crate::fill::Fill;
use rayon::prelude::*;

/// Windows that a thread takes at once: as many as ours, or it would wait longer for the other.
const PIECE: usize = 16;

/// On the pool it is called in.
pub(crate) fn parallel(fill: &mut Fill) {
    let (rows, slot, spans) = fill.next_spans();
    let layout = slot.layout();
    let windows = slot.parts_mut().0.inputs.par_chunks_exact_mut(layout.window());
    windows.zip(spans).with_max_len(PIECE).for_each(|(window, &first)| {
        window.copy_from_slice(rows.inputs(first, layout.lookback));
    });
}

/// On this thread alone.
pub(crate) fn sequential(fill: &mut Fill) {
    let (rows, slot, spans) = fill.next_spans();
    let layout = slot.layout();
    let windows = slot.parts_mut().0.inputs.chunks_exact_mut(layout.window());
    for (window, &first) in windows.zip(spans) {
        window.copy_from_slice(rows.inputs(first, layout.lookback));
    }
}
