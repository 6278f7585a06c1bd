//! The device a line computes on, for a consumer that is libtorch.

use crate::error::Error;
use millstream_normalize::MakeSlots;
use millstream_prefetch::{
    Consumer, Device, DeviceChoice, DeviceError, PrefetchSettings, Ring, check_room, choose,
};

/// Picks the device that the settings ask for, as far as this libtorch can compute there.
pub(crate) fn device(choice: DeviceChoice) -> Result<Device, DeviceError> {
    // Asking libtorch starts CUDA where it can, so it is asked only where the answer matters.
    let consumer = match choice {
        DeviceChoice::Auto | DeviceChoice::Cuda(_) if !tch::Cuda::is_available() => {
            Consumer::CpuOnly("this libtorch cannot compute with CUDA")
        }
        _ => Consumer::AnyDevice,
    };
    choose(choice, consumer)
}

/// Opens the ring to a device, and what makes the slots that normalize fills for it.
pub(crate) fn ring(
    device: &Device,
    settings: &PrefetchSettings,
) -> Result<(Ring, MakeSlots), Error> {
    let ring = Ring::open(device, settings.depth)?;
    let (slots, depth) = (ring.slots(), settings.depth);
    let make_slots = Box::new(move |layout| {
        check_room(layout, depth)?;
        slots(layout).map_err(Box::<dyn std::error::Error + Send + Sync>::from)
    });
    Ok((ring, make_slots))
}
