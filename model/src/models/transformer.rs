//! A transformer encoder with the norms before each part of a layer, and a linear head on the state of
//! the window's last real row.
//!
//! The same network in PyTorch, with the same names; `segments` is there only where the option is set:
//!
//! ```python
//! self.embed = nn.Linear(features, width)
//! self.positions = nn.Embedding(lookback, width)
//! self.segments = nn.Embedding(segments, width)
//! self.layers = nn.ModuleList(
//!     nn.TransformerEncoderLayer(
//!         width, heads, feedforward, dropout, "gelu", batch_first=True, norm_first=True
//!     )
//!     for _ in range(layers)
//! )
//! self.norm = nn.LayerNorm(width)
//! self.head = nn.Linear(width, horizon * targets)
//! ```
//!
//! Positions count back from the forecast: the last real row of a window has the last of them, however
//! long the window and wherever it is padded. So a window has one forecast, padded left, right or not.
//!
//! Padding has no part in it: no row looks at padded ones, and what is written there is not read, not
//! even where it is NaN. Of the last layer only the row that the forecast is made from is computed.

mod layer;
#[cfg(test)]
mod tests;

use crate::{
    error::ModelError,
    gradient_checkpoint::checkpointed,
    model::{Architecture, Mode, Model, Shape},
    model_size::{self, COPIES, PER_LAYER},
    parameters::Parameters,
    tensor::Inputs,
};
use layer::{Layer, Rows};
use millstream_data::{Extras, Padding, SplitMix64};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroUsize;
use tch::{Device, Kind, Tensor};

/// As many as normalize lets through.
const MOST_SEGMENTS: usize = 65_536;

/// How far from 0 positions and segments begin, so that their deviation is 0.02: nn.Embedding's own,
/// 1, would drown the values they are added to.
const EMBEDDING_BOUND: f32 = 0.034_641;

/// How large it is: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TransformerOptions {
    /// Size of a row's state; 64 by default.
    pub width: NonZeroUsize,
    /// Encoder layers on top of each other; 2 by default.
    pub layers: NonZeroUsize,
    /// Attention heads, which divide the width; 4 by default.
    pub heads: NonZeroUsize,
    /// Width inside the feed-forward part of a layer; 256 by default.
    pub feedforward: NonZeroUsize,
    /// Dropout of attention and inside each layer; 0 by default.
    pub dropout: f64,
    /// Segments of `window.segment`, which are numbered from 0; 0 by default, without a segment column.
    pub segments: usize,
    /// Gradient checkpointing: layers are computed again for their gradients instead of kept. Takes
    /// less memory and more time, and changes no result; off by default.
    pub checkpoint: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        let size = |value| NonZeroUsize::new(value).expect("a default is not zero");
        TransformerOptions {
            width: size(64),
            layers: size(2),
            heads: size(4),
            feedforward: size(256),
            dropout: 0.0,
            segments: 0,
            checkpoint: false,
        }
    }
}

impl Architecture for TransformerOptions {
    fn name(&self) -> &str {
        "transformer"
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).expect("plain structs always serialise")
    }

    fn has_heads(&self) -> bool {
        true
    }

    fn reads_segments(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), ModelError> {
        let TransformerOptions { width, heads, dropout, segments, .. } = *self;
        let range = "at least 0 and below 1".to_owned();
        require("train.model_options.dropout", &dropout, (0.0..1.0).contains(&dropout), range)?;
        let divides = width.get().is_multiple_of(heads.get());
        let divisor = format!("a divisor of train.model_options.width, which is {width}");
        require("train.model_options.heads", &heads, divides, divisor)?;
        let most = format!("at most {MOST_SEGMENTS}");
        require("train.model_options.segments", &segments, segments <= MOST_SEGMENTS, most)
    }

    fn check_segments(&self, found: usize) -> Result<(), ModelError> {
        let (there, expected) = match found {
            0 => (self.segments == 0, "0 without window.segment".to_owned()),
            found => (
                self.segments >= found,
                format!("at least {found}: the segments of the data go up to {}", found - 1),
            ),
        };
        require("train.model_options.segments", &self.segments, there, expected)
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        let sizes = [
            ("train.model_options.width", self.width),
            ("train.model_options.layers", self.layers),
            ("train.model_options.feedforward", self.feedforward),
        ];
        let rows = (shape.features + 1 + shape.lookback) as f64 + self.segments as f64;
        let labels = shape.labels() as f64;
        model_size::check(sizes, available, |[width, layers, feedforward]| {
            let attention = 4.0 * width * (width + 1.0);
            let forward = 2.0 * width * feedforward + width + feedforward;
            let layer = attention + forward + 4.0 * width;
            let ends = rows * width + 2.0 * width + labels * (width + 1.0);
            4.0 * (layers * layer + ends) * COPIES + PER_LAYER * layers
        })
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        Ok(Box::new(Transformer::new(*self, shape, seed, device)?))
    }
}

