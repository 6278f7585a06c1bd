//! What batches are filled in: memory made for each, or slots that come back.

use crate::{
    allocations::Allocations,
    finding::Finding,
    harness::Failure,
    training::{self, Manner, Slots},
    turns::Turns,
    workload::{self, Size, Windows, threads},
};
use millstream_data::BatchSlot;
use millstream_stage::{Pool, thread_pool_here};

/// Batches that make a figure.
const BATCHES: u64 = 50;

/// As many as the ring has.
const SLOTS: usize = 3;

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let panel = workload::panel(size.series, size.rows)?;
    // As the stage has it: this thread is one of the two.
    let pool = thread_pool_here("buffers", threads(2)).expect("two threads can be had");
    let windows =
        pool.install(|| Windows::new(&panel, &workload::learn_from_all(), &workload::settings()))?;
    drop(panel);
    let (mut filler, batches) = (windows.filler(), windows.epoch()?);
    let layout = filler.layout();
    let slots = Pool::new((0..SLOTS).map(|_| BatchSlot::on_heap(layout)));
    let mut next = 0;
    let mut fill = |slot: &mut BatchSlot| {
        next = (next + 1) % batches.len();
        pool.install(|| filler.fill(slot, &windows.rows, &windows.train, &batches, next));
    };

    let mut counted = [Allocations::so_far(); 2];
    let turns = Turns::take(&["fresh buffers", "reused slots"], size.rounds, |way| {
        let before = Allocations::so_far();
        for _ in 0..BATCHES {
            match way {
                0 => fill(&mut BatchSlot::on_heap(layout)),
                _ => fill(&mut slots.take()),
            }
        }
        counted[way] = Allocations::since(before);
        Ok(())
    })?;

    let usual = Manner { slots: Slots::Fresh, ..Manner::PROMISED };
    let trained = training::train(size, [usual, Manner::PROMISED])?;
    let per_batch = |count: u64| count as f64 / BATCHES as f64;
    let [fresh, reused] = counted;
    let (gain, megabytes) = (turns.gain(0, 1).median, per_batch(fresh.bytes) / 1e6);
    Ok(Finding {
        measured: Some((1.0 - reused.count as f64 / fresh.count as f64) * 100.0),
        losses: Some(trained.losses),
        how: format!(
            "filling batches of [256, 60, 105] on 2 threads: {:.1} allocations with {megabytes:.1} \
             MB per batch, then {:.1} with {} bytes; {gain:.1}× as fast; trained on both ({})",
            per_batch(fresh.count),
            per_batch(reused.count),
            reused.bytes / BATCHES,
            trained.how
        ),
        reason: None,
    })
}
