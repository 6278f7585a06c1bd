//! `robust`: median 0, distance between the quartiles 1.

use super::{ColumnFit, Curve, Measured, Needs, Scaler};

pub(super) struct Robust;

impl Scaler for Robust {
    fn needs(&self) -> Needs {
        Needs::Sorted
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        let [low, median, high] = [1, 2, 3].map(|quarter| column.quantile(quarter, 4));
        // Half of the values or more can be equal; the others still tell how far they reach.
        let scale = if high > low { high - low } else { column.moments.1 };
        ColumnFit::affine(Curve::Linear, median, scale, column.mean)
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;

    fn check(values: &mut [f32], expected: (f64, f64)) {
        let fitting = ScaleMethod::Robust.fit_values(values);
        assert_eq!((fitting.fit.offset, fitting.fit.scale), expected);
    }

    #[test]
    fn quartiles_are_those_of_numpy() {
        // numpy.quantile([1, 2, 3, 4, 5, 100], [.25, .5, .75]) is [2.25, 3.5, 4.75].
        check(&mut [4.0, 1.0, 2.0, 3.0, 100.0, 5.0], (3.5, 2.5));
    }

    #[test]
    fn equal_quartiles_leave_the_deviation() {
        check(&mut [1.0, 1.0, 1.0, 1.0, 6.0], (1.0, 2.0));
    }
}
