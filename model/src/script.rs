//! A traced model as bytes, to be written like any other file.
//!
//! libtorch's archive writer throws from its destructor when a write fails, which ends the whole
//! process: a full disk would abort a run instead of being an error. So libtorch writes to a file
//! in memory, and the bytes go to disk through ordinary, checked writes.

use crate::{error::ModelError, torch_text::reason};
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsRawFd,
    path::PathBuf,
};
use tch::CModule;

/// What `script.save` would write.
///
/// # Errors
/// [`ModelError::WriteScript`] when libtorch refuses, [`ModelError::ScriptMemory`] when the system has
/// no memory for the file.
pub fn to_bytes(script: &CModule) -> Result<Vec<u8>, ModelError> {
    let in_memory = |source: io::Error| ModelError::ScriptMemory { source };
    let descriptor = memfd_create("model.pt", MemfdFlags::CLOEXEC);
    let mut file = File::from(descriptor.map_err(|error| in_memory(error.into()))?);
    // A path is all that libtorch takes; opened again, the file is the same, read from its start.
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    script.save(&path).map_err(|error| ModelError::WriteScript { reason: reason(&error) })?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(in_memory)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn the_bytes_are_a_model_that_loads() {
        let x = Tensor::ones([2, 3], (Kind::Float, Device::Cpu));
        let mut double = |inputs: &[Tensor]| vec![&inputs[0] * 2.0];
        let script =
            CModule::create_by_tracing("Double", "forward", &[x.shallow_clone()], &mut double)
                .unwrap();
        let bytes = to_bytes(&script).unwrap();
        let loaded = CModule::load_data(&mut io::Cursor::new(bytes)).unwrap();
        assert!(loaded.forward_ts(&[&x]).unwrap().equal(&(&x * 2.0)));
    }
}
