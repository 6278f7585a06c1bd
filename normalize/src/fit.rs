//! Fitting: per-column statistics of the training rows, NaN-aware, in f64.
//!
//! Rows are summed in chunks of a fixed size and the chunks merged in a fixed order (Chan et al.),
//! so the result has the same bits on any number of threads.

use crate::{settings::ScaleMethod, split::TrainSplit};
use millstream_stage::{ColumnScaling, Panel};
use rayon::prelude::*;

/// Rows summed as one chunk. Part of the result's definition: changing it changes last bits.
const CHUNK: usize = 4096;

/// The statistics of one column over the training rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Values that are not missing.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Sum of their squared distances from the mean.
    pub squares: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Moments {
    const NONE: Moments =
        Moments { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn merge(self, other: Moments) -> Moments {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        Moments {
            count: self.count + other.count,
            mean: self.mean + distance * m / (n + m),
            squares: self.squares + other.squares + distance * distance * n * m / (n + m),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// The affine scaling `method` makes of these statistics. A column that is constant or has no
    /// value at all keeps its unit: its scale is 1, never 0 and never infinite.
    fn scaling(self, name: &str, method: ScaleMethod) -> ColumnScaling {
        let (offset, scale) = match method {
            _ if self.count == 0 => (0.0, 1.0),
            ScaleMethod::Zscore => (self.mean, (self.squares / self.count as f64).sqrt()),
            ScaleMethod::Minmax => (self.min, self.max - self.min),
            ScaleMethod::None => (0.0, 1.0),
        };
        // Below what f32 can resolve around the offset, the spread is rounding noise.
        let constant = scale.is_nan() || scale <= f64::from(f32::EPSILON) * offset.abs();
        let scale = if constant || scale == 0.0 { 1.0 } else { scale };
        ColumnScaling { name: name.to_owned(), offset, scale, mean: self.mean }
    }
}

/// Fits every column of the panel on the rows of `train`.
///
/// Runs on the rayon pool it is called in.
#[must_use]
pub fn fit(panel: &Panel, train: &TrainSplit, method: ScaleMethod) -> Vec<ColumnScaling> {
    let names = &panel.schema().columns;
    let moments = moments(panel, train);
    names.iter().zip(moments).map(|(name, moments)| moments.scaling(name, method)).collect()
}

/// The statistics of every column of the panel over the rows of `train`.
#[must_use]
pub fn moments(panel: &Panel, train: &TrainSplit) -> Vec<Moments> {
    let width = panel.schema().width();
    let mut total = vec![Moments::NONE; width];
    for shard in panel.shards() {
        let chunks: Vec<Vec<Moments>> = shard
            .times()
            .par_chunks(CHUNK)
            .zip(shard.values().par_chunks(CHUNK * width))
            .map(|(times, values)| chunk_moments(times, values, width, train.end()))
            .collect();
        for chunk in chunks {
            for (total, part) in total.iter_mut().zip(chunk) {
                *total = total.merge(part);
            }
        }
    }
    total
}

/// Two passes over a chunk that stays in cache: means first, then squared distances.
fn chunk_moments(times: &[i64], values: &[f32], width: usize, end: i64) -> Vec<Moments> {
    let rows = || times.iter().zip(values.chunks_exact(width)).filter(|(time, _)| **time < end);
    let mut moments = vec![Moments::NONE; width];
    for (_, row) in rows() {
        for (moments, &value) in moments.iter_mut().zip(row) {
            if !value.is_nan() {
                let value = f64::from(value);
                moments.count += 1;
                moments.mean += value;
                moments.min = moments.min.min(value);
                moments.max = moments.max.max(value);
            }
        }
    }
    for moments in moments.iter_mut().filter(|moments| moments.count > 0) {
        moments.mean /= moments.count as f64;
    }
    for (_, row) in rows() {
        for (moments, &value) in moments.iter_mut().zip(row) {
            if !value.is_nan() {
                let distance = f64::from(value) - moments.mean;
                moments.squares += distance * distance;
            }
        }
    }
    moments
}
