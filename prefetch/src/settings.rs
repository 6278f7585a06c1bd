//! The `[prefetch]` settings, as a plain serde struct.

use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// How batches reach the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefetchSettings {
    /// `auto`, `cpu` or `cuda:N`.
    pub device: DeviceChoice,
    /// What stays where.
    pub residency: Residency,
    /// Batch slots; also the depth of the links between stages.
    pub depth: NonZeroUsize,
}

/// Which device to compute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The best that works; says what it picked and why.
    Auto,
    /// The processor.
    Cpu,
    /// The CUDA device with this number.
    Cuda(usize),
    /// The simulated driver of `prefetch/fake-cuda`, for tests.
    FakeCuda,
}

/// What stays where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// Picked by size.
    Auto,
    /// The scaled panel in RAM, batches through the slots.
    Ram,
}

/// Not the name of a device.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown device {0:?}; use \"auto\", \"cpu\" or \"cuda:0\"")]
pub struct UnknownDevice(String);

impl Default for PrefetchSettings {
    fn default() -> Self {
        PrefetchSettings {
            device: DeviceChoice::Auto,
            residency: Residency::Auto,
            depth: NonZeroUsize::new(3).expect("a constant above zero"),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = UnknownDevice;

    fn try_from(name: String) -> Result<Self, UnknownDevice> {
        match name.as_str() {
            "auto" => Ok(DeviceChoice::Auto),
            "cpu" => Ok(DeviceChoice::Cpu),
            "fake-cuda" => Ok(DeviceChoice::FakeCuda),
            other => match other.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(ordinal)) => Ok(DeviceChoice::Cuda(ordinal)),
                _ => Err(UnknownDevice(name)),
            },
        }
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> String {
        match choice {
            DeviceChoice::Auto => "auto".to_owned(),
            DeviceChoice::Cpu => "cpu".to_owned(),
            DeviceChoice::Cuda(ordinal) => format!("cuda:{ordinal}"),
            DeviceChoice::FakeCuda => "fake-cuda".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_round_trip_and_others_are_refused() {
        for name in ["auto", "cpu", "cuda:0", "cuda:11", "fake-cuda"] {
            let choice = DeviceChoice::try_from(name.to_owned()).unwrap();
            assert_eq!(String::from(choice), name);
        }
        for name in ["", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert_eq!(
                DeviceChoice::try_from(name.to_owned()),
                Err(UnknownDevice(name.to_owned()))
            );
        }
    }
}
