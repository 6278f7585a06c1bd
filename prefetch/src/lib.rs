//! Batch slots made once, and handed to the device that computes.
//!
//! [`choose`] picks the device and says why, [`host_slots`] allocates the ring, and [`CpuRing`] is
//! the stage that hands each filled slot to a consumer on the CPU. [`cuda_devices`] asks the
//! NVIDIA driver, if there is one, through `cudarc`; nothing of CUDA is needed to build. This
//! crate never depends on libtorch.
//!
//! ```
//! use millstream_prefetch::{DeviceChoice, choose, cuda_devices, host_slots};
//! use millstream_stage::BatchLayout;
//! use std::num::NonZeroUsize;
//!
//! let device = choose(DeviceChoice::Auto, cuda_devices())?;
//! println!("computing on {}", device.reason);
//!
//! let layout = BatchLayout { batch_size: 32, lookback: 60, features: 8, horizon: 1, targets: 1 };
//! let slots = host_slots(layout, NonZeroUsize::new(3).unwrap());
//! let mut slot = slots.take();
//! slot.parts_mut().0.inputs.fill(1.0);
//! assert_eq!(slots.free(), 2);
//! # Ok::<(), millstream_prefetch::DeviceError>(())
//! ```

mod cuda;
mod device;
mod ring;
mod settings;

pub use crate::{
    cuda::{CudaDevice, CudaError, cuda_devices},
    device::{Device, DeviceError, choose},
    ring::{CpuRing, host_slots},
    settings::{DeviceChoice, PrefetchSettings, Residency, UnknownDevice},
};
