//! A checkpoint with a model of the trainer's shape: an LSTM and a linear head, weights at random.

use crate::harness::Failure;
use millstream_data::{Checksums, Plan};
use std::{fs, path::Path};
use tch::{CModule, Device, Kind, Tensor};

/// Writes the files that a predictor reads.
pub(crate) fn write(folder: &Path, plan: &Plan, hidden: i64) -> Result<(), Failure> {
    tch::manual_seed(42);
    let host = (Kind::Float, Device::Cpu);
    let draw = |shape: &[i64]| Tensor::randn(shape, host) * 0.1;
    let features = plan.schema.features.len() as i64;
    let gates = 4 * hidden;
    let recurrent =
        [draw(&[gates, features]), draw(&[gates, hidden]), draw(&[gates]), draw(&[gates])];
    let head = [draw(&[1, hidden]), draw(&[1])];
    let mut network = |inputs: &[Tensor]| {
        // The states take their size from the input, so that the trace holds for any batch.
        let rows = inputs[0].narrow(1, 0, 1).narrow(2, 0, 1).zeros_like().transpose(0, 1);
        let states = [(), ()].map(|()| rows.expand([1, -1, hidden], false).contiguous());
        let (_, last, _) = inputs[0].lstm(&states, &recurrent, true, 1, 0.0, false, false, true);
        vec![last.select(0, -1).linear(&head[0], Some(&head[1])).view([-1, 1, 1])]
    };
    let example = Tensor::zeros([2, plan.schema.lookback as i64, features], host);
    let _guard = tch::no_grad_guard();
    CModule::create_by_tracing("Forecast", "forward", &[example], &mut network)?
        .save(folder.join("model.pt"))?;
    fs::write(folder.join("schema.json"), serde_json::to_vec(&plan.schema)?)?;
    fs::write(folder.join("scaler.json"), serde_json::to_vec(&plan.scaling)?)?;
    let mut checksums = Checksums::default();
    for name in ["model.pt", "schema.json", "scaler.json"] {
        checksums.add(name, &fs::read(folder.join(name))?);
    }
    fs::write(folder.join(Checksums::FILE), checksums.to_text())?;
    Ok(())
}
