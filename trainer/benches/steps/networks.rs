//! The networks of the floor, in plain tch: the same operators as ours, with their sizes written in.

use crate::workload::{Kind, Work};
use tch::{Device, Kind as Scalar, Tensor};

/// Heads of the transformer's attention.
const HEADS: i64 = 4;
/// Tensors of one of its layers.
const LAYER: usize = 12;
/// Rows of the moving average of dlinear.
const KERNEL: i64 = 25;
/// What a norm adds to the variance.
const EPSILON: f64 = 1e-5;

/// A network but for its weights.
pub(crate) struct Network {
    kind: Kind,
    /// Horizon and targets.
    labels: [i64; 2],
    /// What a recurrent network starts from.
    states: Vec<Tensor>,
    /// `[lookback, lookback]`: a window times this is its moving average.
    average: Tensor,
}

impl Network {
    pub(crate) fn new(work: &Work) -> Self {
        let layout = work.layout;
        let size = |value: usize| value as i64;
        let states = match work.kind.hidden() {
            None => Vec::new(),
            Some(hidden) => {
                let shape = [1, size(layout.batch_size), size(hidden.get())];
                (0..2).map(|_| Tensor::zeros(shape, (Scalar::Float, Device::Cpu))).collect()
            }
        };
        Network {
            kind: work.kind,
            labels: [size(layout.horizon), size(layout.targets)],
            states,
            average: average(size(layout.lookback)),
        }
    }

    /// Forecasts `[rows, horizon, targets]`.
    pub(crate) fn forward(&self, weights: &[Tensor], inputs: &Tensor) -> Tensor {
        let (before, head) = weights.split_at(weights.len() - 2);
        let head = |seen: &Tensor| {
            seen.linear(&head[0], Some(&head[1])).view([-1, self.labels[0], self.labels[1]])
        };
        match self.kind {
            Kind::Market | Kind::Small => {
                let (_, last, _) =
                    inputs.lstm(&self.states, before, true, 1, 0.0, true, false, true);
                head(&last.select(0, -1))
            }
            Kind::Gru => {
                let (_, last) =
                    inputs.gru(&self.states[0], before, true, 1, 0.0, true, false, true);
                head(&last.select(0, -1))
            }
            Kind::Linear => head(&inputs.flatten(1, -1)),
            Kind::Mlp => {
                let layers = before.chunks_exact(2);
                let hidden = layers.fold(inputs.flatten(1, -1), |seen, layer| {
                    seen.linear(&layer[0], Some(&layer[1])).gelu("none")
                });
                head(&hidden)
            }
            Kind::Nlinear => {
                let channels = inputs.transpose(1, 2);
                let last = channels.narrow(2, -1, 1);
                let relative = (&channels - &last).contiguous();
                (relative.linear(&weights[0], Some(&weights[1])) + last).transpose(1, 2)
            }
            Kind::Dlinear => {
                let channels = inputs.transpose(1, 2).contiguous();
                let trend = channels.matmul(&self.average);
                let season = &channels - &trend;
                let season = season.linear(&weights[0], Some(&weights[1]));
                (season + trend.linear(&weights[2], Some(&weights[3]))).transpose(1, 2)
            }
            Kind::Transformer => {
                let (layers, norm) = before.split_at(before.len() - 2);
                let (embed, layers) = layers.split_at(3);
                let mut rows = inputs.linear(&embed[0], Some(&embed[1])) + &embed[2];
                let layers: Vec<_> = layers.chunks_exact(LAYER).collect();
                for (number, layer) in layers.iter().enumerate() {
                    rows = encoder_layer(&rows, layer, number + 1 == layers.len());
                }
                head(&norm_of(&rows, &norm[0], &norm[1]))
            }
        }
    }
}

/// A layer of the transformer; the last one computes the last row alone.
fn encoder_layer(rows: &Tensor, weights: &[Tensor], last: bool) -> Tensor {
    let [
        projections,
        biases,
        out,
        out_bias,
        linear1,
        bias1,
        linear2,
        bias2,
        norm1,
        norm1_bias,
        norm2,
        norm2_bias,
    ] = weights
    else {
        panic!("a layer has {LAYER} weights");
    };
    let width = rows.size()[2];
    let of = |all: &Tensor| {
        if last { all.narrow(1, -1, 1).contiguous() } else { all.shallow_clone() }
    };
    let seen = norm_of(rows, norm1, norm1_bias);
    let projected = if last {
        let (weights, biases) = (
            projections.split_with_sizes([width, 2 * width], 0),
            biases.split_with_sizes([width, 2 * width], 0),
        );
        let query = of(&seen).linear(&weights[0], Some(&biases[0]));
        let others = seen.linear(&weights[1], Some(&biases[1])).chunk(2, -1);
        std::iter::once(query).chain(others).collect()
    } else {
        seen.linear(projections, Some(biases)).chunk(3, -1)
    };
    let by_head = |part: &Tensor| part.unflatten(-1, [HEADS, width / HEADS]).transpose(1, 2);
    let [query, key, value] = [0, 1, 2].map(|part| by_head(&projected[part]));
    let attended = Tensor::scaled_dot_product_attention(
        &query,
        &key,
        &value,
        None::<Tensor>,
        0.0,
        false,
        None,
        false,
    );
    let attended = attended.transpose(1, 2).flatten(2, 3).linear(out, Some(out_bias));
    let rows = of(rows) + attended;
    let inside = norm_of(&rows, norm2, norm2_bias).linear(linear1, Some(bias1)).gelu("none");
    &rows + inside.linear(linear2, Some(bias2))
}

fn norm_of(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    rows.layer_norm([rows.size()[2]], Some(weight), Some(bias), EPSILON, true)
}

/// Of windows with their ends repeated, as a matrix: the average of every row of the unit matrix.
fn average(lookback: i64) -> Tensor {
    let unit = Tensor::eye(lookback, (Scalar::Float, Device::Cpu)).unsqueeze(1);
    let ends = unit.replication_pad1d([KERNEL / 2, KERNEL / 2]);
    ends.avg_pool1d(KERNEL, 1, 0, false, true).squeeze_dim(1)
}
