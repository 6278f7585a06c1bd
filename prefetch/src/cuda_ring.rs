//! The ring of a CUDA device: pinned slots to fill, device buffers to compute on, and a copy
//! stream in between that never makes a thread wait.
//!
//! Three edges keep a buffer from being overwritten while it is used:
//! - **ready**: the consumer's stream waits for the copy ([`DeviceBatch::begin`]);
//! - **done**: the copy stream waits for the consumer's work ([`DeviceBatch::finish`]) before it
//!   overwrites a device buffer;
//! - **copied**: a pinned slot goes back to be filled when its copy is done, which a thread of the
//!   ring waits for.
//!
//! Pinned slots and device buffers recycle separately, and both are made once.

use crate::{
    cuda::CudaError,
    device_buffer::DeviceBuffer,
    pinned::Pinned,
    streams::{Streams, retry_once},
};
use crossbeam_channel::{Receiver, Sender, bounded};
use cudarc::driver::{CudaEvent, DriverError};
use millstream_data::{BatchLayout, BatchSlot, DeviceBatch, DeviceSlot};
use millstream_stage::{Emit, Flow, Lease, Pool, Stage};
use std::{
    any::Any,
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};

/// The stage between a filler and a consumer that computes on a CUDA device.
#[derive(Debug)]
pub(crate) struct CudaRing {
    streams: Arc<Streams>,
    depth: NonZeroUsize,
    /// `None` until the first batch has told the layout.
    buffers: Option<Pool<DeviceSlot>>,
    copied: Pool<CudaEvent>,
    returns: Returns,
}

impl CudaRing {
    pub(crate) fn new(streams: Arc<Streams>, depth: NonZeroUsize) -> Result<Self, CudaError> {
        let copied =
            (0..depth.get()).map(|_| streams.host_event()).collect::<Result<Vec<_>, _>>()?;
        let (copied, returns) = (Pool::new(copied), Returns::start(depth)?);
        Ok(CudaRing { streams, depth, buffers: None, copied, returns })
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    fn buffers(&mut self, layout: BatchLayout) -> Result<&Pool<DeviceSlot>, CudaError> {
        if self.buffers.is_none() {
            let buffer = |_| {
                let buffer = DeviceBuffer::new(&self.streams, layout.values())?;
                Ok(DeviceSlot::new(layout, Box::new(buffer)))
            };
            let buffers =
                (0..self.depth.get()).map(buffer).collect::<Result<Vec<_>, CudaError>>()?;
            self.buffers = Some(Pool::new(buffers));
        }
        Ok(self.buffers.as_ref().expect("made just now or before"))
    }
}

/// Allocates the pinned slots.
pub(crate) fn pinned_slots(
    streams: &Arc<Streams>,
    layout: BatchLayout,
    depth: NonZeroUsize,
) -> Result<Pool<BatchSlot>, CudaError> {
    let slot = |_| Ok(BatchSlot::new(layout, Box::new(Pinned::new(streams, layout.values())?)));
    Ok(Pool::new((0..depth.get()).map(slot).collect::<Result<Vec<_>, _>>()?))
}

impl Stage for CudaRing {
    type In = Lease<BatchSlot>;
    type Out = DeviceBatch;
    type Error = CudaError;

    fn process(
        &mut self,
        mut slot: Lease<BatchSlot>,
        emit: &mut Emit<'_, DeviceBatch>,
    ) -> Result<Flow, CudaError> {
        let failed = CudaError::failed_to("copy a batch to the device");
        self.returns.check().map_err(&failed)?;
        let buffers = self.buffers(slot.layout())?;
        let Some(mut buffer) = emit.take(buffers) else { return Ok(Flow::Stop) };
        std::mem::swap(&mut slot.meta, &mut buffer.meta);
        let copied = self.copied.take();
        let memory: &dyn Any = buffer.memory();
        let memory = memory.downcast_ref::<DeviceBuffer>().expect("the ring's own buffers");
        // SAFETY: the slot is not touched until `copied` has passed: its lease goes to the thread
        // that waits for that. After an error it is dropped, and `fill` has then waited.
        unsafe { memory.fill(slot.values(), &copied) }.map_err(&failed)?;
        self.returns.send(InFlight { copied, slot });
        Ok(emit.send(DeviceBatch::Device(buffer)))
    }
}

/// A pinned slot whose copy is under way. Fields drop in this order: the event is free again
/// before the slot is, so there is always an event for a slot.
#[derive(Debug)]
struct InFlight {
    copied: Lease<CudaEvent>,
    slot: Lease<BatchSlot>,
}

/// The thread that sends pinned slots back when their copies are done. It ends, and is joined,
/// with the ring.
#[derive(Debug)]
struct Returns {
    /// `None` only while dropping.
    sender: Option<Sender<InFlight>>,
    thread: Option<JoinHandle<()>>,
    /// The first copy that failed while it ran.
    fault: Arc<OnceLock<DriverError>>,
}

impl Returns {
    fn start(depth: NonZeroUsize) -> Result<Self, CudaError> {
        let (sender, receiver) = bounded(depth.get());
        let fault = Arc::new(OnceLock::new());
        let found = Arc::clone(&fault);
        let thread = thread::Builder::new()
            .name("prefetch-return".to_owned())
            .spawn(move || return_slots(&receiver, &found))
            .map_err(CudaError::Thread)?;
        Ok(Returns { sender: Some(sender), thread: Some(thread), fault })
    }

    fn check(&self) -> Result<(), DriverError> {
        self.fault.get().map_or(Ok(()), |error| Err(*error))
    }

    fn send(&self, in_flight: InFlight) {
        let sender = self.sender.as_ref().expect("there until dropped");
        sender.send(in_flight).expect("the thread receives until the sender is gone");
    }
}

fn return_slots(receiver: &Receiver<InFlight>, fault: &OnceLock<DriverError>) {
    for InFlight { copied, slot } in receiver {
        if let Err(error) = retry_once(|| copied.synchronize()) {
            // Only the first is the cause. The device has stopped, so the slot is free.
            let _ = fault.set(error);
        }
        drop(copied);
        drop(slot);
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
