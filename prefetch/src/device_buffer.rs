//! What a slot is copied to: device memory, and the two events that order its use.
//!
//! `ready` is recorded by the copy stream when the values are there; `done` by the compute stream
//! when the consumer has used them. Between the two the buffer belongs to the consumer.

use crate::{
    cuda::CudaError,
    streams::{Streams, retry_once},
};
use cudarc::driver::{CudaEvent, DriverError, result, sys};
use millstream_data::{DeviceFault, DeviceMemory, Place};
use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
};

/// Device memory for one batch.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    start: sys::CUdeviceptr,
    values: usize,
    ready: CudaEvent,
    done: CudaEvent,
    /// The consumer has begun and not yet finished. Only its holder looks at it, and the pool that
    /// hands the buffer from one holder to the next orders the two.
    in_use: AtomicBool,
    streams: Arc<Streams>,
}

impl DeviceBuffer {
    pub(crate) fn new(streams: &Arc<Streams>, values: usize) -> Result<Self, CudaError> {
        let (ready, done) = (streams.event()?, streams.event()?);
        let failed = CudaError::failed_to("allocate device memory");
        streams.context.bind_to_thread().map_err(&failed)?;
        // SAFETY: a context is current on this thread; the memory is written before it is read.
        let start = unsafe { result::malloc_sync(values * size_of::<f32>()) }.map_err(&failed)?;
        let in_use = AtomicBool::new(false);
        Ok(DeviceBuffer { start, values, ready, done, in_use, streams: Arc::clone(streams) })
    }

    /// Enqueues the copy of `values` into this buffer, after the consumer of what it held, and
    /// records `ready` and `copied` behind it.
    ///
    /// # Safety
    /// `values` must stay allocated and unchanged until `copied` has passed, or, after an error,
    /// for the length of this call.
    pub(crate) unsafe fn fill(
        &self,
        values: &[f32],
        copied: &CudaEvent,
    ) -> Result<(), DriverError> {
        assert_eq!(values.len(), self.values, "a batch goes into a buffer made for its layout");
        let copy = &self.streams.copy;
        self.finish_for_the_consumer()?;
        // Passes at once when nothing was recorded: the buffer is new, or nobody used it.
        copy.wait(&self.done)?;
        self.streams.context.bind_to_thread()?;
        // SAFETY: both ranges have this length; the caller keeps `values`, and this buffer keeps its
        // memory until `ready` has passed.
        unsafe { result::memcpy_htod_async(self.start, values, copy.cu_stream()) }?;
        let recorded = self.ready.record(copy).and_then(|()| copied.record(copy));
        if recorded.is_err() {
            // Nobody could wait for the copy by its events, so it is waited for here. If that
            // fails too, the device has stopped, and the copy with it.
            let _ = retry_once(|| copy.synchronize());
        }
        recorded
    }

    /// Records `done` where the consumer did not: it stopped early, failed or panicked, or its own
    /// attempt failed. All it can have enqueued is on the compute stream by now.
    fn finish_for_the_consumer(&self) -> Result<(), DriverError> {
        if self.in_use.load(Ordering::Acquire) {
            self.done.record(&self.streams.compute)?;
            self.in_use.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn wait_on_consumers_stream(&self) -> Result<(), CudaError> {
        let failed = CudaError::failed_to("wait for a batch");
        let Streams { compute, simulator, .. } = &*self.streams;
        compute.wait(&self.ready).map_err(&failed)?;
        if let Some(read) = simulator {
            read.run(self.start, self.values * size_of::<f32>()).map_err(&failed)?;
        }
        Ok(())
    }
}

// SAFETY: `start` is an allocation of `values` values that lives as long as this; `ready` makes the
// consumer wait for the copy, and the next copy waits for `done`. A batch of another layout is not let
// in (`fill`).
unsafe impl DeviceMemory for DeviceBuffer {
    fn place(&self) -> Place {
        self.streams.place()
    }

    fn address(&self) -> *const f32 {
        self.start as usize as *const f32
    }

    fn values(&self) -> usize {
        self.values
    }

    fn begin(&self) -> Result<(), DeviceFault> {
        self.in_use.store(true, Ordering::Release);
        self.wait_on_consumers_stream().map_err(DeviceFault::new)
    }

    fn finish(&self) {
        // A failure is met again, and reported, by the copy that wants this buffer next.
        if self.done.record(&self.streams.compute).is_ok() {
            self.in_use.store(false, Ordering::Release);
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // Whatever still reads or writes the memory is waited for. Where that fails, the device
        // has stopped, and there is nothing to wait for.
        let _ = retry_once(|| self.finish_for_the_consumer());
        let _ = retry_once(|| self.done.synchronize());
        let _ = retry_once(|| self.ready.synchronize());
        let _ = retry_once(|| self.streams.context.bind_to_thread());
        // SAFETY: allocated in `new`, freed once, and its uses are over. An error is of earlier
        // work, not of this.
        let _ = unsafe { result::free_sync(self.start) };
    }
}
