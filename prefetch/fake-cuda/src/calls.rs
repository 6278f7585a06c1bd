//! The driver calls there are, and how often each was made, in all and by the calling thread.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

macro_rules! calls {
    ($($name:ident),* $(,)?) => {
        /// A driver entry point.
        #[allow(non_camel_case_types, reason = "these are the names of the C functions")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Call {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                $name
            ),*
        }

        impl Call {
            /// Every entry point.
            pub const ALL: &[Call] = &[$(Call::$name),*];

            /// The name of the C function.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Call::$name => stringify!($name)),* }
            }
        }
    };
}

calls! {
    cuInit,
    cuDriverGetVersion,
    cuDeviceGetCount,
    cuDeviceGet,
    cuDeviceGetName,
    cuDeviceGetAttribute,
    cuDevicePrimaryCtxRetain,
    cuDevicePrimaryCtxRelease_v2,
    cuCtxGetCurrent,
    cuCtxSetCurrent,
    cuCtxSynchronize,
    cuMemGetInfo_v2,
    cuMemHostAlloc,
    cuMemFreeHost,
    cuMemAlloc_v2,
    cuMemFree_v2,
    cuStreamCreate,
    cuStreamDestroy_v2,
    cuStreamSynchronize,
    cuStreamWaitEvent,
    cuEventCreate,
    cuEventDestroy_v2,
    cuEventRecord,
    cuEventQuery,
    cuEventSynchronize,
    cuEventElapsedTime_v2,
    cuMemcpyHtoDAsync_v2,
    cuMemcpyHtoD_v2,
    cuMemcpyDtoHAsync_v2,
}

impl Call {
    /// Whether the call makes the calling thread wait for the device.
    #[must_use]
    pub fn synchronises(self) -> bool {
        matches!(
            self,
            Call::cuCtxSynchronize
                | Call::cuStreamSynchronize
                | Call::cuEventSynchronize
                | Call::cuMemcpyHtoD_v2
                | Call::cuMemFree_v2
                | Call::cuMemFreeHost
        )
    }

    /// Whether the call allocates or frees memory, a stream or an event.
    #[must_use]
    pub fn allocates(self) -> bool {
        matches!(
            self,
            Call::cuMemHostAlloc
                | Call::cuMemFreeHost
                | Call::cuMemAlloc_v2
                | Call::cuMemFree_v2
                | Call::cuStreamCreate
                | Call::cuStreamDestroy_v2
                | Call::cuEventCreate
                | Call::cuEventDestroy_v2
        )
    }
}

pub(crate) const COUNT: usize = Call::ALL.len();

static ALL: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];

thread_local! {
    static HERE: [Cell<u64>; COUNT] = const { [const { Cell::new(0) }; COUNT] };
}

pub(crate) fn count(call: Call) {
    ALL[call as usize].fetch_add(1, Relaxed);
    HERE.with(|counts| counts[call as usize].set(counts[call as usize].get() + 1));
}

pub(crate) fn in_all(call: usize) -> u64 {
    ALL.get(call).map_or(0, |count| count.load(Relaxed))
}

pub(crate) fn on_this_thread(call: usize) -> u64 {
    HERE.with(|counts| counts.get(call).map_or(0, Cell::get))
}
