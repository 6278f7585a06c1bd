//! What the linear models have in common: the inputs that are the targets' own past, a channel each,
//! and linear maps from a channel's window to its forecasts, one map for all channels or one for each.

use crate::{
    error::ModelError,
    model::Shape,
    model_size::{self, COPIES},
    parameters::Parameters,
    target_column::OwnInput,
};
use millstream_data::SplitMix64;
use std::num::NonZeroUsize;
use tch::{Device, TchError, Tensor};

/// Where the targets' own past stands in an input row.
#[derive(Debug)]
pub(crate) struct Channels {
    of_row: OfRow,
    /// Whether the forecasts are values of the channels, scaled alike, and not changes of them.
    pub(crate) have_level: bool,
}

#[derive(Debug)]
enum OfRow {
    All,
    /// Side by side.
    Range {
        first: i64,
        count: i64,
    },
    Chosen(Tensor),
}

impl Channels {
    /// The channels of this shape's targets, for a model of this name.
    ///
    /// # Errors
    /// [`ModelError::Setting`] when a target is no input; where `level` is wanted, also when what is
    /// forecast are values in other units than the input's.
    pub(crate) fn new(
        shape: &Shape,
        model: &str,
        level: bool,
        device: Device,
    ) -> Result<Self, ModelError> {
        let refuse = |name: &String, expected: String| {
            let (key, value) = ("target.columns", format!("{name:?}"));
            Err(ModelError::Setting { key, value, expected })
        };
        let mut places = Vec::with_capacity(shape.targets);
        for column in &*shape.target_columns {
            match column.own_input {
                OwnInput::Missing => {
                    let expected = format!(
                        "one of source.features with train.model = {model:?}, which forecasts a column from its own past"
                    );
                    return refuse(&column.name, expected);
                }
                OwnInput::OtherUnits(_) if level => {
                    let expected = format!(
                        "scaled as its input is with train.model = {model:?}, which forecasts the change since its last value: leave out scale.reference and any cross_section for it, or set target.kind = \"difference\""
                    );
                    return refuse(&column.name, expected);
                }
                OwnInput::Level(at) | OwnInput::Change(at) | OwnInput::OtherUnits(at) => {
                    places.push(at as i64);
                }
            }
        }
        let mut levels = shape.target_columns.iter();
        let have_level = levels.all(|column| matches!(column.own_input, OwnInput::Level(_)));
        Ok(Channels { of_row: OfRow::new(&places, shape.features, device)?, have_level })
    }

    /// Of `[rows, lookback, features]`, the channels `[rows, channels, lookback]`.
    pub(crate) fn of(&self, values: &Tensor) -> Result<Tensor, TchError> {
        match &self.of_row {
            OfRow::All => values.f_transpose(1, 2),
            OfRow::Range { first, count } => values.f_narrow(2, *first, *count)?.f_transpose(1, 2),
            OfRow::Chosen(places) => values.f_index_select(2, places)?.f_transpose(1, 2),
        }
    }
}

impl OfRow {
    fn new(places: &[i64], features: usize, device: Device) -> Result<Self, TchError> {
        let (first, count) = (places.first().copied().unwrap_or(0), places.len() as i64);
        let side_by_side = places.iter().copied().eq(first..first + count);
        Ok(match side_by_side {
            true if count == features as i64 => OfRow::All,
            true => OfRow::Range { first, count },
            false => OfRow::Chosen(Tensor::f_from_slice(places)?.f_to_device(device)?),
        })
    }
}

