//! [`DeviceBatch`]: a batch where its consumer wants it. Who allocates device memory, and how its use is
//! ordered, is hidden behind [`DeviceMemory`].

use crate::{
    batch_layout::BatchLayout,
    batch_slot::{BatchMeta, BatchSlot},
    plan::{Plan, Tag},
};
use millstream_stage::{Item, Lease};
use std::{any::Any, error::Error, sync::Arc};

/// Where a batch's values lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory.
    Cpu,
    /// Memory of the CUDA device with this number.
    Cuda(usize),
}

/// Device memory that holds a batch. Whoever made it gets it back as what it is through `Any`.
///
/// # Safety
/// A consumer makes tensors over this memory and trusts every answer. [`address`](Self::address) must be
/// that of [`values`](Self::values) values on [`place`](Self::place), allocated for as long as `self`
/// lives; after [`begin`](Self::begin) they must not be written to until
/// all that was enqueued before [`finish`](Self::finish) is done.
pub unsafe trait DeviceMemory: Any + std::fmt::Debug + Send + Sync {
    /// Which device.
    fn place(&self) -> Place;
    /// Address of the first value, as the device sees it.
    fn address(&self) -> *const f32;
    /// How many values it holds.
    fn values(&self) -> usize;
    /// The consumer is about to enqueue its first use of these values: makes the stream it
    /// computes on wait for them. Does not wait itself.
    ///
    /// # Errors
    /// When the device has failed; the values must then not be used.
    fn begin(&self) -> Result<(), DeviceFault>;
    /// The consumer has enqueued its last use of these values.
    fn finish(&self);
}

/// The device failed under a batch.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeviceFault(Box<dyn Error + Send + Sync>);

impl DeviceFault {
    /// A fault with its cause.
    #[must_use]
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        DeviceFault(Box::new(cause))
    }
}

/// A reusable device buffer for one batch.
#[derive(Debug)]
pub struct DeviceSlot {
    layout: BatchLayout,
    memory: Box<dyn DeviceMemory>,
    /// What the batch is; swapped in from the host slot it was copied from.
    pub meta: BatchMeta,
}

impl DeviceSlot {
    /// A slot in device memory.
    ///
    /// # Panics
    /// When the memory does not hold `layout.values()` values.
    #[must_use]
    pub fn new(layout: BatchLayout, memory: Box<dyn DeviceMemory>) -> Self {
        assert!(memory.values() >= layout.values(), "memory made for this layout");
        DeviceSlot { layout, memory, meta: BatchMeta::new(layout) }
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &dyn DeviceMemory {
        &*self.memory
    }
}

/// A batch where its consumer wants it. Dropping it returns the slot.
#[derive(Debug)]
pub enum DeviceBatch {
    /// The consumer computes on the host: the slot itself.
    Host(Lease<BatchSlot>),
    /// The consumer computes on a device.
    Device(Lease<DeviceSlot>),
}

impl DeviceBatch {
    /// What the batch is.
    #[must_use]
    pub fn meta(&self) -> &BatchMeta {
        match self {
            DeviceBatch::Host(slot) => &slot.meta,
            DeviceBatch::Device(slot) => &slot.meta,
        }
    }

    /// Where it stands in the stream.
    ///
    /// # Panics
    /// When the slot was sent on without being filled.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.meta().tag.expect("a batch in a line has been filled")
    }

    /// The stream it belongs to.
    ///
    /// # Panics
    /// When the slot was sent on without being filled.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        self.meta().plan.as_ref().expect("a batch in a line has been filled")
    }

    /// The slot's shape.
    #[must_use]
    pub fn layout(&self) -> BatchLayout {
        match self {
            DeviceBatch::Host(slot) => slot.layout(),
            DeviceBatch::Device(slot) => slot.layout,
        }
    }

    /// Which device the values are on.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            DeviceBatch::Host(_) => Place::Cpu,
            DeviceBatch::Device(slot) => slot.memory.place(),
        }
    }

    /// Address of the first value, as the device of [`place`](Self::place) sees it.
    #[must_use]
    pub fn address(&self) -> *const f32 {
        match self {
            DeviceBatch::Host(slot) => slot.values().as_ptr(),
            DeviceBatch::Device(slot) => slot.memory.address(),
        }
    }

    /// To be called before the first use of the values is enqueued: the consumer's stream then
    /// waits for them to arrive. The caller does not.
    ///
    /// # Errors
    /// When the device has failed; the values must then not be used.
    pub fn begin(&self) -> Result<(), DeviceFault> {
        match self {
            DeviceBatch::Host(_) => Ok(()),
            DeviceBatch::Device(slot) => slot.memory.begin(),
        }
    }

    /// Says that the last use of the values has been enqueued (after backward, not before): the
    /// device buffer may be overwritten once that work is done. A batch that is dropped without it
    /// waits for all that the consumer had enqueued by then.
    pub fn finish(&self) {
        if let DeviceBatch::Device(slot) = self {
            slot.memory.finish();
        }
    }
}

impl Item for DeviceBatch {
    fn rows(&self) -> u64 {
        self.meta().series.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.layout().data_bytes(self.meta().series.len())
    }
}
