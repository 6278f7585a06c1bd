//! [`Numbers`]: the numbers that scale the input columns of one series, laid out for the loop over
//! a row, and that loop.

use crate::moments::is_known;
use millstream_stage::{ColumnScaling, Fit, Reference};

/// What scales a row of inputs: `(x - offset) * factor`, kept within `low..=high`.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) offset: Vec<f32>,
    pub(crate) factor: Vec<f32>,
    pub(crate) low: Vec<f32>,
    pub(crate) high: Vec<f32>,
    /// Columns that are not affine.
    curved: Vec<(usize, Fit)>,
    /// Columns that stay in raw units until their window's reference is known.
    raw: Vec<usize>,
}

impl Numbers {
    /// Of these columns, with the fits of one series in place of their own.
    pub(crate) fn new(columns: &[ColumnScaling], own: Option<&[Fit]>) -> Self {
        let fit = |i: usize| own.map_or(&columns[i].fit, |own| &own[i]);
        let all = || 0..columns.len();
        let high: Vec<f32> =
            columns.iter().map(|c| c.clip.map_or(f32::MAX, |clip| clip as f32)).collect();
        Numbers {
            offset: all().map(|i| fit(i).offset as f32).collect(),
            factor: all().map(|i| (1.0 / fit(i).scale) as f32).collect(),
            low: high.iter().map(|high| -high).collect(),
            high,
            curved: all()
                .filter(|&i| !fit(i).curve.is_linear())
                .map(|i| (i, fit(i).clone()))
                .collect(),
            raw: all().filter(|&i| columns[i].reference != Reference::None).collect(),
        }
    }

    /// Scales one row. A missing value becomes zero, but stays NaN in a column that waits for its
    /// window's reference.
    pub(crate) fn scale(&self, row: &[f32], out: &mut [f32]) {
        let numbers = self.offset.iter().zip(&self.factor).zip(&self.low).zip(&self.high);
        for ((out, &x), (((&offset, &factor), &low), &high)) in
            out.iter_mut().zip(row).zip(numbers)
        {
            *out = scaled(x, x - offset, factor, low, high);
        }
        for (i, fit) in &self.curved {
            let x = fit.apply(f64::from(row[*i])) as f32;
            out[*i] = scaled(row[*i], x, 1.0, self.low[*i], self.high[*i]);
        }
        for &i in &self.raw {
            out[i] = if is_known(row[i]) { row[i] } else { f32::NAN };
        }
    }
}

/// The last step of every scaling: zero where `x` is missing, within `low..=high` elsewhere. It is
/// written for vector instructions, and no value that comes in makes it infinite or NaN.
#[inline]
pub(crate) fn scaled(x: f32, distance: f32, factor: f32, low: f32, high: f32) -> f32 {
    let value = distance * factor;
    let value = if value > low { value } else { low };
    let value = if value < high { value } else { high };
    if is_known(x) { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_in_a_finite_number_comes_out() {
        let tiny = ColumnScaling::affine("x", -1e38, 1e-30, 0.0);
        let clipped = ColumnScaling { clip: Some(3.0), ..ColumnScaling::affine("y", 0.0, 1.0, 0.0) };
        let numbers = Numbers::new(&[tiny, clipped], None);
        let check = |x: f32, expected: [f32; 2]| {
            let mut out = [9.0; 2];
            numbers.scale(&[x, x], &mut out);
            assert_eq!(out, expected, "{x}");
        };
        check(f32::NAN, [0.0, 0.0]);
        check(f32::INFINITY, [0.0, 0.0]);
        check(f32::NEG_INFINITY, [0.0, 0.0]);
        check(f32::MAX, [f32::MAX, 3.0]);
        check(-3.0e38, [-f32::MAX, -3.0]);
        check(2.0, [f32::MAX, 2.0]);
    }
}