/// Draws the weights of a map as PyTorch's `nn.Linear` does, or of one for each channel.
pub(crate) fn draw_maps(
    parameters: &mut Parameters,
    name: &str,
    individual: bool,
    shape: &Shape,
    random: &mut SplitMix64,
    device: Device,
) -> Result<(), ModelError> {
    let bound = 1.0 / (shape.lookback as f32).sqrt();
    let names = match individual {
        true => (0..shape.targets).map(|channel| format!("{name}.{channel}")).collect(),
        false => vec![name.to_owned()],
    };
    for name in names {
        let weight = [shape.horizon * shape.heads, shape.lookback];
        parameters.draw(format!("{name}.weight"), &weight, bound, random, device)?;
        parameters.draw(format!("{name}.bias"), &weight[..1], bound, random, device)?;
    }
    Ok(())
}

/// Applies a map, or one for each channel, to `[rows, channels, lookback]`: `[rows, channels,
/// horizon * heads]`. `weights` are what [`draw_maps`] has drawn. The channels of many maps go through one
/// multiplication of all: at small batches the number of operators is what takes time.
pub(crate) fn apply_maps(weights: &[Tensor], channels: &Tensor) -> Result<Tensor, TchError> {
    if let [weight, bias] = weights {
        return channels.f_linear(weight, Some(bias));
    }
    let every_other = |first: usize| weights.iter().skip(first).step_by(2).collect::<Vec<_>>();
    let weight = Tensor::f_stack(&every_other(0), 0)?.f_transpose(1, 2)?;
    let bias = Tensor::f_stack(&every_other(1), 0)?.f_unsqueeze(1)?;
    bias.f_baddbmm(&channels.f_transpose(0, 1)?, &weight, 1, 1)?.f_transpose(0, 1)
}

/// Of what maps make, the forecast: `[rows, horizon, channels]`, and the heads, where there are several.
pub(crate) fn forecast(mapped: &Tensor, shape: &Shape) -> Result<Tensor, TchError> {
    if shape.heads == 1 {
        return mapped.f_transpose(1, 2);
    }
    let steps = [shape.horizon as i64, shape.heads as i64];
    mapped.f_unflatten(2, steps)?.f_permute([0, 2, 1, 3])
}

/// Refuses windows by which so many sets of maps would take more bytes than there are.
///
/// # Errors
/// [`ModelError::Setting`] with the largest value that would fit.
pub(crate) fn check_room(
    sets: usize,
    individual: bool,
    shape: &Shape,
    available: u64,
) -> Result<(), ModelError> {
    let size = |value| NonZeroUsize::new(value).unwrap_or(NonZeroUsize::MIN);
    let sizes =
        [("window.lookback", size(shape.lookback)), ("window.horizon", size(shape.horizon))];
    let maps = (sets * shape.heads * if individual { shape.targets } else { 1 }) as f64;
    model_size::check(sizes, available, |[lookback, horizon]| {
        4.0 * COPIES * maps * horizon * (lookback + 1.0)
    })
}

#[cfg(test)]
pub(crate) mod sample {
    //! Shapes and inputs for the tests of the linear models.

    use super::*;
    use crate::{Inputs, TargetColumn};

    /// Windows of 12 rows with these own inputs of the targets, 3 steps ahead.
    pub(crate) fn shape(features: usize, own_inputs: &[OwnInput]) -> Shape {
        let column =
            |own_input: &OwnInput| TargetColumn { name: "y".into(), own_input: *own_input };
        let target_columns: Vec<TargetColumn> = own_inputs.iter().map(column).collect();
        let targets = target_columns.len();
        let target_columns = target_columns.into();
        Shape { lookback: 12, features, horizon: 3, targets, target_columns, ..Shape::LEAST }
    }

    pub(crate) fn values(rows: usize, features: usize) -> Tensor {
        let mut random = SplitMix64::new(rows as u64);
        let values: Vec<f32> = (0..rows * 12 * features).map(|_| random.uniform(2.0)).collect();
        Tensor::from_slice(&values).view([rows as i64, 12, features as i64])
    }

    pub(crate) fn inputs(values: &Tensor) -> Inputs {
        Inputs { values: values.shallow_clone(), lengths: None, mask: None, segments: None }
    }