fn require(
    key: &'static str,
    value: &dyn ToString,
    holds: bool,
    expected: String,
) -> Result<(), ModelError> {
    if holds {
        Ok(())
    } else {
        Err(ModelError::Setting { key, value: value.to_string(), expected })
    }
}

/// The network and its weights.
#[derive(Debug)]
struct Transformer {
    options: TransformerOptions,
    lookback: i64,
    padding: Padding,
    /// Of any number of rows; see [`Shape::outputs`].
    forecast: Vec<i64>,
    parameters: Parameters,
}

/// What a batch's padding comes to; made once for all layers.
struct Padded {
    /// `[rows, lookback]`: 1 for a real row, 0 for padding.
    mask: Tensor,
    /// `[rows, 1, 1, lookback]`: what is added to how much a row looks at another.
    attention: Tensor,
}

impl Transformer {
    fn new(
        options: TransformerOptions,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Self, ModelError> {
        let (width, labels) = (options.width.get(), shape.labels());
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(seed);
        let draw = &mut |parameters: &mut Parameters, name: &str, shape: &[usize], bound: f32| {
            parameters.draw(name, shape, bound, &mut random, device)
        };
        // As PyTorch draws nn.Linear: by the size of its input.
        let of_input = |size: usize| 1.0 / (size as f32).sqrt();
        let bound = of_input(shape.features);
        draw(&mut parameters, "embed.weight", &[width, shape.features], bound)?;
        draw(&mut parameters, "embed.bias", &[width], bound)?;
        draw(&mut parameters, "positions.weight", &[shape.lookback, width], EMBEDDING_BOUND)?;
        if options.segments > 0 {
            draw(&mut parameters, "segments.weight", &[options.segments, width], EMBEDDING_BOUND)?;
        }
        for number in 0..options.layers.get() {
            let layer = format!("layers.{number}");
            Layer::draw(&layer, width, options.feedforward.get(), &mut parameters, draw, device)?;
        }
        parameters.fill("norm.weight", &[width], 1.0, device)?;
        parameters.fill("norm.bias", &[width], 0.0, device)?;
        draw(&mut parameters, "head.weight", &[labels, width], of_input(width))?;
        draw(&mut parameters, "head.bias", &[labels], of_input(width))?;
        Ok(Transformer {
            options,
            lookback: shape.lookback as i64,
            padding: shape.padding,
            forecast: shape.outputs(),
            parameters,
        })
    }

    /// `None` where windows are never padded.
    fn padded(&self, inputs: &Inputs) -> Result<Option<Padded>, ModelError> {
        let mask = match (self.padding, &inputs.mask) {
            (Padding::None, _) => return Ok(None),
            (_, Some(mask)) => mask.shallow_clone(),
            (_, None) => self.mask_of_lengths(inputs)?,
        };
        // The logarithm of 1 is 0, that of 0 is minus infinity.
        let attention = mask.f_log()?.f_unsqueeze(1)?.f_unsqueeze(1)?;
        Ok(Some(Padded { mask, attention }))
    }

    /// The same mask where only lengths are given, as in a trace; it holds for any number of rows and,
    /// where they are padded on the right, any lookback.
    fn mask_of_lengths(&self, inputs: &Inputs) -> Result<Tensor, ModelError> {
        let lengths = inputs.lengths.as_ref().expect("padded windows have lengths");
        let lengths = lengths.f_unsqueeze(1)?;
        let counted = inputs.values.f_select(2, 0)?.f_ones_like()?.f_cumsum(1, Kind::Float)?;
        let real = match self.padding {
            Padding::Left => counted.f_add(&lengths)?.f_gt(self.lookback)?,
            Padding::Right | Padding::None => counted.f_le_tensor(&lengths)?,
        };
        Ok(real.f_to_kind(Kind::Float)?)
    }

    /// The rows as the first layer sees them, `[rows, lookback, width]`: what they hold, where they
    /// stand and which segment they are in.
    fn embedded(&self, inputs: &Inputs, padded: Option<&Padded>) -> Result<Tensor, ModelError> {
        let weights = &self.parameters.tensors;
        let values = match padded {
            None => inputs.values.shallow_clone(),
            // A gradient of nothing times NaN would be NaN.
            Some(Padded { mask, .. }) => {
                inputs.values.f_masked_fill(&mask.f_eq(0.0)?.f_unsqueeze(-1)?, 0.0)?
            }
        };
        let rows = values.f_linear(&weights[0], Some(&weights[1]))?;
        let mut rows = rows.f_add(&self.positions(&inputs.values, padded)?)?;
        if let Some(segments) = &inputs.segments {
            let segments = segments.f_to_kind(Kind::Int64)?;
            let segments = Tensor::f_embedding(&weights[3], &segments, -1, false, false)?;
            rows = rows.f_add_(&segments)?;
        }
        Ok(rows)
    }

    /// The positions of a batch's rows: `[lookback, width]`, or `[rows, lookback, width]` where they
    /// differ from window to window.
    fn positions(&self, values: &Tensor, padded: Option<&Padded>) -> Result<Tensor, ModelError> {
        let table = &self.parameters.tensors[2];
        match (self.padding, padded) {
            (Padding::Right, Some(Padded { mask, .. })) => {
                let lengths = mask.f_sum_dim_intlist([1i64].as_slice(), true, Kind::Int64)?;
                let from_end = mask.f_cumsum(1, Kind::Int64)?.f_sub(&lengths)?;
                let places = from_end.f_add_scalar(self.lookback - 1)?;
                Ok(Tensor::f_embedding(table, &places, -1, false, false)?)
            }
            _ => match values.size()[1] {
                lookback if lookback == self.lookback => Ok(table.shallow_clone()),
                lookback => Ok(table.f_narrow(0, self.lookback - lookback, lookback)?),
            },
        }
    }

    /// Which row of a window the forecast is made from.
    fn last_row(&self, padded: Option<&Padded>) -> Result<Rows, ModelError> {
        match (self.padding, padded) {
            (Padding::Right, Some(Padded { mask, .. })) => {
                let lengths = mask.f_sum_dim_intlist([1i64].as_slice(), true, Kind::Int64)?;
                Ok(Rows::At(lengths.f_sub_scalar(1)?.f_unsqueeze(2)?))
            }
            _ => Ok(Rows::Last),
        }
    }
}

impl Model for Transformer {
    /// Where windows are padded it looks at the mask, and where there is none at the lengths.
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        let TransformerOptions { layers, heads, dropout, segments, checkpoint, .. } = self.options;
        if inputs.segments.is_some() != (segments > 0) {
            self.options.check_segments(usize::from(inputs.segments.is_some()))?;
        }
        let train = mode == Mode::Train;
        let padded = self.padded(inputs)?;
        let mut rows = self.embedded(inputs, padded.as_ref())?;

