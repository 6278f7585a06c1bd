//! Ridge regression on the last row of every training window: what a linear model makes of the same
//! numbers. On many tables it beats a network, and whoever trains one should see that.
//!
//! Closed form, in `f64`, each step of each target with an intercept. Inputs are taken in standard
//! deviations of the training windows; with n of these, `(X'X / n + PENALTY I) w = X'y / n` is solved
//! for the distances from the means. Every sum is taken in the order of the windows, so the coefficients
//! do not depend on threads; only windows of the training part are looked at.

use crate::{
    cholesky::solve,
    reference::References,
    rows::ScaledRows,
    windows::{Window, WindowIndex},
    with_avx2::with_avx2,
};
use millstream_data::Ridge;
use rayon::prelude::*;

/// Added to the variance of every input, which is 1. Hardly a bias, and enough to solve for inputs that
/// say the same.
const PENALTY: f64 = 1e-3;

/// Windows that are added up together, while they are in a core's cache.
const CHUNK: usize = 256;

/// More inputs than this are not solved for: it takes their third power.
const MOST_INPUTS: usize = 4096;

/// More sums than this are not kept: 512 MB of them.
const MOST_SUMS: usize = 1 << 26;

/// Multiplications that the sums may take, a few seconds; of more windows an even share is looked at, but
/// at least [`LEAST_WINDOWS`] for every input.
const MOST_PRODUCTS: usize = 40_000_000_000;
const LEAST_WINDOWS: usize = 4;

/// Fits the regression, or says why not.
pub(crate) fn fit(rows: &ScaledRows, index: &WindowIndex) -> Result<Ridge, String> {
    let (inputs, labels) = (rows.channels, index.shape().horizon * rows.targets());
    let sums = inputs.saturating_mul(inputs.saturating_add(labels));
    if inputs > MOST_INPUTS || sums > MOST_SUMS {
        return Err(format!(
            "no ridge regression beside the model: {inputs} inputs for {labels} forecasts are too many; at most {MOST_INPUTS} inputs, and {MOST_SUMS} products of these with each other and the forecasts"
        ));
    }
    let ridge = Sums::of(rows, index, inputs, labels).solve();
    if ridge.weights.iter().all(|weight| *weight == 0.0) {
        return Err("no ridge regression beside the model: the inputs of a window's last row are always the same, as with scale.reference = \"last\"".to_owned());
    }
    let numbers = ridge.weights.iter().chain(&ridge.intercepts);
    if numbers.into_iter().all(|number| number.is_finite()) {
        Ok(ridge)
    } else {
        Err("no ridge regression beside the model: the inputs are too large to be squared"
            .to_owned())
    }
}

/// How many of so many windows are looked at, evenly spaced.
fn share(windows: usize, inputs: usize, labels: usize) -> usize {
    let each = inputs.saturating_mul(inputs / 2 + labels).max(1);
    (MOST_PRODUCTS / each).max(LEAST_WINDOWS * inputs).min(windows)
}

/// Sums over windows; all values are taken as distances from those of the first one, so that a level far
/// from 0 costs no digits.
struct Sums {
    inputs: usize,
    /// Inputs and labels.
    width: usize,
    windows: usize,
    /// `[width]`: the values of the first window.
    first: Vec<f64>,
    /// `[width]`
    values: Vec<f64>,
    /// `[inputs, width]`: products of inputs with all; only those of a row with itself and further on.
    products: Vec<f64>,
}

impl Sums {
    fn of(rows: &ScaledRows, index: &WindowIndex, inputs: usize, labels: usize) -> Self {
        let (width, all) = (inputs + labels, index.len() as usize);
        let windows = share(all, inputs, labels);
        let mut values = WindowValues::new(rows, inputs, labels);
        let mut sums = Sums {
            inputs,
            width,
            windows,
            first: vec![0.0; width],
            values: vec![0.0; width],
            products: vec![0.0; inputs * width],
        };
        let mut chunk = Vec::with_capacity(CHUNK * width);
        for start in (0..windows).step_by(CHUNK) {
            chunk.clear();
            for number in start..(start + CHUNK).min(windows) {
                // In 128 bits: both may be large.
                let position = (number as u128 * all as u128 / windows as u128) as u64;
                values.read(rows, &index.at(position));
                if number == 0 {
                    sums.first.copy_from_slice(&values.all);
                }
                chunk
                    .extend(values.all.iter().zip(&sums.first).map(|(value, first)| value - first));
            }
            sums.add(&chunk);
        }
        sums
    }

