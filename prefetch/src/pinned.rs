//! Pinned host memory: what the device can copy from without the host's help.

use crate::{
    cuda::CudaError,
    streams::{Streams, retry_once},
};
use cudarc::driver::{result, sys};
use millstream_data::HostMemory;
use std::{ptr::NonNull, sync::Arc};

/// A pinned allocation. Not write-combined: whoever fills it may also read it.
#[derive(Debug)]
pub(crate) struct Pinned {
    start: NonNull<f32>,
    values: usize,
    streams: Arc<Streams>,
}

// SAFETY: it owns its memory, which any thread may use: it is allocated as portable.
unsafe impl Send for Pinned {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(streams: &Arc<Streams>, values: usize) -> Result<Self, CudaError> {
        let failed = CudaError::failed_to("allocate pinned memory");
        streams.context.bind_to_thread().map_err(&failed)?;
        let bytes = values * size_of::<f32>();
        // SAFETY: a context is current on this thread.
        let memory = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let start = NonNull::new(memory.map_err(&failed)?.cast::<f32>())
            .expect("the driver gives memory or an error");
        assert!(start.is_aligned(), "pinned memory starts a page");
        // SAFETY: the allocation has this many bytes, and zeroes are values.
        unsafe { start.write_bytes(0, values) };
        Ok(Pinned { start, values, streams: Arc::clone(streams) })
    }
}

impl HostMemory for Pinned {
    fn values(&self) -> &[f32] {
        // SAFETY: allocated and initialised with this length in `new`, freed in `drop`; writing
        // takes a unique reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.values) }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and this reference is unique. The device only reads this memory, and
        // never while a lease on it is out: the ring holds the lease until its copy is done.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.values) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Where even this fails, the device is lost, and its driver gives all back by itself.
        let _ = retry_once(|| self.streams.context.bind_to_thread());
        // SAFETY: allocated in `new`, freed once, and no copy from it is under way: the ring holds
        // the lease of a slot until its copy is done. An error is of earlier work, not of this.
        let _ = unsafe { result::free_host(self.start.as_ptr().cast()) };
    }
}
