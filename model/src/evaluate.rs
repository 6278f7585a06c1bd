//! A model's forecasts of a batch, to be judged or to be kept: by the trainer and by the predictor.
//!
//! Every batch goes through the model in one shape, that of a full batch with windows of the full
//! lookback; what is missing is filled up with the batch's last window and with zeros. libtorch chooses its
//! kernels, and how threads share the work, by the shape, and other kernels round otherwise: so a
//! window's forecast has the same bits whatever else is in its batch, in the last batch of a pass as in
//! the first, alone as among five hundred. A full batch is shown as it lies, without a copy, where its
//! size is a multiple of 16: of other sizes the rows at the end come in a tile of their own, which rounds
//! otherwise again, so those are filled up too.
//!
//! Two of our models round by where in the batch a window stands all the same, in the last digit: the
//! transformer, by libtorch's attention with a single query, which is what the last row asks; and
//! `dlinear` with some sizes of windows.

use crate::{
    error::ModelError,
    heads::forecasts,
    model::{Mode, Model},
    precision::Precision,
    tensor::{BatchTensors, Inputs},
};
use millstream_data::Heads;
use tch::{TchError, Tensor};

/// What a model makes of a batch: a row for each of its windows.
#[derive(Debug)]
pub struct Evaluated {
    /// As the model says it, `[rows, horizon, targets]`, or with several heads `[rows, horizon, targets,
    /// heads]`.
    pub outputs: Tensor,
    /// The [forecasts] that these stand for, in the same shape.
    pub forecasts: Tensor,
}

impl Evaluated {
    /// What outputs that are there already stand for.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn of(heads: &Heads, outputs: Tensor) -> Result<Self, TchError> {
        Ok(Evaluated { forecasts: forecasts(heads, &outputs)?, outputs })
    }

    /// The first rows of it.
    fn first(self, rows: i64) -> Result<Self, TchError> {
        if self.outputs.size().first() == Some(&rows) {
            return Ok(self);
        }
        let Evaluated { outputs, forecasts } = self;
        let outputs = outputs.f_narrow(0, 0, rows)?;
        Ok(Evaluated { outputs, forecasts: forecasts.f_narrow(0, 0, rows)? })
    }
}

/// Rows of a matrix that libtorch's kernels take together, or a multiple of that.
const TILE: usize = 16;

/// Windows in the shape that a batch with room for so many is evaluated in.
pub(crate) fn evaluated_rows(batch_size: usize) -> usize {
    // What has no next multiple has no memory either, and is refused where that is seen.
    batch_size.checked_next_multiple_of(TILE).unwrap_or(batch_size)
}

/// Forecasts the windows of a batch in the shape of a full one. Whoever wants no gradients says so.
///
/// # Errors
/// What the model or libtorch says.
pub fn evaluate(
    model: &dyn Model,
    precision: Precision,
    heads: &Heads,
    batch: &BatchTensors,
) -> Result<Evaluated, ModelError> {
    let layout = batch.batch().layout();
    let rows = evaluated_rows(layout.batch_size);
    let shape = [rows, layout.lookback].map(|size| size as i64);
    let filled = filled_up(&batch.inputs, shape)?;
    let inputs = filled.as_ref().unwrap_or(&batch.inputs);
    let outputs = precision.forward(model, inputs, Mode::Evaluate)?;
    // What follows is made in the full shape too.
    let evaluated = Evaluated::of(heads, outputs)?;
    Ok(evaluated.first(batch.inputs.rows().cast_signed())?)
}

