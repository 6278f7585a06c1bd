//! DLinear (Zeng et al., "Are Transformers Effective for Time Series Forecasting?", 2023): the window
//! of a column is taken apart into its moving average, the trend, and the rest, the season; each goes
//! through a linear map to the column's next values, and the two are added.
//!
//! The same network in PyTorch, with the same names; the two are lists with a map for each column where
//! they are `individual`:
//!
//! ```python
//! self.Linear_Seasonal = nn.Linear(lookback, horizon)
//! self.Linear_Trend = nn.Linear(lookback, horizon)
//! x = values[:, :, own_inputs].permute(0, 2, 1)
//! padded = F.pad(x, ((kernel - 1) // 2, (kernel - 1) // 2), mode="replicate")
//! trend = F.avg_pool1d(padded, kernel, stride=1)
//! return (self.Linear_Seasonal(x - trend) + self.Linear_Trend(trend)).permute(0, 2, 1)
//! ```
//!
//! In the published form all columns come in and all are forecast. Here the targets may be some of the
//! inputs; the other inputs have no part in it. Windows are whole: there is no place for padding.
//!
//! The moving average is linear itself, and is computed as one multiplication with a matrix that is made
//! once: pooling takes libtorch longer than both maps.

use crate::{
    channels::{self, Channels},
    error::ModelError,
    model::{Architecture, Mode, Model, Shape},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::SplitMix64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroUsize;
use tch::{Device, Tensor};

const NAME: &str = "dlinear";

/// Its options: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DlinearOptions {
    /// Whether every target has maps of its own, instead of those for all; false by default.
    pub individual: bool,
    /// Rows of the moving average, an odd number, so that it has a middle; 25 by default. Beyond the
    /// ends of the window its first and last value are repeated.
    pub kernel: NonZeroUsize,
}

impl Default for DlinearOptions {
    fn default() -> Self {
        let kernel = const { NonZeroUsize::new(25).expect("a default is not zero") };
        DlinearOptions { individual: false, kernel }
    }
}

impl Architecture for DlinearOptions {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).expect("plain structs always serialise")
    }

    fn has_heads(&self) -> bool {
        true
    }

    fn reads_padding(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.kernel.get() % 2 == 1 {
            return Ok(());
        }
        let (key, value) = ("train.model_options.kernel", self.kernel.to_string());
        Err(ModelError::Setting { key, value, expected: "an odd number".to_owned() })
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        let average = (shape.lookback as u64).saturating_pow(2).saturating_mul(4);
        channels::check_room(2, self.individual, shape, available.saturating_sub(average))
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        let channels = Channels::new(shape, NAME, false, device)?;
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        for name in ["Linear_Seasonal", "Linear_Trend"] {
            let individual = self.individual;
            channels::draw_maps(&mut parameters, name, individual, shape, &mut random, device)?;
        }
        let average = average(shape.lookback, self.kernel.get(), device)?;
        Ok(Box::new(Dlinear { channels, average, shape: shape.clone(), parameters }))
    }
}

#[derive(Debug)]
struct Dlinear {
    channels: Channels,
    /// `[lookback, lookback]`: a window times this is its moving average.
    average: Tensor,
    shape: Shape,
    parameters: Parameters,
}

