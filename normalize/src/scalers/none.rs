//! `none`: values as they are.

use super::{ColumnFit, Measured, Needs, Scaler};

pub(super) struct None;

impl Scaler for None {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn fit(&self, column: &Measured<'_>) -> ColumnFit {
        ColumnFit { mean: column.mean, ..ColumnFit::identity() }
    }
}

#[cfg(test)]
mod tests {
    use crate::ScaleMethod;
    use millstream_data::Fit;

    #[test]
    fn nothing_is_done_and_the_mean_is_known() {
        let fitting = ScaleMethod::None.fit_values(&mut [1.0, 4.0]);
        assert_eq!((fitting.fit, fitting.mean), (Fit::IDENTITY, 2.5));
    }
}
