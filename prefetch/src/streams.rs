//! A device as the ring uses it: its context, the stream that copies and the stream that computes.

use crate::{
    cuda::{CudaError, open_device},
    simulator::ReadKernel,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, sys};
use millstream_data::Place;
use std::sync::Arc;

/// The two streams of a device.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) context: Arc<CudaContext>,
    /// Non-blocking: it neither waits for the default stream nor makes that wait.
    pub(crate) copy: Arc<CudaStream>,
    /// The legacy default stream, which is the one libtorch computes on.
    pub(crate) compute: Arc<CudaStream>,
    /// Set when the driver is the simulator: the device's memory is then the host's.
    pub(crate) simulator: Option<ReadKernel>,
}

impl Streams {
    pub(crate) fn open(
        ordinal: usize,
        simulator: Option<ReadKernel>,
    ) -> Result<Arc<Self>, CudaError> {
        let context = open_device(ordinal)?;
        // SAFETY: cudarc's own tracking is for its slices, and none are made here: the ring orders
        // every use of its memory by events of its own.
        unsafe { context.disable_event_tracking() };
        let copy = context.new_stream().map_err(CudaError::failed_to("make a copy stream"))?;
        let compute = context.default_stream();
        Ok(Arc::new(Streams { context, copy, compute, simulator }))
    }

    pub(crate) fn place(&self) -> Place {
        match self.simulator {
            None => Place::Cuda(self.context.ordinal()),
            Some(_) => Place::Cpu,
        }
    }

    /// An event for streams to wait on.
    pub(crate) fn event(&self) -> Result<CudaEvent, CudaError> {
        self.context.new_event(None).map_err(CudaError::failed_to("make an event"))
    }

    /// An event for a host thread to wait on, which then sleeps instead of spinning.
    pub(crate) fn host_event(&self) -> Result<CudaEvent, CudaError> {
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        self.context.new_event(Some(flags)).map_err(CudaError::failed_to("make an event"))
    }
}

/// Makes a call that must not be left out, and makes it again when it fails. cudarc reports the
/// error of something dropped earlier in place of whatever is called next, once; and the driver
/// that of earlier work. What fails twice fails because the device has stopped.
pub(crate) fn retry_once(call: impl Fn() -> Result<(), DriverError>) -> Result<(), DriverError> {
    call().or_else(|_| call())
}