        let weights = &self.parameters.tensors;
        let (before, [norm, norm_bias, head, head_bias]) =
            weights.split_last_chunk().expect("a transformer has a norm and a head");
        let first = before.len() - layers.get() * Layer::TENSORS;
        for (number, weights) in before[first..].chunks_exact(Layer::TENSORS).enumerate() {
            let is_last = number + 1 == layers.get();
            let layer = Layer {
                heads: heads.get() as i64,
                dropout: if train { dropout } else { 0.0 },
                mask: padded.as_ref().map(|padded| padded.attention.shallow_clone()),
                rows: if is_last { self.last_row(padded.as_ref())? } else { Rows::All },
            };
            rows = if checkpoint && train {
                let inputs: Vec<&Tensor> = std::iter::once(&rows).chain(weights).collect();
                let compute = move |inputs: &[Tensor]| layer.forward(&inputs[0], &inputs[1..]);
                checkpointed(&inputs, dropout > 0.0, compute)?
            } else {
                layer.forward(&rows, weights)?
            };
        }
        let last = layer::normalised(&rows, norm, norm_bias)?;
        Ok(last.f_linear(head, Some(head_bias))?.f_view(self.forecast.as_slice())?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn is_random(&self) -> bool {
        self.options.dropout > 0.0
    }

    fn traced_with(&self) -> Extras {
        Extras { padding: self.padding != Padding::None, segments: self.options.segments > 0 }
    }
}
