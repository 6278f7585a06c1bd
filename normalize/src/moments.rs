//! Mean, variance, minimum and maximum of every column at once, NaN-aware, in f64.
//!
//! Rows are summed in chunks of a fixed size, and the chunks merged up a tree of a fixed shape (Chan
//! et al.): the result has the same bits on any number of threads and wherever shards are cut, and a
//! pass over the data is all it takes.

use crate::{panel_rows::PanelRows, with_avx2::with_avx2};
use millstream_data::Curve;
use std::ops::Range;

/// Rows summed as one chunk. Part of the result's definition: changing it changes last bits.
const CHUNK: usize = 256;

/// The statistics of every column over some rows. A value that is not finite is missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    /// Values that are there.
    pub(crate) count: Vec<u32>,
    pub(crate) mean: Vec<f64>,
    /// Sums of their squared distances from the mean.
    pub(crate) squares: Vec<f64>,
    pub(crate) min: Vec<f32>,
    pub(crate) max: Vec<f32>,
}

/// Which rows are measured, and what is done to a value first.
pub(crate) struct MeasuredRows<'a> {
    pub(crate) rows: &'a PanelRows<'a>,
    /// By row: whether it counts.
    pub(crate) keep: &'a [bool],
    /// By column: whether the logarithm is taken. Empty for none.
    pub(crate) log: &'a [bool],
    /// Whether minimum and maximum are wanted.
    pub(crate) extremes: bool,
}

impl MeasuredRows<'_> {
    /// The statistics over all rows that count. Runs on the rayon pool it is called in.
    pub(crate) fn moments(&self) -> Moments {
        self.tree(0..self.rows.len().div_ceil(CHUNK))
    }

    fn tree(&self, chunks: Range<usize>) -> Moments {
        match chunks.len() {
            0 => Moments::none(self.rows.width()),
            1 => self.chunk(chunks.start),
            len => {
                // The split depends on the number of chunks alone.
                let middle = chunks.start + len / 2;
                let (left, right) = rayon::join(
                    || self.tree(chunks.start..middle),
                    || self.tree(middle..chunks.end),
                );
                left.merge(&right)
            }
        }
    }

    fn chunk(&self, chunk: usize) -> Moments {
        let (width, start) = (self.rows.width(), chunk * CHUNK);
        let end = (start + CHUNK).min(self.rows.len());
        let mut moments = Moments::none(width);
        if self.log.iter().any(|log| *log) {
            let mut values: Vec<f32> = Vec::with_capacity((end - start) * width);
            for row in self.kept(start..end).flat_map(|span| span.chunks_exact(width)) {
                let logged = row.iter().zip(self.log);
                values.extend(logged.map(|(&x, &log)| if log { log1p(x) } else { x }));
            }
            moments.add(&[&values], self.extremes);
        } else {
            let spans: Vec<&[f32]> = self.kept(start..end).collect();
            moments.add(&spans, self.extremes);
        }
        moments
    }

    /// Runs of rows that count.
    fn kept(&self, rows: Range<usize>) -> impl Iterator<Item = &[f32]> {
        let mut at = rows.start;
        let runs = std::iter::from_fn(move || {
            let start = at + self.keep[at..rows.end].iter().position(|keep| *keep)?;
            let dropped = self.keep[start..rows.end].iter().position(|keep| !*keep);
            at = dropped.map_or(rows.end, |length| start + length);
            Some(start..at)
        });
        runs.flat_map(|run| self.rows.spans(run))
    }
}

/// The first value of each column that is there; 0 where none is.
fn first_values(spans: &[&[f32]], width: usize) -> Vec<f64> {
    let mut first = vec![f64::NAN; width];
    for row in spans.iter().flat_map(|rows| rows.chunks_exact(width)) {
        let missing = first.iter_mut().zip(row).filter(|(first, _)| first.is_nan());
        let found = missing.map(|(first, &x)| {
            *first = if is_known(x) { f64::from(x) } else { f64::NAN };
            first.is_nan()
        });
        // Mostly the first row has all of them.
        if !found.fold(false, |any, missing| any | missing) {
            break;
        }
    }
    first.iter().map(|first| if first.is_nan() { 0.0 } else { *first }).collect()
}

/// One column of rows of this width.
fn column(rows: &[f32], column: usize, width: usize) -> impl Iterator<Item = f32> {
    rows.iter().skip(column).step_by(width).copied()
}

/// The logarithm of a value, rounded to f32 as applying it does.
pub(crate) fn log1p(x: f32) -> f32 {
    Curve::Log1p.apply(f64::from(x)) as f32
}

impl Moments {
    pub(crate) fn none(width: usize) -> Self {
        Moments {
            count: vec![0; width],
            mean: vec![0.0; width],
            squares: vec![0.0; width],
            min: vec![f32::INFINITY; width],
            max: vec![f32::NEG_INFINITY; width],
        }
    }

    /// Standard deviation of a column, over all its values.
    pub(crate) fn deviation(&self, column: usize) -> f64 {
        (self.squares[column] / f64::from(self.count[column])).sqrt()
    }

    /// Fills empty statistics from the rows of a chunk.
    ///
    /// Sums and squares are those of distances from the column's first value, and the mean's share
    /// is taken off the squares afterwards: one look at the rows, and mostly no digit lost. Where
    /// the first value was far from the others, so that more than a digit was, they are looked at
    /// again, with distances from the mean.
    fn add(&mut self, spans: &[&[f32]], extremes: bool) {
        let from = first_values(spans, self.mean.len());
        for rows in spans {
            sum(rows, &from, self);
        }
        for (i, from) in from.into_iter().enumerate() {
            let all = self.squares[i];
            let squares = self.finish(i, from);
            if squares * 16.0 < all {
                let from = self.mean[i];
                let column = spans.iter().flat_map(|rows| column(rows, i, self.mean.len()));
                let distances = column.filter(|x| is_known(*x)).map(|x| f64::from(x) - from);
                let sums = |(sum, squares), x| (sum + x, squares + x * x);
                (self.mean[i], self.squares[i]) = distances.fold((0.0, 0.0), sums);
                self.finish(i, from);
            }
        }
        if extremes {
            for rows in spans {
                extend(rows, &mut self.min, &mut self.max);
            }
        }
    }

