//! The floor: the checkpoint's TorchScript on the same inputs, and nothing done with its forecasts.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::Work,
};
use tch::{CModule, Tensor};

/// Forecasts all batches; gives what it took, and the forecasts.
pub(crate) fn run(work: &Work) -> Result<(Sample<()>, Vec<Tensor>), Failure> {
    // Loaded anew, as ours is: a script's first calls take longer.
    let mut model = CModule::load(work.folder().join("model.pt"))?;
    model.f_set_eval()?;
    let _guard = tch::no_grad_guard();
    let clock = Clock::start(Whose::Own)?;
    let forecasts = (0..work.batches).map(|index| model.forward_ts(&[work.inputs(index)]));
    let forecasts = forecasts.collect::<Result<_, _>>()?;
    Ok((clock.stop()?, forecasts))
}