/// The inputs in this shape, `[rows, lookback]`; `None` where they have it.
fn filled_up(inputs: &Inputs, shape: [i64; 2]) -> Result<Option<Inputs>, TchError> {
    let Inputs { values, lengths, mask, segments } = inputs;
    if values.size()[..2] == shape {
        return Ok(None);
    }
    let fill = |part: &Tensor| {
        let sizes = part.size();
        // Windows are shorter where they are padded on the right: there is more padding.
        let longer = match sizes.get(1) {
            Some(lookback) if *lookback < shape[1] => {
                let mut sizes = sizes.clone();
                sizes[1] = shape[1] - lookback;
                let zeros = Tensor::f_zeros(&sizes, (part.kind(), part.device()))?;
                Tensor::f_cat(&[part, &zeros], 1)?
            }
            _ => part.shallow_clone(),
        };
        let missing = shape[0] - sizes[0];
        let mut copies = longer.size();
        copies[0] = missing;
        let last = longer.f_narrow(0, sizes[0] - 1, 1)?.f_expand(&copies, false)?;
        Tensor::f_cat(&[&longer, &last], 0)
    };
    let fill_some = |part: &Option<Tensor>| part.as_ref().map(fill).transpose();
    Ok(Some(Inputs {
        values: fill(values)?,
        lengths: fill_some(lengths)?,
        mask: fill_some(mask)?,
        segments: fill_some(segments)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelKind, ModelOptions, Shape};
    use millstream_data::{BatchLayout, BatchSlot, DeviceBatch, Extras, Padding, SplitMix64};
    use millstream_stage::Pool;
    use tch::Device;

    /// A size that is no multiple of a tile.
    const SIZE: u64 = 43;

    const LAYOUT: BatchLayout = BatchLayout {
        batch_size: SIZE as usize,
        lookback: 12,
        features: 5,
        horizon: 2,
        targets: 1,
        extras: Extras::NONE,
    };

    /// A batch of these windows, each of which has values of its own and a length.
    fn batch(windows: &[u64], padding: Padding) -> BatchTensors {
        let padded = padding != Padding::None;
        let layout = BatchLayout { extras: Extras { padding: padded, segments: false }, ..LAYOUT };
        let mut slot = Pool::new([BatchSlot::on_heap(layout)]).take();
        let (parts, meta) = slot.parts_mut();
        let length = |window: u64| if padded { 3 + window as usize % 8 } else { layout.lookback };
        meta.lookback = match padding {
            Padding::Right => windows.iter().map(|window| length(*window)).max().unwrap(),
            _ => layout.lookback,
        };
        // What another batch has left there is no part of this one.
        parts.inputs.fill(f32::NAN);
        let row = meta.lookback * layout.features;
        for (at, window) in windows.iter().enumerate() {
            let mut random = SplitMix64::new(*window);
            let values = &mut parts.inputs[at * row..][..row];
            values.fill(0.0);
            let real = length(*window) * layout.features;
            let values = match padding {
                Padding::Left => &mut values[row - real..],
                _ => &mut values[..real],
            };
            values.iter_mut().for_each(|value| *value = random.uniform(1.0));
            if padded {
                parts.lengths[at] = length(*window) as f32;
                let mask = &mut parts.mask[at * meta.lookback..][..meta.lookback];
                let first =
                    if padding == Padding::Left { meta.lookback - length(*window) } else { 0 };
                mask.fill(0.0);
                mask[first..first + length(*window)].fill(1.0);
            }
            meta.series.push(0);
        }
        BatchTensors::new(DeviceBatch::Host(slot)).unwrap()
    }

    fn models(padding: Padding) -> impl Iterator<Item = (&'static str, Box<dyn Model>)> {
        let kinds = ModelKind::ALL.iter().filter(|kind| kind.name() != "script");
        kinds.filter_map(move |kind| {
            let model = kind.architecture(&ModelOptions::default()).unwrap();
            let shape = Shape {
                batch_size: evaluated_rows(LAYOUT.batch_size),
                lookback: LAYOUT.lookback,
                features: LAYOUT.features,
                horizon: LAYOUT.horizon,
                padding,
                ..Shape::LEAST
            };
            let reads = padding == Padding::None || model.reads_padding();
            reads.then(|| (kind.name(), model.build(&shape, 7, Device::Cpu).unwrap()))
        })
    }

    fn bits(outputs: &Tensor) -> Vec<Vec<u32>> {
        let values: Vec<f32> = Vec::try_from(outputs.contiguous().flatten(0, -1)).unwrap();
        let bits: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
        bits.chunks_exact(2).map(<[u32]>::to_vec).collect()
    }

    /// Wherever a window stands, whatever is beside it, and in however short a batch.
    #[test]
    fn a_window_has_the_same_bits_in_any_batch() {
        let _guard = tch::no_grad_guard();
        for padding in [Padding::None, Padding::Left, Padding::Right] {
            let of = |model: &dyn Model, windows: &[u64]| {
                let batch = batch(windows, padding);
                bits(&evaluate(model, Precision::F32, &Heads::Value, &batch).unwrap().forecasts)
            };
            for (name, model) in models(padding) {
                if name == "transformer" {
                    continue;
                }
                let all: Vec<u64> = (0..SIZE).collect();
                let whole = of(&*model, &all);
                let mut others: Vec<Vec<u64>> = all.iter().map(|window| vec![*window]).collect();
                others.extend([
                    all.iter().rev().copied().collect(),
                    (5..36).collect(),
                    vec![1; SIZE as usize],
                ]);
                for windows in others {
                    let expected = windows.iter().map(|window| &whole[*window as usize]);
                    let found = of(&*model, &windows);
                    assert!(found.iter().eq(expected), "{name}, {padding:?}, {windows:?}");
                }
            }
        }
    }

    /// That is not so by itself: shown in a batch of its own shape, windows come out with other bits.
    #[test]
    fn in_a_shape_of_its_own_a_window_has_other_bits() {
        let _guard = tch::no_grad_guard();
        let mut other = Vec::new();
        for (name, model) in models(Padding::None) {
            let all: Vec<u64> = (0..SIZE).collect();
            let outputs = |windows: &[u64]| {
                let batch = batch(windows, Padding::None);
                bits(&model.forward(&batch.inputs, Mode::Evaluate).unwrap())
            };
            let whole = outputs(&all);
            let differs = |count: usize| outputs(&all[..count]) != whole[..count];
            if (1..SIZE as usize).any(differs) {
                other.push(name);
            }
        }
        assert!(other.contains(&"lstm"), "{other:?}");
    }

    #[test]
    fn a_full_batch_is_shown_as_it_lies() {
        let all: Vec<u64> = (0..SIZE).collect();
        let full = batch(&all, Padding::None);
        assert!(filled_up(&full.inputs, [43, 12]).unwrap().is_none());
        let filled = filled_up(&full.inputs, [48, 12]).unwrap().unwrap();
        assert_eq!(filled.values.size(), [48, 12, 5]);
        assert!(!bool::try_from(filled.values.isnan().any()).unwrap());
        let right = batch(&[0, 1], Padding::Right);
        let filled = filled_up(&right.inputs, [48, 12]).unwrap().unwrap();
        let [lengths, mask] = [filled.lengths, filled.mask].map(Option::unwrap);
        assert_eq!((lengths.size(), mask.size()), (vec![48], vec![48, 12]));
        assert_eq!(lengths.double_value(&[47]), 4.0);
        assert_eq!(mask.get(47).sum(tch::Kind::Float).double_value(&[]), 4.0);
    }
}
