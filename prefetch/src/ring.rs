//! The ring: a fixed number of slots that circulate between the filler and the consumer.
//!
//! On the CPU the slot itself is handed over; nothing is copied, and dropping the batch sends the
//! slot back to be filled again. Slots are allocated once, so steady state allocates nothing.

use millstream_stage::{BatchLayout, BatchSlot, DeviceBatch, Emit, Flow, Lease, Pool, Stage};
use std::{convert::Infallible, num::NonZeroUsize};

/// Allocates the ring's slots.
#[must_use]
pub fn host_slots(layout: BatchLayout, depth: NonZeroUsize) -> Pool<BatchSlot> {
    Pool::new((0..depth.get()).map(|_| BatchSlot::on_heap(layout)))
}

/// The stage between a filler and a consumer that computes on the CPU.
#[derive(Debug, Default)]
pub struct CpuRing;

impl Stage for CpuRing {
    type In = Lease<BatchSlot>;
    type Out = DeviceBatch;
    type Error = Infallible;

    fn process(
        &mut self,
        slot: Lease<BatchSlot>,
        emit: &mut Emit<'_, DeviceBatch>,
    ) -> Result<Flow, Infallible> {
        Ok(emit.send(DeviceBatch::Host(slot)))
    }
}
