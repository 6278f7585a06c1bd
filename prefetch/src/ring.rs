//! The ring: a fixed number of slots that circulate between the filler and the consumer.
//!
//! On the CPU the slot itself is handed over; nothing is copied, and dropping the batch sends the
//! slot back to be filled again. On a CUDA device the slot is copied to a buffer on the device
//! (`cuda_ring.rs`). Slots are allocated once, so steady state allocates nothing.

use crate::{
    cuda::CudaError,
    cuda_ring::{CudaRing, pinned_slots},
    device::{Device, Route},
    streams::Streams,
};
use millstream_data::{BatchLayout, BatchSlot, DeviceBatch};
use millstream_stage::{Emit, Flow, Lease, Pool, Stage};
use std::{num::NonZeroUsize, sync::Arc};

/// The stage between whoever fills batches and whoever computes on them.
///
/// It takes the slots of [`slots`](Self::slots), filled, and gives batches where the consumer
/// wants them. Dropping a batch sends its slot around again, on any path out. A consumer calls
/// [`DeviceBatch::begin`] before and [`DeviceBatch::finish`] after its use of a batch; neither
/// makes it wait.
#[derive(Debug)]
pub struct Ring {
    depth: NonZeroUsize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Cpu,
    Cuda(CudaRing),
}

impl Ring {
    /// Opens the device for `depth` slots; they are allocated later, when their layout is known.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn open(device: &Device, depth: NonZeroUsize) -> Result<Self, CudaError> {
        let kind = match device.route {
            Route::Host => Kind::Cpu,
            Route::Cuda { ordinal, simulator } => {
                Kind::Cuda(CudaRing::new(Streams::open(ordinal, simulator)?, depth)?)
            }
        };
        Ok(Ring { depth, kind })
    }

    /// What makes the slots to fill, once: pinned memory for a CUDA device, ordinary memory else.
    pub fn slots(
        &self,
    ) -> impl FnOnce(BatchLayout) -> Result<Pool<BatchSlot>, CudaError> + Send + use<> {
        let depth = self.depth;
        let streams = match &self.kind {
            Kind::Cpu => None,
            Kind::Cuda(ring) => Some(Arc::clone(ring.streams())),
        };
        move |layout| match &streams {
            None => Ok(host_slots(layout, depth)),
            Some(streams) => pinned_slots(streams, layout, depth),
        }
    }
}

impl Stage for Ring {
    type In = Lease<BatchSlot>;
    type Out = DeviceBatch;
    type Error = CudaError;

    fn process(
        &mut self,
        slot: Lease<BatchSlot>,
        emit: &mut Emit<'_, DeviceBatch>,
    ) -> Result<Flow, CudaError> {
        match &mut self.kind {
            Kind::Cpu => Ok(emit.send(DeviceBatch::Host(slot))),
            Kind::Cuda(ring) => ring.process(slot, emit),
        }
    }
}

/// Allocates slots in ordinary memory.
#[must_use]
pub fn host_slots(layout: BatchLayout, depth: NonZeroUsize) -> Pool<BatchSlot> {
    Pool::new((0..depth.get()).map(|_| BatchSlot::on_heap(layout)))
}
