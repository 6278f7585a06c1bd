//! `device = "fake-cuda"`: the simulated driver of `prefetch/fake-cuda`, for tests of whole runs.
//!
//! The library is named by the environment, never searched for, so nobody gets it by accident. It
//! is loaded before cudarc looks for a driver, and stays; its SONAME makes cudarc find it.

use cudarc::driver::{DriverError, sys};
use libloading::{Library, Symbol};
use std::path::PathBuf;

/// The variable that names the library.
const VARIABLE: &str = "MILLSTREAM_FAKE_CUDA";
const SYMBOL: &[u8] = b"fake_cuda_read_and_wait";

/// Why there is no simulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatorError {
    /// Nothing says where it is.
    #[error("it is a simulator for millstream's own tests; {VARIABLE} must name its library")]
    NotNamed,
    /// It does not load.
    #[error("cannot load {}", .path.display())]
    Load {
        /// What the variable names.
        path: PathBuf,
        /// Why.
        #[source]
        source: libloading::Error,
    },
}

/// How the simulator is told of reads on the host, which it cannot see and no stream can hold up: a
/// kernel on the default stream, which is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadKernel(extern "C" fn(sys::CUdeviceptr, usize) -> sys::CUresult);

impl ReadKernel {
    /// Loads the simulator.
    pub(crate) fn load() -> Result<Self, SimulatorError> {
        let path = std::env::var_os(VARIABLE).ok_or(SimulatorError::NotNamed)?;
        let path = PathBuf::from(path);
        // SAFETY: whoever set the variable vouches for the library; ours runs nothing when loaded.
        let library = unsafe { Library::new(&path) };
        let failed = |source| SimulatorError::Load { path: path.clone(), source };
        let library = library.map_err(failed)?;
        // SAFETY: the simulator's function of this name has this type, and answers with values of
        // `CUresult` only.
        let read: Result<Symbol<'_, _>, _> = unsafe { library.get(SYMBOL) };
        let kernel = ReadKernel(*read.map_err(failed)?);
        // A driver is never unloaded: the function must stay, and so must its threads' code.
        std::mem::forget(library);
        Ok(kernel)
    }

    /// Enqueues a read of device memory, and waits until the stream has come to it.
    pub(crate) fn run(self, start: sys::CUdeviceptr, bytes: usize) -> Result<(), DriverError> {
        (self.0)(start, bytes).result()
    }
}
