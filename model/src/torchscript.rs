//! A model as TorchScript, for programs that have nothing of ours. Nothing here reads one.
//!
//! libtorch's archive writer throws from its destructor when a write fails, which ends the whole
//! process: a full disk would abort it instead of being an error. So libtorch writes to a file in
//! memory, and the bytes go to disk through ordinary, checked writes.

use crate::{
    error::ModelError,
    model::{Model, Shape},
    tensor::Inputs,
    torch_text::reason,
};
use millstream_data::{Extras, Padding};
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsRawFd,
    path::PathBuf,
};
use tch::{CModule, Device, Kind, Tensor};

/// The model, which lies on the host, in evaluation mode and with its weights built in: a file for
/// `torch.jit.load`. It takes inputs `[rows, lookback, features]` with any number of rows, and after
/// them the lengths `[rows]` where windows are padded on the right, whose lookback may be any too; a
/// model that [looks at more](Model::traced_with) takes lengths also where they are padded on the left,
/// and then the segments `[rows, lookback]`. A model that is a script is given as it is.
///
/// # Errors
/// [`ModelError::Trace`] when libtorch cannot trace it, [`ModelError::ScriptMemory`] when the system
/// has no memory for the file.
pub fn to_torchscript(mut model: Box<dyn Model>, shape: &Shape) -> Result<Vec<u8>, ModelError> {
    let _guard = tch::no_grad_guard();
    if let Some(script) = model.as_torchscript()? {
        return Ok(script);
    }
    let extras = model.traced_with();
    let extras = Extras { padding: extras.padding || shape.padding == Padding::Right, ..extras };
    // A trace takes no constants that could be learned.
    for tensor in &mut model.parameters_mut().tensors {
        *tensor = tensor.f_detach()?;
    }
    let mut failed = None;
    let mut forward = |tensors: &[Tensor]| match model.forward_traced(&inputs(tensors, extras)) {
        Ok(forecast) => vec![forecast],
        Err(error) => {
            failed = Some(error);
            vec![tensors[0].shallow_clone()]
        }
    };
    let examples = examples(shape, extras)?;
    let traced = CModule::create_by_tracing("Forecast", "forward", &examples, &mut forward);
    match (failed, traced) {
        (Some(error), _) => Err(error),
        (None, Ok(script)) => to_bytes(&script),
        (None, Err(error)) => Err(ModelError::Trace { reason: reason(&error) }),
    }
}

/// What the trace is made with. Two rows: over one, a size of 1 could be taken for a constant.
fn examples(shape: &Shape, extras: Extras) -> Result<Vec<Tensor>, ModelError> {
    let (lookback, features) = (shape.lookback as i64, shape.features as i64);
    let host = (Kind::Float, Device::Cpu);
    let mut examples = vec![Tensor::f_zeros([2, lookback, features], host)?];
    if extras.padding {
        examples.push(Tensor::f_full([2], lookback, host)?);
    }
    if extras.segments {
        examples.push(Tensor::f_zeros([2, lookback], host)?);
    }
    Ok(examples)
}

fn inputs(tensors: &[Tensor], extras: Extras) -> Inputs {
    let mut tensors = tensors.iter().map(Tensor::shallow_clone);
    let mut next = || tensors.next().expect("a trace is made with what it takes");
    Inputs {
        values: next(),
        lengths: extras.padding.then(&mut next),
        mask: None,
        segments: extras.segments.then(&mut next),
    }
}

/// What `script.save` would write.
pub(crate) fn to_bytes(script: &CModule) -> Result<Vec<u8>, ModelError> {
    let in_memory = |source: io::Error| ModelError::ScriptMemory { source };
    let descriptor = memfd_create("torchscript", MemfdFlags::CLOEXEC);
    let mut file = File::from(descriptor.map_err(|error| in_memory(error.into()))?);
    // A path is all that libtorch takes; opened again, the file is the same, read from its start.
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    script.save(&path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(in_memory)?;
    Ok(bytes)
}
