//! What CUDA there is: driver and devices, through `cudarc` and a driver loaded at run time.
//!
//! Building needs nothing of CUDA. A machine without a driver gets [`CudaError::NoDriver`], never
//! a panic: cudarc panics when it cannot load the library, so its presence is asked first.

use cudarc::driver::{CudaContext, DriverError, sys};

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
    /// The driver answered with an error.
    #[error("the NVIDIA driver failed to {doing}")]
    Driver {
        /// What it was asked to do.
        doing: &'static str,
        /// What it said.
        #[source]
        source: DriverError,
    },
}

/// Lists the CUDA devices of this machine.
///
/// # Errors
/// When there is no driver, or it does not answer.
pub fn cuda_devices() -> Result<Vec<CudaDevice>, CudaError> {
    // SAFETY: loading libcuda runs its initialisers, which is what every CUDA program does; the
    // names searched are the driver's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let failed = |doing| move |source| CudaError::Driver { doing, source };
    let count = CudaContext::device_count().map_err(failed("count its devices"))?;
    (0..usize::try_from(count).unwrap_or(0))
        .map(|ordinal| {
            let context = CudaContext::new(ordinal).map_err(failed("open a device"))?;
            let name = context.name().map_err(failed("name a device"))?;
            let (free, memory) =
                context.mem_get_info().map_err(failed("measure a device's memory"))?;
            Ok(CudaDevice { ordinal, name, memory, free })
        })
        .collect()
}
