//! [`ColumnScales`]: the numbers that scale the input columns of one series, laid out for the loop over
//! a row, and that loop.

use crate::{moments::is_known, with_avx2::with_avx2};
use millstream_data::{ColumnScaling, Fit, Reference};
use std::iter::repeat;

/// What scales a row of inputs: `(x - offset) * factor`, kept within plus and minus `limit`.
#[derive(Debug, Clone)]
pub(crate) struct ColumnScales {
    pub(crate) offset: Vec<f32>,
    pub(crate) factor: Vec<f32>,
    pub(crate) limit: Vec<f32>,
    /// The limit of all columns, where they have the same.
    pub(crate) common_limit: Option<f32>,
    /// Columns that are not affine.
    curved: Vec<(usize, Fit)>,
    /// Columns that stay in raw units until their window's reference is known.
    raw: Vec<usize>,
}

impl ColumnScales {
    /// Of these columns, with the fits of one series in place of their own.
    pub(crate) fn new(columns: &[ColumnScaling], own: Option<&[Fit]>) -> Self {
        let fit = |i: usize| own.map_or(&columns[i].fit, |own| &own[i]);
        let all = || 0..columns.len();
        let limit: Vec<f32> =
            columns.iter().map(|c| c.clip.map_or(f32::MAX, |clip| clip as f32)).collect();
        let common_limit = limit.first().copied().filter(|first| limit.iter().all(|l| l == first));
        ColumnScales {
            offset: all().map(|i| fit(i).offset as f32).collect(),
            factor: all().map(|i| (1.0 / fit(i).scale) as f32).collect(),
            limit,
            common_limit,
            curved: all()
                .filter(|&i| !fit(i).curve.is_linear())
                .map(|i| (i, fit(i).clone()))
                .collect(),
            raw: all().filter(|&i| columns[i].reference != Reference::None).collect(),
        }
    }

    /// The affine part for so many adjacent rows as if they were one; the rest is left to
    /// [`finish`](Self::finish).
    pub(crate) fn tiled(&self, rows: usize) -> Self {
        ColumnScales {
            offset: self.offset.repeat(rows),
            factor: self.factor.repeat(rows),
            limit: self.limit.repeat(rows),
            common_limit: self.common_limit,
            curved: Vec::new(),
            raw: Vec::new(),
        }
    }

    /// Scales one row. A missing value becomes zero, but stays NaN in a column that waits for its
    /// window's reference.
    pub(crate) fn scale(&self, row: &[f32], out: &mut [f32]) {
        scale_affine(row, self, out);
        self.finish(row, out);
    }

    /// Does what is not affine, once the row is scaled as if it were.
    pub(crate) fn finish(&self, row: &[f32], out: &mut [f32]) {
        for (i, fit) in &self.curved {
            let x = fit.apply(f64::from(row[*i])) as f32;
            out[*i] = scaled(row[*i], x, 1.0, self.limit[*i]);
        }
        for &i in &self.raw {
            out[i] = if is_known(row[i]) { row[i] } else { f32::NAN };
        }
    }
}

with_avx2! {
    /// Scales one row as if all its columns were affine.
    fn scale_affine(row: &[f32], numbers: &ColumnScales, out: &mut [f32]) {
        match numbers.common_limit {
            Some(limit) => scale_within(row, numbers, repeat(limit), out),
            None => scale_within(row, numbers, numbers.limit.iter().copied(), out),
        }
    }
}

#[inline(always)]
fn scale_within(
    row: &[f32],
    numbers: &ColumnScales,
    limits: impl Iterator<Item = f32>,
    out: &mut [f32],
) {
    let scales = numbers.offset.iter().zip(&numbers.factor);
    for (((out, &x), (offset, factor)), limit) in out.iter_mut().zip(row).zip(scales).zip(limits) {
        *out = scaled(x, x - offset, *factor, limit);
    }
}

/// The last step of every scaling: zero where `x` is missing, within plus and minus `limit`
/// elsewhere. It is written for vector instructions, and no value that comes in makes it infinite
/// or NaN.
#[inline(always)]
pub(crate) fn scaled(x: f32, distance: f32, factor: f32, limit: f32) -> f32 {
    let value = distance * factor;
    let value = if value > -limit { value } else { -limit };
    let value = if value < limit { value } else { limit };
    if is_known(x) { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_in_a_finite_number_comes_out() {
        let tiny = ColumnScaling::affine("x", -1e38, 1e-30, 0.0);
        let clipped =
            ColumnScaling { clip: Some(3.0), ..ColumnScaling::affine("y", 0.0, 1.0, 0.0) };
        let numbers = ColumnScales::new(&[tiny, clipped], None);
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

    #[test]
    fn a_row_of_any_width_is_scaled_value_by_value() {
        for width in 1..70 {
            for clip in [None, Some(1.5)] {
                let columns: Vec<ColumnScaling> = (0..width)
                    .map(|i| ColumnScaling {
                        // The last one has a limit of its own.
                        clip: clip.filter(|_| i + 1 < width),
                        ..ColumnScaling::affine("x", i as f64 / 3.0, 0.7 + i as f64, 0.0)
                    })
                    .collect();
                let numbers = ColumnScales::new(&columns, None);
                let row: Vec<f32> = (0..width)
                    .map(|i| if i % 5 == 3 { f32::NAN } else { (i * i) as f32 * 0.37 - 9.0 })
                    .collect();
                let mut out = vec![9.0; width];
                numbers.scale(&row, &mut out);
                for (i, (&x, out)) in row.iter().zip(&out).enumerate() {
                    let (offset, factor) = (numbers.offset[i], numbers.factor[i]);
                    let expected = scaled(x, x - offset, factor, numbers.limit[i]);
                    assert_eq!(out.to_bits(), expected.to_bits(), "column {i} of {width}");
                }
                let mut tile = vec![9.0; 3 * width];
                numbers.tiled(3).scale(&row.repeat(3), &mut tile);
                assert_eq!(tile, out.repeat(3), "three rows of {width}");
            }
        }
    }
}
