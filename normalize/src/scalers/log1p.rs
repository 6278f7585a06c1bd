//! `log1p`: `sign(x) * ln(1 + |x|)`, then mean 0 and standard deviation 1.

use super::{ColumnFit, Curve, Measured, Needs, Scaler};

pub(super) struct Log1p;

impl Scaler for Log1p {
    fn needs(&self) -> Needs {
        Needs::LogMoments
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        let (mean, deviation) = column.moments;
        ColumnFit::affine(Curve::Log1p, mean, deviation, column.mean)
    }

    fn is_curved(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;

    #[test]
    fn the_mean_stays_in_raw_units() {
        let fitting = ScaleMethod::Log1p.fit_values(&mut [-9.0, 9.0, -1.0, 5.0]);
        assert_eq!(fitting.mean, 1.0);
        assert!((fitting.fit.offset - (3.0_f64.ln() / 4.0)).abs() < 1e-6, "{:?}", fitting.fit);
    }
}
