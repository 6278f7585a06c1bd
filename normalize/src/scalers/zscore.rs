//! `zscore`: mean 0, standard deviation 1.

use super::{ColumnFit, Curve, Measured, Needs, Scaler};

pub(super) struct Zscore;

impl Scaler for Zscore {
    fn needs(&self) -> Needs {
        Needs::Moments
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        let (mean, deviation) = column.moments;
        ColumnFit::affine(Curve::Linear, mean, deviation, column.mean)
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;

    #[test]
    fn the_deviation_is_that_of_all_values() {
        let fitting = ScaleMethod::Zscore.fit_values(&mut [1.0, 3.0, 1.0, 3.0]);
        assert_eq!((fitting.fit.offset, fitting.fit.scale), (2.0, 1.0));
    }
}
