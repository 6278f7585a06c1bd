//! The floor: the same network in bare libtorch on the same inputs, and nothing done with its forecasts.

use crate::{
    checkpoint::WEIGHTS,
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::Work,
};
use std::collections::HashMap;
use tch::{Device, Kind, Tensor};

/// Forecasts all batches; gives what it took, and the forecasts.
pub(crate) fn run(work: &Work) -> Result<(Sample<()>, Vec<Tensor>), Failure> {
    let mut file: HashMap<String, Tensor> =
        Tensor::read_safetensors(work.folder().join(WEIGHTS))?.into_iter().collect();
    let mut take = |name: &str| file.remove(name).ok_or(format!("no tensor {name}"));
    let recurrent = [
        take("lstm.weight_ih_l0")?,
        take("lstm.weight_hh_l0")?,
        take("lstm.bias_ih_l0")?,
        take("lstm.bias_hh_l0")?,
    ];
    let head = [take("head.weight")?, take("head.bias")?];
    let rows = work.inputs(0).size()[0];
    let hidden = work.kind.hidden().get() as i64;
    let states = [(), ()].map(|()| Tensor::zeros([1, rows, hidden], (Kind::Float, Device::Cpu)));
    let forecast = |inputs: &Tensor| {
        let (_, last, _) = inputs.lstm(&states, &recurrent, true, 1, 0.0, false, false, true);
        last.select(0, -1).linear(&head[0], Some(&head[1])).view([-1, 1, 1])
    };
    let _guard = tch::no_grad_guard();
    let clock = Clock::start(Whose::Own)?;
    let forecasts = (0..work.batches).map(|index| forecast(work.inputs(index))).collect();
    Ok((clock.stop()?, forecasts))
}
