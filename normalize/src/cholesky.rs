//! Cholesky's way to solve a system of equations that is symmetric and positive definite, for several
//! right sides at once. Every number is worked out in one order, whatever the threads.

use rayon::prelude::*;

/// Rows that one task looks at.
const TASK: usize = 32;

/// Solves `matrix * x = sides` in place of `sides`, `[size, width]`. Of `matrix`, `[size, size]`, only
/// what is on the diagonal and below is read, and it is written over.
pub(crate) fn solve(matrix: &mut [f64], size: usize, sides: &mut [f64], width: usize) {
    if size == 0 || width == 0 {
        return;
    }
    factor(matrix, size);
    for k in 0..size {
        let (done, rest) = sides.split_at_mut((k + 1) * width);
        let solved = &mut done[k * width..];
        solved.iter_mut().for_each(|value| *value /= matrix[k * size + k]);
        let below = rest.par_chunks_exact_mut(width).with_min_len(TASK).enumerate();
        below.for_each(|(i, side)| subtract(side, matrix[(k + 1 + i) * size + k], solved));
    }
    for k in (0..size).rev() {
        let (rest, done) = sides.split_at_mut(k * width);
        let solved = &mut done[..width];
        solved.iter_mut().for_each(|value| *value /= matrix[k * size + k]);
        let above = rest.par_chunks_exact_mut(width).with_min_len(TASK).enumerate();
        above.for_each(|(i, side)| subtract(side, matrix[k * size + i], solved));
    }
}

/// The lower factor, in place.
fn factor(matrix: &mut [f64], size: usize) {
    let mut column = vec![0.0; size];
    for k in 0..size {
        let pivot = matrix[k * size + k].sqrt();
        matrix[k * size + k] = pivot;
        let below = &mut matrix[(k + 1) * size..];
        for (row, column) in below.chunks_exact_mut(size).zip(&mut column[k + 1..]) {
            row[k] /= pivot;
            *column = row[k];
        }
        let rows = below.par_chunks_exact_mut(size).with_min_len(TASK).enumerate();
        rows.for_each(|(i, row)| {
            let own = k + 1..k + 2 + i;
            subtract(&mut row[own.clone()], column[k + 1 + i], &column[own]);
        });
    }
}

fn subtract(from: &mut [f64], factor: f64, values: &[f64]) {
    from.iter_mut().zip(values).for_each(|(from, value)| *from -= factor * value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;

    #[test]
    fn what_is_solved_fulfils_its_equations() {
        let mut random = SplitMix64::new(5);
        for (size, width) in [(1, 1), (2, 3), (7, 1), (100, 5)] {
            let rows: Vec<f64> =
                (0..3 * size * size).map(|_| f64::from(random.uniform(1.0))).collect();
            let product = |i: usize, j: usize| -> f64 {
                rows.chunks_exact(size).map(|row| row[i] * row[j]).sum::<f64>()
                    + f64::from(u8::from(i == j))
            };
            let mut lower = vec![f64::NAN; size * size];
            (0..size).for_each(|i| (0..=i).for_each(|j| lower[i * size + j] = product(i, j)));
            let sides: Vec<f64> =
                (0..size * width).map(|_| f64::from(random.uniform(1.0))).collect();
            let mut solved = sides.clone();
            solve(&mut lower, size, &mut solved, width);
            for (i, sides) in sides.chunks_exact(width).enumerate() {
                for (column, side) in sides.iter().enumerate() {
                    let found: f64 =
                        (0..size).map(|j| product(i, j) * solved[j * width + column]).sum();
                    assert!((found - side).abs() < 1e-9, "{found}, {side}");
                }
            }
        }
    }
}
