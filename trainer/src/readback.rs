//! The one door from the device to the host.
//!
//! Reading a tensor waits until the device has computed it, which stops the line. So nothing else
//! in this crate reads one, and every read is counted: a test holds the count against the log
//! lines, passes and checkpoints that need one.

use tch::{Device, Kind, TchError, Tensor};

/// Reads tensors and counts how often.
#[derive(Debug, Default)]
pub(crate) struct Readback {
    reads: u64,
}

impl Readback {
    /// The values of a tensor, row by row.
    ///
    /// # Errors
    /// When the device, or what was computed there, has failed.
    pub(crate) fn numbers(&mut self, tensor: &Tensor) -> Result<Vec<f64>, TchError> {
        self.reads += 1;
        let mut numbers = vec![0.0; tensor.numel()];
        tensor.f_to_kind(Kind::Double)?.f_copy_data(&mut numbers, tensor.numel())?;
        Ok(numbers)
    }

    /// Each tensor on the host, without its history. Counts as one read: the device is waited for
    /// once. A tensor that is on the host already is shared, not copied.
    ///
    /// # Errors
    /// When the device, or what was computed there, has failed.
    pub(crate) fn tensors(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        self.reads += 1;
        tensors.iter().map(|tensor| tensor.f_detach()?.f_to_device(Device::Cpu)).collect()
    }

    /// How often the host waited for the device.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }
}
