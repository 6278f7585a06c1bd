//! Choosing the device: what was asked for, what is there, and one line that says why.

use crate::{
    cuda::{CudaDevice, CudaError},
    settings::DeviceChoice,
};
use millstream_stage::Place;

/// A device that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Where batches go.
    pub place: Place,
    /// One line for the user.
    pub reason: String,
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
    /// The device is there, but this version does not compute on it.
    #[error(
        "prefetch.device is \"cuda:{ordinal}\" ({name}), but this version of millstream computes on the CPU only; set it to \"cpu\" or \"auto\""
    )]
    Unsupported {
        /// The device asked for.
        ordinal: usize,
        /// Its name.
        name: String,
    },
}

/// Picks the device for `choice` from what [`cuda_devices`](crate::cuda_devices) found.
///
/// # Errors
/// When a CUDA device was asked for by number and cannot be used. `auto` never fails: it falls
/// back to the CPU and says so.
pub fn choose(
    choice: DeviceChoice,
    cuda: Result<Vec<CudaDevice>, CudaError>,
) -> Result<Device, DeviceError> {
    let cpu = |reason| Ok(Device { place: Place::Cpu, reason });
    match choice {
        DeviceChoice::Cpu => cpu("the CPU, as prefetch.device says".to_owned()),
        DeviceChoice::Auto => cpu(match cuda {
            Ok(devices) if !devices.is_empty() => format!(
                "the CPU: {} is there, but this version computes on the CPU only",
                devices[0].name
            ),
            Ok(_) => "the CPU: the NVIDIA driver reports no device".to_owned(),
            Err(error) => format!("the CPU: {error}"),
        }),
        DeviceChoice::Cuda(ordinal) => {
            let devices = cuda.map_err(|source| DeviceError::Cuda { ordinal, source })?;
            match devices.get(ordinal) {
                None => Err(DeviceError::NoSuchDevice { ordinal, devices: devices.len() }),
                Some(device) => {
                    Err(DeviceError::Unsupported { ordinal, name: device.name.clone() })
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Result<Vec<CudaDevice>, CudaError> {
        Ok(vec![CudaDevice { ordinal: 0, name: "Test GPU".into(), memory: 8, free: 4 }])
    }

    #[test]
    fn auto_falls_back_to_the_cpu_and_says_why() {
        let check = |found, expected: &str| {
            let device = choose(DeviceChoice::Auto, found).unwrap();
            assert_eq!(device.place, Place::Cpu);
            assert!(device.reason.contains(expected), "{}", device.reason);
        };
        check(Err(CudaError::NoDriver), "no NVIDIA driver");
        check(Ok(Vec::new()), "reports no device");
        check(one(), "Test GPU is there");
    }

    #[test]
    fn a_device_asked_for_by_number_is_never_replaced_silently() {
        let check = |ordinal, found, expected: &str| {
            let error = choose(DeviceChoice::Cuda(ordinal), found).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(0, Err(CudaError::NoDriver), "CUDA cannot be used");
        check(3, one(), "this machine has 1 CUDA devices");
        check(0, one(), "computes on the CPU only");
    }
}
