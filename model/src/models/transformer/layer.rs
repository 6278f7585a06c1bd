//! One layer of the encoder: attention among the rows of a window, then each row by itself, each with
//! its norm before it and its input added after it. Weights are those of `nn.TransformerEncoderLayer`.

use crate::{error::ModelError, parameters::Parameters};
use tch::{Device, TchError, Tensor};

/// What is added to the variance, as `nn.LayerNorm` has it.
const EPSILON: f64 = 1e-5;

/// How a layer computes; its weights are handed to it.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) heads: i64,
    /// 0 where nothing is learned.
    pub(super) dropout: f64,
    /// What is added to how much a row looks at another, `[rows, 1, 1, lookback]`; `None` where all are
    /// real, which is what libtorch's fastest kernels are for.
    pub(super) mask: Option<Tensor>,
    pub(super) rows: Rows,
}

/// The rows that are asked for of each window. All of them are looked at, whichever it is.
#[derive(Debug)]
pub(super) enum Rows {
    All,
    Last,
    /// The one at this place, `[windows, 1, 1]`.
    At(Tensor),
}

/// Draws a parameter of this name and size, within this bound.
type Draw<'a> = dyn FnMut(&mut Parameters, &str, &[usize], f32) -> Result<(), ModelError> + 'a;

impl Rows {
    fn of(&self, all: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Rows::All => Ok(all.shallow_clone()),
            // Contiguous, or libtorch multiplies it in another order where there is no gradient.
            Rows::Last => all.f_narrow(1, -1, 1)?.f_contiguous(),
            Rows::At(place) => {
                let width = all.size()[2];
                all.f_gather(1, &place.f_expand([-1, 1, width], false)?, false)
            }
        }
    }
}

impl Layer {
    /// Weights of a layer.
    pub(super) const TENSORS: usize = 12;

    /// Draws the weights as PyTorch does, in its order.
    pub(super) fn draw(
        name: &str,
        width: usize,
        feedforward: usize,
        parameters: &mut Parameters,
        draw: &mut Draw<'_>,
        device: Device,
    ) -> Result<(), ModelError> {
        let name = |part: &str| format!("{name}.{part}");
        // Xavier's rule for all three projections as one matrix, as nn.MultiheadAttention has them.
        let projections = (6.0 / (4 * width) as f32).sqrt();
        let of_input = |size: usize| 1.0 / (size as f32).sqrt();
        let at = parameters;
        draw(at, &name("self_attn.in_proj_weight"), &[3 * width, width], projections)?;
        at.fill(name("self_attn.in_proj_bias"), &[3 * width], 0.0, device)?;
        draw(at, &name("self_attn.out_proj.weight"), &[width, width], of_input(width))?;
        at.fill(name("self_attn.out_proj.bias"), &[width], 0.0, device)?;
        draw(at, &name("linear1.weight"), &[feedforward, width], of_input(width))?;
        draw(at, &name("linear1.bias"), &[feedforward], of_input(width))?;
        draw(at, &name("linear2.weight"), &[width, feedforward], of_input(feedforward))?;
        draw(at, &name("linear2.bias"), &[width], of_input(feedforward))?;
        for norm in ["norm1", "norm2"] {
            at.fill(name(&format!("{norm}.weight")), &[width], 1.0, device)?;
            at.fill(name(&format!("{norm}.bias")), &[width], 0.0, device)?;
        }
        Ok(())
    }

    /// Of `[windows, lookback, width]` the rows that are asked for.
    pub(super) fn forward(&self, rows: &Tensor, weights: &[Tensor]) -> Result<Tensor, ModelError> {
        let [attention @ .., linear1, bias1, linear2, bias2, norm1, norm1_bias, norm2, norm2_bias] =
            weights
        else {
            panic!("a layer has {} weights, not {}", Self::TENSORS, weights.len());
        };
        let attended = self.attention(&normalised(rows, norm1, norm1_bias)?, attention)?;
        let rows = self.rows.of(rows)?.f_add(&self.dropped(attended)?)?;
        let inside = normalised(&rows, norm2, norm2_bias)?.f_linear(linear1, Some(bias1))?;
        let inside = self.dropped(inside.f_gelu("none")?)?;
        let forward = self.dropped(inside.f_linear(linear2, Some(bias2))?)?;
        Ok(rows.f_add(&forward)?)
    }

    fn attention(&self, rows: &Tensor, weights: &[Tensor]) -> Result<Tensor, ModelError> {
        let [projections, biases, out, out_bias] = weights else {
            panic!("attention has 4 weights, not {}", weights.len());
        };
        let width = rows.size()[2];
        let projected = match self.rows {
            Rows::All => rows.f_linear(projections, Some(biases))?.f_chunk(3, -1)?,
            // What is not asked for asks for nothing: only keys and values are of all rows.
            Rows::Last | Rows::At(_) => {
                let sizes = [width, 2 * width];
                let weights = projections.f_split_with_sizes(sizes, 0)?;
                let biases = biases.f_split_with_sizes(sizes, 0)?;
                let query = self.rows.of(rows)?.f_linear(&weights[0], Some(&biases[0]))?;
                let others = rows.f_linear(&weights[1], Some(&biases[1]))?.f_chunk(2, -1)?;
                std::iter::once(query).chain(others).collect()
            }
        };
        let by_head = |projected: &Tensor| {
            projected.f_unflatten(-1, [self.heads, width / self.heads])?.f_transpose(1, 2)
        };
        let [query, key, value] =
            [by_head(&projected[0])?, by_head(&projected[1])?, by_head(&projected[2])?];
        let (mask, dropout) = (self.mask.as_ref(), self.dropout);
        let attended = Tensor::f_scaled_dot_product_attention(
            &query, &key, &value, mask, dropout, false, None, false,
        )?;
        let together = attended.f_transpose(1, 2)?.f_flatten(2, 3)?;
        Ok(together.f_linear(out, Some(out_bias))?)
    }

    fn dropped(&self, values: Tensor) -> Result<Tensor, TchError> {
        if self.dropout > 0.0 { values.f_dropout(self.dropout, true) } else { Ok(values) }
    }
}

/// Each row with mean 0 and variance 1, scaled and moved.
pub(super) fn normalised(
    rows: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
) -> Result<Tensor, ModelError> {
    let width = rows.size()[2];
    Ok(rows.f_layer_norm([width], Some(weight), Some(bias), EPSILON, true)?)
}
