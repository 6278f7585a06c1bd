//! Mean, variance, minimum and maximum of every column at once, NaN-aware, in f64.
//!
//! Rows are summed in chunks of a fixed size that stay in cache for a second look, and the chunks
//! merged up a tree of a fixed shape (Chan et al.): the result has the same bits on any number of
//! threads and wherever shards are cut, and a pass over the data is all it takes.

use crate::{spans::PanelRows, wide::wide};
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

/// Which rows count, and what is done to a value first.
pub(crate) struct Pass<'a> {
    pub(crate) rows: &'a PanelRows<'a>,
    /// By row: whether it counts.
    pub(crate) keep: &'a [bool],
    /// By column: whether the logarithm is taken. Empty for none.
    pub(crate) log: &'a [bool],
    /// Whether minimum and maximum are wanted.
    pub(crate) extremes: bool,
}

impl Pass<'_> {
    /// The statistics over all rows that count. Runs on the rayon pool it is called in.
    pub(crate) fn run(&self) -> Moments {
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

/// What [`Curve::Log1p`](millstream_stage::Curve) is, rounded to f32 as applying it does.
fn log1p(x: f32) -> f32 {
    (f64::from(x).signum() * f64::from(x).abs().ln_1p()) as f32
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

    /// Fills empty statistics from rows that stay in cache: means first, then squared distances.
    fn add(&mut self, spans: &[&[f32]], extremes: bool) {
        for rows in spans {
            sum(rows, &mut self.mean, &mut self.count);
        }
        for (mean, &count) in self.mean.iter_mut().zip(&self.count) {
            *mean = if count > 0 { *mean / f64::from(count) } else { 0.0 };
        }
        for rows in spans {
            sum_squares(rows, &self.mean, &mut self.squares);
        }
        if extremes {
            for rows in spans {
                extend(rows, &mut self.min, &mut self.max);
            }
        }
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

wide! {
    /// Adds rows to the sums of their columns, and counts what is there.
    fn sum(rows: &[f32], sums: &mut [f64], counts: &mut [u32]) {
        for row in rows.chunks_exact(sums.len()) {
            for ((sum, count), &x) in sums.iter_mut().zip(&mut *counts).zip(row) {
                let known = is_known(x);
                *sum += f64::from(if known { x } else { 0.0 });
                // At most CHUNK.
                *count = count.wrapping_add(u32::from(known));
            }
        }
    }
}

wide! {
    /// Adds the squared distances of rows from the means of their columns.
    fn sum_squares(rows: &[f32], means: &[f64], squares: &mut [f64]) {
        for row in rows.chunks_exact(means.len()) {
            for ((squares, &mean), &x) in squares.iter_mut().zip(means).zip(row) {
                let distance = f64::from(x) - mean;
                let distance = if is_known(x) { distance } else { 0.0 };
                *squares += distance * distance;
            }
        }
    }
}

wide! {
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

    #[test]
    fn any_number_of_rows_is_added_in_their_order() {
        for (rows, width) in [(1, 1), (3, 105), (4, 8), (7, 33), (64, 5), (256, 105)] {
            let value = |i: usize| if i % 11 == 4 { f32::NAN } else { (i * 37 % 101) as f32 / 7.0 };
            let values: Vec<f32> = (0..rows * width).map(value).collect();
            let mut moments = Moments::none(width);
            moments.add(&[&values], true);
            for column in 0..width {
                let known = || values[column..].iter().step_by(width).filter(|x| x.is_finite());
                let sum = known().fold(0.0, |sum, x| sum + f64::from(*x));
                let count = known().count();
                let mean = if count > 0 { sum / count as f64 } else { 0.0 };
                let square = |x: &f32| (f64::from(*x) - mean) * (f64::from(*x) - mean);
                let squares = known().fold(0.0, |sum, x| sum + square(x));
                let place = format!("column {column} of {rows} x {width}");
                assert_eq!(moments.count[column] as usize, count, "{place}");
                assert_eq!(moments.mean[column].to_bits(), mean.to_bits(), "{place}");
                assert_eq!(moments.squares[column].to_bits(), squares.to_bits(), "{place}");
                let min = known().copied().fold(f32::INFINITY, f32::min);
                assert_eq!(moments.min[column], min, "{place}");
            }
        }
    }
}
