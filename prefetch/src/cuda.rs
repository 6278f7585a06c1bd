//! What CUDA there is: driver and devices, through `cudarc` and a driver loaded at run time.
//!
//! Building needs nothing of CUDA. A machine without a driver gets [`CudaError::NoDriver`], never
//! a panic: cudarc panics when it cannot load the library or a function of it, so both are looked
//! for first.

use cudarc::driver::{CudaContext, DriverError, sys};
use std::sync::Arc;

/// One CUDA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDevice {
    /// Its number.
    pub ordinal: usize,
    /// What it calls itself.
    pub name: String,
    /// Bytes of memory, all of it.
    pub memory: usize,
    /// Bytes of memory that are free now.
    pub free: usize,
}

/// Why CUDA cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver library is not on the machine.
    #[error("no NVIDIA driver (libcuda) found")]
    NoDriver,
    /// The driver is there, and no device.
    #[error("the NVIDIA driver reports no device")]
    NoDevice,
    /// The driver lacks a function.
    #[error("the NVIDIA driver has no function {name}; update it to one for CUDA 11 or later")]
    MissingSymbol {
        /// The function.
        name: &'static str,
    },
    /// The driver is too old.
    #[error("the NVIDIA driver is for CUDA {}.{}; update it to one for CUDA 11 or later", .version / 1000, .version % 1000 / 10)]
    OldDriver {
        /// The latest CUDA version it supports, as 1000 · major + 10 · minor.
        version: i32,
    },
    /// The driver answered with an error.
    #[error("the NVIDIA driver failed to {doing}")]
    Driver {
        /// What it was asked to do.
        doing: &'static str,
        /// What it said.
        #[source]
        source: DriverError,
    },
    /// The system starts no thread for the ring.
    #[error("the system starts no further thread")]
    Thread(#[source] std::io::Error),
}

impl CudaError {
    /// For `map_err` on a driver call.
    pub(crate) fn failed_to(doing: &'static str) -> impl Fn(DriverError) -> CudaError {
        move |source| match source.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => CudaError::NoDevice,
            _ => CudaError::Driver { doing, source },
        }
    }
}

/// Primary contexts as used here came with CUDA 11.
const OLDEST: i32 = 11_000;

/// Every function that this crate, or cudarc on its behalf, calls.
const SYMBOLS: [&str; 28] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuCtxSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
];

/// Lists the CUDA devices of this machine.
///
/// # Errors
/// When there is no driver, or it does not answer, or is too old.
pub fn cuda_devices() -> Result<Vec<CudaDevice>, CudaError> {
    require_driver(&SYMBOLS)?;
    let count = CudaContext::device_count().map_err(CudaError::failed_to("count its devices"))?;
    (0..usize::try_from(count).unwrap_or(0))
        .map(|ordinal| {
            let context = open(ordinal)?;
            let name = context.name().map_err(CudaError::failed_to("name a device"))?;
            let (free, memory) = context
                .mem_get_info()
                .map_err(CudaError::failed_to("measure a device's memory"))?;
            Ok(CudaDevice { ordinal, name, memory, free })
        })
        .collect()
}

/// Opens a device, on a machine with a driver or without.
pub(crate) fn open_device(ordinal: usize) -> Result<Arc<CudaContext>, CudaError> {
    require_driver(&SYMBOLS)?;
    open(ordinal)
}

fn open(ordinal: usize) -> Result<Arc<CudaContext>, CudaError> {
    CudaContext::new(ordinal).map_err(CudaError::failed_to("open a device"))
}

/// Makes sure that no call of cudarc can panic.
fn require_driver(symbols: &[&'static str]) -> Result<(), CudaError> {
    // SAFETY: loading libcuda runs its initialisers, which is what every CUDA program does; the
    // names searched are the driver's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    // SAFETY: as above; the library was found just now.
    let library = unsafe { sys::culib() };
    for name in symbols {
        // SAFETY: only whether the symbol is there is asked; it is not used through this type.
        if unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(CudaError::MissingSymbol { name });
        }
    }
    let mut version = 0;
    // SAFETY: the function is there, needs no initialisation, and writes one integer.
    let answer = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    answer.result().map_err(CudaError::failed_to("tell its version"))?;
    if version < OLDEST { Err(CudaError::OldDriver { version }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake_cuda::{Config, Simulator};

    #[test]
    fn a_driver_that_lacks_a_function_is_an_error_with_its_name() {
        let _simulator = Simulator::start(Config::default());
        require_driver(&SYMBOLS).unwrap();
        let error = require_driver(&["cuInit", "cuNoSuchFunction"]).unwrap_err();
        assert!(matches!(error, CudaError::MissingSymbol { name: "cuNoSuchFunction" }), "{error}");
    }

    #[test]
    fn an_old_driver_is_an_error_with_its_version() {
        let _simulator = Simulator::start(Config { driver_version: 10_020, ..Config::default() });
        let error = cuda_devices().unwrap_err();
        assert!(error.to_string().contains("CUDA 10.2"), "{error}");
    }

    #[test]
    fn a_driver_without_a_device_is_an_error_that_says_so() {
        let _simulator = Simulator::start(Config { devices: 0, ..Config::default() });
        assert!(matches!(cuda_devices(), Err(CudaError::NoDevice)));
    }
}
