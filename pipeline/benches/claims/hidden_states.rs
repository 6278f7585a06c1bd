//! The initial states of the LSTM: zeros made for every batch, or once.

use crate::{
    finding::Finding,
    harness::Failure,
    training::{self, Manner, States},
    workload::Size,
};

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let before = Manner { states: States::Fresh, ..Manner::PROMISED };
    let trained = training::train(size, [before, Manner::PROMISED])?;
    let how = "zeros for hidden and cell state made for every batch, then views of zeros made once";
    let reason = "on a CPU two tensors of 64 kB are nothing beside a step; what a GPU's \
                  allocations and launches take cannot be shown here";
    Ok(trained.finding(how, reason))
}
