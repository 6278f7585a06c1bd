//! The floor of fitting and scaling: the panel's values read once, then read once more and written
//! to memory that is as fresh as that of our own copy.

use millstream_stage::Panel;
use rayon::prelude::*;
use std::hint::black_box;

/// Values that one task takes: a few pages, so that both threads get equal shares.
const TASK: usize = 1 << 15;

/// On the pool it is called in.
pub(crate) fn run(panel: &Panel) -> Vec<f32> {
    let [shard] = panel.shards() else { unreachable!("the panel is one piece") };
    let values = shard.values();
    // Adding bits takes any order, so nothing but the memory limits it.
    let add = |task: &[f32]| task.iter().fold(0u32, |sum, x| sum.wrapping_add(x.to_bits()));
    black_box(values.par_chunks(TASK).map(add).reduce(|| 0, u32::wrapping_add));

    let mut copy = fresh(values.len());
    let tasks = copy.par_chunks_mut(TASK).zip(values.par_chunks(TASK));
    tasks.for_each(|(out, task)| {
        out.iter_mut().zip(task).for_each(|(out, x)| *out = (x - 0.5) * 2.0);
    });
    copy
}

/// Fresh memory in large pages, as our own copy has it.
fn fresh(values: usize) -> Vec<f32> {
    const PAGE: usize = 4096;
    let mut copy = vec![0.0f32; values];
    let range = copy.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(PAGE);
    let length = range.end.addr() / PAGE * PAGE - start;
    let start = range.start.with_addr(start).cast();
    // SAFETY: whole pages inside of `copy`; the advice changes no value.
    unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    copy
}