impl Model for Dlinear {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let weights = &self.parameters.tensors;
        let (season_maps, trend_maps) = weights.split_at(weights.len() / 2);
        let channels = self.channels.of(&inputs.values)?.f_contiguous()?;
        let trend = channels.f_matmul(&self.average)?;
        let season = channels.f_sub(&trend)?;
        let season = channels::apply_maps(season_maps, &season)?;
        let trend = channels::apply_maps(trend_maps, &trend)?;
        Ok(channels::forecast(&season.f_add(&trend)?, &self.shape)?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn is_random(&self) -> bool {
        false
    }
}

/// Row `i`, column `j`: the share that value `i` of a window has in the average around its row `j`.
/// The first and the last value stand for all that lies beyond them.
fn average(lookback: usize, kernel: usize, device: Device) -> Result<Tensor, ModelError> {
    let half = kernel / 2;
    let share = |count: usize| (count as f64 / kernel as f64) as f32;
    let mut shares = vec![0.0; lookback * lookback];
    for (value, row) in shares.chunks_exact_mut(lookback).enumerate() {
        for (middle, to) in row.iter_mut().enumerate() {
            let beyond = [
                if value == 0 { half.saturating_sub(middle) } else { 0 },
                if value == lookback - 1 { half.saturating_sub(lookback - 1 - middle) } else { 0 },
            ];
            let itself = usize::from(value.abs_diff(middle) <= half);
            *to = share(itself + beyond[0] + beyond[1]);
        }
    }
    let size = lookback as i64;
    Ok(Tensor::f_from_slice(&shares)?.f_view([size, size])?.f_to_device(device)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        channels::sample,
        target_column::OwnInput::{self, Change, Level, OtherUnits},
    };

    fn options(individual: bool, kernel: usize) -> DlinearOptions {
        DlinearOptions { individual, kernel: kernel.try_into().unwrap() }
    }

    /// The formula of the paper, one window and channel at a time, with libtorch's own pooling.
    fn check(options: DlinearOptions, own_inputs: &[OwnInput]) {
        let _guard = tch::no_grad_guard();
        let shape = sample::shape(4, own_inputs);
        let model = options.build(&shape, 7, Device::Cpu).unwrap();
        let x = sample::values(5, 4);
        let found = model.forward(&sample::inputs(&x), Mode::Evaluate).unwrap();
        assert_eq!(found.size(), [5, 3, own_inputs.len() as i64]);
        let weights = &model.parameters().tensors;
        let (season_maps, trend_maps) = weights.split_at(weights.len() / 2);
        let kernel = options.kernel.get() as i64;
        for (target, own_input) in own_inputs.iter().enumerate() {
            let map = if options.individual { 2 * target } else { 0 };
            let place = own_input.place().unwrap() as i64;
            let windows = x.select(2, place);
            let padded = windows.unsqueeze(1).replication_pad1d([kernel / 2, kernel / 2]);
            let trend = padded.avg_pool1d([kernel], [1], [0], false, true).squeeze_dim(1);
            let expected = (&windows - &trend)
                .linear(&season_maps[map], Some(&season_maps[map + 1]))
                + trend.linear(&trend_maps[map], Some(&trend_maps[map + 1]));
            let difference = (found.select(2, target as i64) - expected).abs().max();
            assert!(difference.double_value(&[]) < 2e-6, "{options:?} {own_inputs:?}");
        }
    }

    #[test]
    fn forward_is_the_published_formula() {
        for individual in [false, true] {
            for kernel in [1, 3, 11, 25, 101] {
                check(options(individual, kernel), &[Level(0), Level(1), Level(2), Level(3)]);
            }
            check(options(individual, 5), &[Level(3), Level(1)]);
            check(options(individual, 5), &[Change(2)]);
            check(options(individual, 5), &[OtherUnits(2)]);
        }
    }

    #[test]
    fn the_average_of_a_window_takes_any_kernel() {
        for (lookback, kernel) in [(1, 1), (1, 25), (12, 25), (5, usize::MAX)] {
            let average = average(lookback, kernel, Device::Cpu).unwrap();
            let sums = average.sum_dim_intlist([0i64].as_slice(), false, tch::Kind::Double);
            assert!((sums - 1.0).abs().max().double_value(&[]) < 1e-6, "{lookback} {kernel}");
        }
    }

    #[test]
    fn the_trace_gives_the_same_bits_for_any_number_of_rows() {
        for individual in [false, true] {
            let options = options(individual, 5);
            sample::check_trace(&options, &sample::shape(4, &[Level(3), Level(1)]));
            sample::check_trace(&options, &sample::shape(2, &[Level(0), Level(1)]));
        }
    }

    #[test]
    fn names_are_the_published_ones() {
        let names = |individual| {
            let shape = sample::shape(2, &[Level(0), Level(1)]);
            let model = options(individual, 25).build(&shape, 7, Device::Cpu).unwrap();
            model.parameters().names.join(" ")
        };
        let one =
            "Linear_Seasonal.weight Linear_Seasonal.bias Linear_Trend.weight Linear_Trend.bias";
        assert_eq!(names(false), one);
        let each = names(true);
        assert!(each.starts_with("Linear_Seasonal.0.weight Linear_Seasonal.0.bias "), "{each}");
        assert!(each.ends_with("Linear_Trend.1.weight Linear_Trend.1.bias"), "{each}");
    }

    #[test]
    fn an_average_without_a_middle_is_refused() {
        options(false, 25).check().unwrap();
        let error = options(false, 24).check().unwrap_err().to_string();
        assert_eq!(error, "train.model_options.kernel is 24, but must be an odd number");
    }
}
