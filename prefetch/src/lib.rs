//! Batch slots made once, and handed to the device that computes, while it computes.
//!
//! [`choose`] picks the device and says why; [`Ring`] is the stage between whoever fills batches
//! and whoever computes on them. On a CUDA device it copies each filled slot from pinned memory on
//! a stream of its own, ordered by events against the consumer's stream, so that copies and
//! computation overlap and no thread waits for either. On the CPU it hands the slot itself over.
//! Either way slots are allocated once, and dropping a batch sends its slot around again.
//!
//! CUDA comes through `cudarc` and a driver that is loaded at run time: nothing of CUDA is needed
//! to build. This crate never depends on libtorch.
//!
//! ```
//! use millstream_prefetch::{Consumer, DeviceChoice, Ring, choose};
//! use millstream_data::{BatchLayout, Extras};
//! use std::num::NonZeroUsize;
//!
//! let device = choose(DeviceChoice::Auto, Consumer::AnyDevice)?;
//! println!("computing on {}", device.reason);
//!
//! let ring = Ring::open(&device, NonZeroUsize::new(3).unwrap())?;
//! let layout = BatchLayout {
//!     batch_size: 32, lookback: 60, features: 8, horizon: 1, targets: 1, extras: Extras::NONE,
//! };
//! let slots = (ring.slots())(layout)?; // pinned where the device wants it
//! let mut slot = slots.take();
//! slot.parts_mut().0.inputs.fill(1.0);
//! assert_eq!(slots.free(), 2);
//! // A line does the rest: `.then("prefetch", ring)`; see examples/ring.rs.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cuda;
mod cuda_ring;
mod device;
mod device_buffer;
mod pinned;
mod ring;
mod room;
mod settings;
mod simulator;
mod streams;

pub use crate::{
    cuda::{CudaDevice, CudaError, cuda_devices},
    device::{Consumer, Device, DeviceError, choose},
    ring::{Ring, host_slots},
    room::{NoRoom, check_room},
    settings::{DeviceChoice, PrefetchSettings, Residency, UnknownDevice},
    simulator::SimulatorError,
};
