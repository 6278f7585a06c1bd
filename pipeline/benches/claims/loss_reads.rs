//! Reading the loss: twice per batch, or once per interval from a sum that stays on the device.

use crate::{
    finding::Finding,
    harness::Failure,
    training::{self, INTERVAL, Manner, Reads},
    workload::Size,
};

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let before = Manner { reads: Reads::TwicePerBatch, ..Manner::PROMISED };
    let trained = training::train(size, [before, Manner::PROMISED])?;
    let how = format!("reads of the loss: 2 per batch, then 1 per {INTERVAL} batches");
    let reason = "the promise is about a GPU, which a read makes the host wait for; there is none \
                  here, and on a CPU the loss is there when the step is";
    Ok(trained.finding(&how, reason))
}