    /// Adds windows, of which `chunk` has the values, `width` each.
    fn add(&mut self, chunk: &[f64]) {
        let width = self.width;
        for values in chunk.chunks_exact(width) {
            self.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let products = self.products.par_chunks_exact_mut(width).enumerate();
        products.for_each(|(input, sums)| add_products(chunk, width, input, &mut sums[input..]));
    }

    fn solve(self) -> Ridge {
        let Sums { inputs, width, windows, first, values, products } = self;
        let (n, labels) = (windows as f64, width - inputs);
        let means: Vec<f64> = values.iter().map(|sum| sum / n).collect();
        let covariance = |i: usize, j: usize| products[i * width + j] / n - means[i] * means[j];
        let deviations: Vec<f64> = (0..inputs).map(|i| covariance(i, i).max(0.0).sqrt()).collect();
        // An input that is always the same has no part.
        let varies = |i: usize| deviations[i] > 0.0;
        let mut matrix = vec![0.0; inputs * inputs];
        matrix.par_chunks_exact_mut(inputs.max(1)).enumerate().for_each(|(i, row)| {
            for (j, value) in row[..i].iter_mut().enumerate().filter(|_| varies(i)) {
                if varies(j) {
                    *value = covariance(j, i) / (deviations[i] * deviations[j]);
                }
            }
            row[i] = 1.0 + PENALTY;
        });
        let mut weights = vec![0.0; inputs * labels];
        for (i, row) in weights.chunks_exact_mut(labels).enumerate().filter(|(i, _)| varies(*i)) {
            for (label, value) in row.iter_mut().enumerate() {
                *value = covariance(i, inputs + label) / deviations[i];
            }
        }
        solve(&mut matrix, inputs, &mut weights, labels);
        let mut intercepts: Vec<f64> =
            (inputs..width).map(|label| first[label] + means[label]).collect();
        for (i, row) in weights.chunks_exact_mut(labels).enumerate() {
            for (weight, intercept) in row.iter_mut().zip(&mut intercepts) {
                *weight = if varies(i) { *weight / deviations[i] } else { 0.0 };
                *intercept -= *weight * (first[i] + means[i]);
            }
        }
        Ridge { weights, intercepts }
    }
}

with_avx2! {
    /// Adds, of every window of a chunk, the products of one value with itself and those after it.
    fn add_products(chunk: &[f64], width: usize, input: usize, sums: &mut [f64]) {
        for values in chunk.chunks_exact(width) {
            let factor = values[input];
            for (sum, value) in sums.iter_mut().zip(&values[input..]) {
                *sum += factor * value;
            }
        }
    }
}

/// The inputs of a window's last row, as the model sees them, and its labels.
struct WindowValues {
    all: Vec<f64>,
    inputs: Vec<f32>,
    labels: Vec<f32>,
    scratch: Vec<f32>,
}

impl WindowValues {
    fn new(rows: &ScaledRows, inputs: usize, labels: usize) -> Self {
        let scratch = rows.references.as_ref().map_or(0, References::scratch);
        WindowValues {
            all: vec![0.0; inputs + labels],
            inputs: vec![0.0; inputs],
            labels: vec![0.0; labels],
            scratch: vec![0.0; scratch],
        }
    }

    fn read(&mut self, rows: &ScaledRows, window: &Window) {
        rows.last_inputs(window, &mut self.inputs, &mut self.scratch);
        rows.labels.copy(window.row, window.series_end, &mut self.labels);
        let values = self.inputs.iter().chain(&self.labels);
        self.all.iter_mut().zip(values).for_each(|(to, value)| *to = f64::from(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_windows_than_there_is_time_for_an_even_share_is_taken() {
        assert_eq!(share(1_000_000, 105, 1), 1_000_000);
        assert_eq!(share(100_000_000, 105, 1), MOST_PRODUCTS / (105 * 53));
        assert_eq!(share(1_000_000, 4096, 1), LEAST_WINDOWS * 4096);
        assert_eq!(share(3, 4096, 1), 3);
    }
}
