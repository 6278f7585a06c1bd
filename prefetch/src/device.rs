//! Choosing the device: what was asked for, what is there, and one line that says why.

use crate::{
    cuda::{CudaDevice, CudaError, cuda_devices},
    settings::DeviceChoice,
    simulator::{ReadKernel, SimulatorError},
};
use millstream_data::Place;

/// A device that was chosen, and why.
#[derive(Debug, Clone)]
pub struct Device {
    /// Where the consumer will find its batches.
    pub place: Place,
    /// One line for the user.
    pub reason: String,
    pub(crate) route: Route,
}

/// How batches get there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    /// They stay where they were filled.
    Host,
    /// Through a CUDA driver.
    Cuda { ordinal: usize, simulator: Option<ReadKernel> },
}

/// What the consumer of the batches can compute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumer {
    /// Any device there is.
    AnyDevice,
    /// The CPU only; why, as in "libtorch was built without CUDA".
    CpuOnly(&'static str),
}

/// Why the device that was asked for cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// CUDA was asked for and cannot be used.
    #[error(
        "prefetch.device is \"cuda:{ordinal}\", but CUDA cannot be used; set it to \"cpu\" or \"auto\""
    )]
    Cuda {
        /// The device asked for.
        ordinal: usize,
        /// Why.
        #[source]
        source: CudaError,
    },
    /// There is no device with this number.
    #[error(
        "prefetch.device is \"cuda:{ordinal}\", but this machine has {devices} CUDA devices; set it to \"cpu\" or \"auto\""
    )]
    NoSuchDevice {
        /// The device asked for.
        ordinal: usize,
        /// How many there are.
        devices: usize,
    },
    /// The device is there, but the consumer cannot compute on it.
    #[error(
        "prefetch.device is \"cuda:{ordinal}\" ({name}), but {why}; set it to \"cpu\" or \"auto\""
    )]
    Consumer {
        /// The device asked for.
        ordinal: usize,
        /// Its name.
        name: String,
        /// What the consumer lacks.
        why: &'static str,
    },
    /// The simulator was asked for and is not there.
    #[error("prefetch.device is \"fake-cuda\", which cannot be used; set it to \"auto\"")]
    Simulator {
        /// Why.
        #[source]
        source: SimulatorError,
    },
    /// The simulator was asked for and does not work.
    #[error("prefetch.device is \"fake-cuda\", which does not work")]
    SimulatedDriver {
        /// Why.
        #[source]
        source: CudaError,
    },
}

/// Picks the device for `choice`, for a consumer that can compute on what `consumer` says. The
/// driver is asked only where the answer matters.
///
/// # Errors
/// When a device other than the CPU was asked for by name and cannot be used. `auto` never fails:
/// it falls back to the CPU and says so.
pub fn choose(choice: DeviceChoice, consumer: Consumer) -> Result<Device, DeviceError> {
    match choice {
        DeviceChoice::Cpu => Ok(cpu("the CPU, as prefetch.device says".to_owned())),
        DeviceChoice::Auto => Ok(best(&cuda_devices(), consumer)),
        DeviceChoice::Cuda(ordinal) => numbered(ordinal, cuda_devices(), consumer),
        DeviceChoice::FakeCuda => simulated(),
    }
}

fn cpu(reason: String) -> Device {
    Device { place: Place::Cpu, reason, route: Route::Host }
}

fn cuda(device: &CudaDevice) -> Device {
    let CudaDevice { ordinal, name, .. } = device;
    let route = Route::Cuda { ordinal: *ordinal, simulator: None };
    Device { place: Place::Cuda(*ordinal), reason: format!("cuda:{ordinal}, {name}"), route }
}

fn best(found: &Result<Vec<CudaDevice>, CudaError>, consumer: Consumer) -> Device {
    match (found.as_deref(), consumer) {
        (Ok([]), _) => cpu(format!("the CPU: {}", CudaError::NoDevice)),
        (Ok([first, ..]), Consumer::AnyDevice) => cuda(first),
        (Ok([first, ..]), Consumer::CpuOnly(why)) => {
            cpu(format!("the CPU: {} is there, but {why}", first.name))
        }
        (Err(error), _) => cpu(format!("the CPU: {}", with_cause(error))),
    }
}

fn numbered(
    ordinal: usize,
    found: Result<Vec<CudaDevice>, CudaError>,
    consumer: Consumer,
) -> Result<Device, DeviceError> {
    let devices = found.map_err(|source| DeviceError::Cuda { ordinal, source })?;
    let Some(device) = devices.get(ordinal) else {
        return Err(DeviceError::NoSuchDevice { ordinal, devices: devices.len() });
    };
    match consumer {
        Consumer::AnyDevice => Ok(cuda(device)),
        Consumer::CpuOnly(why) => {
            Err(DeviceError::Consumer { ordinal, name: device.name.clone(), why })
        }
    }
}

fn simulated() -> Result<Device, DeviceError> {
    let kernel = ReadKernel::load().map_err(|source| DeviceError::Simulator { source })?;
    let devices = cuda_devices().map_err(|source| DeviceError::SimulatedDriver { source })?;
    let name = devices.first().map_or("no device", |device| device.name.as_str());
    Ok(Device {
        place: Place::Cpu,
        reason: format!("the CPU, through {name}, a simulated driver for tests"),
        route: Route::Cuda { ordinal: 0, simulator: Some(kernel) },
    })
}

/// One line: the error and what the driver said.
fn with_cause(error: &CudaError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CUDA: Consumer = Consumer::CpuOnly("libtorch was built without CUDA");

    fn one() -> Result<Vec<CudaDevice>, CudaError> {
        Ok(vec![CudaDevice { ordinal: 0, name: "Test GPU".into(), memory: 8, free: 4 }])
    }

    #[test]
    fn auto_takes_a_device_that_works_or_says_why_not() {
        let check = |found, consumer, place, expected: &str| {
            let device = best(&found, consumer);
            assert_eq!(device.place, place);
            assert!(device.reason.contains(expected), "{}", device.reason);
        };
        check(Err(CudaError::NoDriver), Consumer::AnyDevice, Place::Cpu, "no NVIDIA driver");
        check(Ok(Vec::new()), Consumer::AnyDevice, Place::Cpu, "reports no device");
        check(one(), NO_CUDA, Place::Cpu, "Test GPU is there, but libtorch was built without");
        check(one(), Consumer::AnyDevice, Place::Cuda(0), "cuda:0, Test GPU");
    }

    #[test]
    fn a_device_asked_for_by_number_is_never_replaced_silently() {
        let check = |ordinal, found, expected: &str| {
            let error = numbered(ordinal, found, NO_CUDA).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(0, Err(CudaError::NoDriver), "CUDA cannot be used");
        check(3, one(), "this machine has 1 CUDA devices");
        check(0, one(), "libtorch was built without CUDA");
        assert_eq!(numbered(0, one(), Consumer::AnyDevice).unwrap().place, Place::Cuda(0));
    }

    #[test]
    fn the_cpu_needs_no_driver() {
        let device = choose(DeviceChoice::Cpu, Consumer::AnyDevice).unwrap();
        assert_eq!(device.place, Place::Cpu);
    }
}
