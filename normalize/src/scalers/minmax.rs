//! `minmax`: minimum 0, maximum 1.

use super::{ColumnFit, Curve, Measured, Needs, Scaler};

pub(super) struct Minmax;

impl Scaler for Minmax {
    fn needs(&self) -> Needs {
        Needs::Extremes
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        let (min, max) = column.extremes;
        ColumnFit::affine(Curve::Linear, min, max - min, column.mean)
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;

    #[test]
    fn values_end_up_between_0_and_1() {
        let fitting = ScaleMethod::Minmax.fit_values(&mut [5.0, -3.0, 1.0]);
        assert_eq!([-3.0, 1.0, 5.0].map(|x| fitting.fit.apply(x)), [0.0, 0.5, 1.0]);
    }
}
