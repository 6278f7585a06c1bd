//! The floor of fitting and scaling: the panel's values read once, then read once more and written
//! to memory that is as fresh as that of our own copy.

use millstream_data::Panel;
use rayon::prelude::*;
use std::hint::black_box;

/// Values that one task takes: a few pages, so that both threads get equal shares.
const TASK: usize = 1 << 15;

/// How fresh memory is come by: its first use takes longer than all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// As any program gets it.
    Ordinary,
    /// As our own copy has it.
    Large,
}

/// On the pool it is called in.
pub(crate) fn run(panel: &Panel, pages: Pages) -> Vec<f32> {
    let [shard] = panel.shards() else { unreachable!("the panel is one piece") };
    let values = shard.values();
    // Adding bits takes any order, so nothing but the memory limits it.
    let add = |task: &[f32]| task.iter().fold(0u32, |sum, x| sum.wrapping_add(x.to_bits()));
    black_box(values.par_chunks(TASK).map(add).reduce(|| 0, u32::wrapping_add));

    let mut copy = vec![0.0; values.len()];
    if pages == Pages::Large {
        in_large_pages(&mut copy);
    }
    let tasks = copy.par_chunks_mut(TASK).zip(values.par_chunks(TASK));
    tasks.for_each(|(out, task)| {
        out.iter_mut().zip(task).for_each(|(out, x)| *out = (x - 0.5) * 2.0);
    });
    copy
}

fn in_large_pages(values: &mut [f32]) {
    const PAGE: usize = 4096;
    let range = values.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(PAGE);
    let length = (range.end.addr() / PAGE * PAGE).saturating_sub(start);
    let start = range.start.with_addr(start).cast();
    // SAFETY: whole pages inside of `values`, which are borrowed; the advice changes no value.
    unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
}
