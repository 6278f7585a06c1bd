//! The run's network in bare libtorch, and its scaling.

use crate::{
    harness::Failure,
    workload::{LOOKBACK, Work},
};
use millstream_data::Scaling;
use std::{collections::HashMap, fs};
use tch::{Device, Kind, Tensor};

/// What a loop forecasts with.
pub(crate) struct Network {
    recurrent: [Tensor; 4],
    head: [Tensor; 2],
    scaling: Scaling,
}

impl Network {
    pub(crate) fn read(work: &Work) -> Result<Self, Failure> {
        let checkpoint = work.run().join("checkpoints/best");
        let file = Tensor::read_safetensors(checkpoint.join("model.safetensors"))?;
        let mut file: HashMap<String, Tensor> = file.into_iter().collect();
        let mut take = |name: &str| file.remove(name).ok_or(format!("no tensor {name}"));
        let recurrent = [
            take("lstm.weight_ih_l0")?,
            take("lstm.weight_hh_l0")?,
            take("lstm.bias_ih_l0")?,
            take("lstm.bias_hh_l0")?,
        ];
        let head = [take("head.weight")?, take("head.bias")?];
        let scaling = serde_json::from_slice(&fs::read(checkpoint.join("scaler.json"))?)?;
        Ok(Network { recurrent, head, scaling })
    }

    /// The model's columns, in its order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.scaling.features.iter().map(|column| column.name.as_str())
    }

    /// A value of a column as the model sees it.
    pub(crate) fn scaled(&self, column: usize, value: f32) -> f32 {
        let column = &self.scaling.features[column];
        let scaled = column.fit.apply_f32(value);
        column.clip.map_or(scaled, |clip| scaled.clamp(-clip as f32, clip as f32))
    }

    /// A forecast for every window of these rows, in user units.
    pub(crate) fn forecast(&self, rows: &[f32]) -> Vec<f32> {
        let features = self.scaling.features.len() as i64;
        let rows = Tensor::from_slice(rows).view([-1, features]);
        let windows = rows.unfold(0, LOOKBACK as i64, 1).transpose(1, 2).contiguous();
        let hidden = self.recurrent[1].size()[1];
        let states = [(), ()]
            .map(|()| Tensor::zeros([1, windows.size()[0], hidden], (Kind::Float, Device::Cpu)));
        let (_, last, _) = windows.lstm(&states, &self.recurrent, true, 1, 0.0, false, false, true);
        let outputs = last.select(0, -1).linear(&self.head[0], Some(&self.head[1])).view([-1]);
        let mut scaled = vec![0.0f32; outputs.numel()];
        outputs.copy_data(&mut scaled, outputs.numel());
        let fit = &self.scaling.targets[0].fit;
        scaled.into_iter().map(|value| fit.invert(f64::from(value)) as f32).collect()
    }
}