    /// A trace of the model gives its own bits, for any number of rows.
    pub(crate) fn check_trace(options: &dyn crate::Architecture, shape: &Shape) {
        let _guard = tch::no_grad_guard();
        let build = || options.build(shape, 42, Device::Cpu).unwrap();
        let script = crate::to_torchscript(build(), shape).unwrap();
        let script = tch::CModule::load_data(&mut &script[..]).unwrap();
        for rows in [1, 7, 64] {
            let x = values(rows, shape.features);
            let eager = build().forward(&inputs(&x), crate::Mode::Evaluate).unwrap();
            let (horizon, targets) = (shape.horizon as i64, shape.targets as i64);
            assert_eq!(eager.size(), [rows as i64, horizon, targets]);
            assert!(eager.equal(&script.forward_ts(&[&x]).unwrap()), "{options:?}, {rows} rows");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnInput::*, *};

    fn check(own_inputs: &[OwnInput], expected: &[i64]) {
        let shape = sample::shape(4, own_inputs);
        let channels = Channels::new(&shape, "nlinear", true, Device::Cpu).unwrap();
        let values = sample::values(2, 4);
        let found = channels.of(&values).unwrap();
        assert_eq!(found.size(), [2, expected.len() as i64, 12]);
        for (channel, &place) in expected.iter().enumerate() {
            let found = found.select(1, channel as i64);
            assert!(found.equal(&values.select(2, place)), "{own_inputs:?}");
        }
    }

    #[test]
    fn channels_are_the_inputs_of_the_targets() {
        check(&[Level(0), Level(1), Level(2), Level(3)], &[0, 1, 2, 3]);
        check(&[Level(1), Level(2)], &[1, 2]);
        check(&[Level(3)], &[3]);
        check(&[Change(3), Change(0)], &[3, 0]);
    }

    fn check_refused(own_input: OwnInput, level: bool, expected: &str) {
        let shape = sample::shape(4, &[Level(1), own_input]);
        let error = Channels::new(&shape, "nlinear", level, Device::Cpu).unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn a_target_without_a_past_of_its_own_is_refused() {
        let column = "target.columns is \"y\", but must be ";
        check_refused(Missing, true, &format!("{column}one of source.features with train.model"));
        check_refused(Missing, false, &format!("{column}one of source.features with train.model"));
        check_refused(OtherUnits(2), true, &format!("{column}scaled as its input is with"));
        let shape = sample::shape(4, &[Level(1), OtherUnits(2)]);
        Channels::new(&shape, "dlinear", false, Device::Cpu).unwrap();
    }

    #[test]
    fn maps_of_their_own_are_those_of_each_channel_alone() {
        let shape = sample::shape(3, &[Level(0), Level(1), Level(2)]);
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(1));
        let device = Device::Cpu;
        draw_maps(&mut parameters, "Linear", true, &shape, &mut random, device).unwrap();
        assert_eq!(parameters.names[4..], ["Linear.2.weight", "Linear.2.bias"]);
        let x = sample::values(5, 3).transpose(1, 2);
        let found = apply_maps(&parameters.tensors, &x).unwrap();
        for channel in 0..3 {
            let map = &parameters.tensors[2 * channel..][..2];
            let expected = x.select(1, channel as i64).linear(&map[0], Some(&map[1]));
            let difference = (found.select(1, channel as i64) - expected).abs().max();
            assert!(difference.double_value(&[]) < 1e-6, "channel {channel}");
        }
    }

    #[test]
    fn windows_that_cannot_fit_are_refused() {
        let mut shape = sample::shape(1, &[Level(0)]);
        check_room(1, true, &shape, 1_000_000).unwrap();
        shape.lookback = 1 << 40;
        let error = check_room(1, false, &shape, 1_000_000).unwrap_err().to_string();
        let expected = "window.lookback is 1099511627776, but must be at most 16665: ";
        assert!(error.starts_with(expected), "{error}");
    }
}