    /// Makes mean and squares of the sums of distances from `from` that stand in their place.
    fn finish(&mut self, column: usize, from: f64) -> f64 {
        let (mean, squares) = (&mut self.mean[column], &mut self.squares[column]);
        // Of a column without values all sums are 0.
        let distance = *mean / f64::from(self.count[column].max(1));
        *squares = (*squares - *mean * distance).max(0.0);
        *mean = from + distance;
        *squares
    }

    fn merge(mut self, other: &Moments) -> Moments {
        for i in 0..self.count.len() {
            if other.count[i] == 0 {
                continue;
            }
            if self.count[i] == 0 {
                (self.count[i], self.mean[i]) = (other.count[i], other.mean[i]);
                (self.squares[i], self.min[i]) = (other.squares[i], other.min[i]);
                self.max[i] = other.max[i];
                continue;
            }
            let (n, m) = (f64::from(self.count[i]), f64::from(other.count[i]));
            let distance = other.mean[i] - self.mean[i];
            self.mean[i] += distance * m / (n + m);
            self.squares[i] += other.squares[i] + distance * distance * n * m / (n + m);
            self.count[i] += other.count[i];
            self.min[i] = self.min[i].min(other.min[i]);
            self.max[i] = self.max[i].max(other.max[i]);
        }
        self
    }
}

// In the loops below no branch depends on a value, so that they become vector instructions.

with_avx2! {
    /// Adds distances of rows from `from`, and their squares, to what stands in place of mean and
    /// squares; and counts what is there.
    fn sum(rows: &[f32], from: &[f64], into: &mut Moments) {
        for row in rows.chunks_exact(from.len()) {
            let sums = into.mean.iter_mut().zip(&mut into.squares).zip(&mut into.count);
            for (((sum, squares), count), (&x, &from)) in sums.zip(row.iter().zip(from)) {
                let known = is_known(x);
                let distance = if known { f64::from(x) - from } else { 0.0 };
                *sum += distance;
                *squares += distance * distance;
                // At most CHUNK.
                *count = count.wrapping_add(u32::from(known));
            }
        }
    }
}

with_avx2! {
    /// Extends the ranges of columns to the values of rows.
    fn extend(rows: &[f32], mins: &mut [f32], maxs: &mut [f32]) {
        for row in rows.chunks_exact(mins.len()) {
            for ((min, max), &x) in mins.iter_mut().zip(&mut *maxs).zip(row) {
                let known = is_known(x);
                *min = if known && x < *min { x } else { *min };
                *max = if known && x > *max { x } else { *max };
            }
        }
    }
}

/// Mean and standard deviation of values that are at hand as a list, in two looks at it: those of a
/// time, of a series, of collected labels. [`Moments`] are of whole columns, whose rows are looked at
/// once; the two agree but for last bits. A fit is by the one or the other for good: a run that goes on
/// must find the numbers it began with.
pub(crate) fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / count).sqrt())
}

/// Whether a value is there. Infinities are no numbers to learn from either.
#[inline(always)]
#[expect(clippy::eq_op, reason = "infinity minus itself is NaN: that is the point")]
pub(crate) fn is_known(x: f32) -> bool {
    // Not `is_finite`: this compiles to a subtraction and a comparison.
    x - x == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f32], width: usize) {
        let mut moments = Moments::none(width);
        moments.add(&[values], true);
        for column in 0..width {
            let known = || values[column..].iter().step_by(width).filter(|x| x.is_finite());
            let count = known().count();
            let mean = known().map(|x| f64::from(*x)).sum::<f64>() / count.max(1) as f64;
            let squares = known().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
            let deviation = (squares / count.max(1) as f64).sqrt();
            let place = format!("column {column} of {} x {width}", values.len() / width);
            let Moments { count: counts, mean: means, squares: sums, min, .. } = &moments;
            assert_eq!(counts[column] as usize, count, "{place}");
            assert!((means[column] - mean).abs() <= 1e-13 * (mean.abs() + deviation), "{place}");
            assert!((sums[column] - squares).abs() <= 2e-13 * squares, "{place}");
            assert_eq!(min[column], known().copied().fold(f32::INFINITY, f32::min), "{place}");
        }
    }

    #[test]
    fn moments_are_those_of_two_looks() {
        for (rows, width) in [(1, 1), (3, 105), (4, 8), (7, 33), (64, 5), (256, 105)] {
            let value = |i: usize| if i % 11 == 4 { f32::NAN } else { (i * 37 % 101) as f32 / 7.0 };
            check(&(0..rows * width).map(value).collect::<Vec<_>>(), width);
        }
    }

    #[test]
    fn a_first_value_far_off_costs_no_digits() {
        for far in [1e3, 1e10, 1e30] {
            let value = |i: usize| if i == 0 { far } else { 1.0 + (i % 7) as f32 / 8.0 };
            check(&(0..CHUNK).map(value).collect::<Vec<_>>(), 1);
        }
    }

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let mut moments = Moments::none(2);
        moments.add(&[&[0.1, f32::NAN].repeat(100)], false);
        assert_eq!((moments.mean[0], moments.squares[0]), (f64::from(0.1_f32), 0.0));
        assert_eq!((moments.mean[1], moments.count[1]), (0.0, 0));
    }
}
