//! Where raw 0 and the training mean lie in scaled units, for each window of a batch.
//!
//! Where all series are scaled alike, one row of numbers serves every window. Where series have
//! fits of their own there is a row per series, and the rows of a batch are looked up by its series
//! codes; these have to be copied to the device for it, so only evaluation asks.

use millstream_stage::{Plan, Scaling};
use tch::{Device, Tensor};

/// An outcome this close to 0 is 0, relative to its scaled size: scaled values are `f32`, so a raw
/// 0 seldom comes back as exactly one.
const ZERO: f64 = 1e-6;

/// Landmarks of every series.
#[derive(Debug)]
pub(crate) struct LandmarkTable {
    /// `[series, 3, targets]`; a single row where all series are scaled alike.
    rows: Tensor,
    by_series: bool,
}

/// Landmarks of a batch: each has a shape that broadcasts to `[rows, horizon, targets]`.
#[derive(Debug)]
pub(crate) struct Landmarks {
    /// Raw 0.
    pub(crate) zero: Tensor,
    /// How far from `zero` an outcome still counts as 0.
    pub(crate) tolerance: Tensor,
    /// The mean of the training rows.
    pub(crate) mean: Tensor,
}

impl LandmarkTable {
    pub(crate) fn new(plan: &Plan, device: Device) -> Self {
        let scaling = &plan.scaling;
        let by_series = !scaling.by_series.is_empty();
        // Where no series has a fit of its own, any name finds that of the column.
        let names = if by_series { &plan.panel.series[..] } else { &[String::new()] };
        let rows: Vec<f32> = names.iter().flat_map(|name| row(scaling, name)).collect();
        let rows = Tensor::from_slice(&rows).view([-1, 3, scaling.targets.len() as i64]);
        LandmarkTable { rows: rows.to_device(device), by_series }
    }

    /// Of the windows of a batch, whose series have these codes.
    pub(crate) fn of(&self, series: &[u32]) -> Landmarks {
        let rows = if self.by_series {
            let codes: Vec<i64> = series.iter().map(|code| i64::from(*code)).collect();
            self.rows.index_select(0, &Tensor::from_slice(&codes).to_device(self.rows.device()))
        } else {
            self.rows.shallow_clone()
        };
        let [zero, tolerance, mean] = [0, 1, 2].map(|part| rows.narrow(1, part, 1));
        Landmarks { zero, tolerance, mean }
    }
}

/// The three landmarks of each target, one after another.
fn row(scaling: &Scaling, series: &str) -> Vec<f32> {
    let scaled = |raw: &dyn Fn(usize) -> f64| -> Vec<f32> {
        let targets = 0..scaling.targets.len();
        targets.map(|target| scaling.target_fit(series, target).apply(raw(target)) as f32).collect()
    };
    let zero = scaled(&|_| 0.0);
    let tolerance = zero.iter().map(|z| (ZERO * f64::from(z.abs()).max(1.0)) as f32).collect();
    let mean = scaled(&|target| scaling.targets[target].mean);
    [zero, tolerance, mean].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use millstream_stage::{Curve, Fit, SeriesFits};

    fn check(plan: &Plan, series: &[u32], expected: &[[f64; 3]]) {
        let Landmarks { zero, tolerance, mean } = LandmarkTable::new(plan, Device::Cpu).of(series);
        assert_eq!(zero.size(), [expected.len() as i64, 1, 1]);
        for (window, values) in expected.iter().enumerate() {
            let at = [window as i64, 0, 0];
            for (found, expected) in [&zero, &tolerance, &mean].into_iter().zip(values) {
                let found = found.double_value(&at);
                let allowed = 1e-6 * expected.abs();
                assert!((found - expected).abs() <= allowed, "window {window}: {found}");
            }
        }
    }

    #[test]
    fn one_row_serves_series_that_are_scaled_alike() {
        // The sample's offset is 1, its scale 2, its mean 3.
        check(&sample::plan(1, [4, 0, 0]), &[2, 0, 1], &[[-0.5, 1e-6, 1.0]]);
    }

    #[test]
    fn series_with_fits_of_their_own_have_their_rows() {
        let mut plan = sample::plan(1, [4, 0, 0]);
        let own = |curve, offset, scale| SeriesFits {
            features: vec![Fit::IDENTITY],
            targets: vec![Fit { curve, offset, scale }],
        };
        let by_series = &mut plan.scaling.by_series;
        by_series.insert("a".into(), own(Curve::Linear, -40.0, 10.0));
        by_series.insert("c".into(), own(Curve::Log1p, 0.0, 0.5));
        let (a, b) = ([4.0, 4e-6, 4.3], [-0.5, 1e-6, 1.0]);
        let c = [0.0, 1e-6, 2.0 * 4f64.ln()];
        check(&plan, &[2, 0, 1, 0], &[c, a, b, a]);
    }
}
