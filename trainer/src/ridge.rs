//! What the linear forecast of the plan says of the windows of a pass: one multiplication a batch, of the
//! last row of its inputs, where these are. Only passes that are judged beside naive forecasts make it.

use millstream_data::{Padding, Plan, Ridge};
use millstream_model::Inputs;
use tch::{Device, Kind, TchError, Tensor};

/// The forecasts of one pass, kept like those of the model.
#[derive(Debug)]
pub(crate) struct RidgeForecasts {
    padding: Padding,
    /// `[inputs, labels]`, as `f64`, in which they were solved for.
    weights: Tensor,
    /// `[labels]`
    intercepts: Tensor,
    /// `[labels, windows]`
    pub(crate) kept: Tensor,
}

impl RidgeForecasts {
    /// `None` where the plan has no linear forecast.
    ///
    /// # Errors
    /// When libtorch has no memory for so many windows.
    pub(crate) fn new(plan: &Plan, windows: i64, device: Device) -> Result<Option<Self>, TchError> {
        let Some(ridge) = &plan.ridge else { return Ok(None) };
        let Ridge { weights, intercepts } = ridge;
        let sizes = [ridge.inputs() as i64, intercepts.len() as i64];
        Ok(Some(RidgeForecasts {
            padding: plan.schema.padding,
            weights: Tensor::f_from_slice(weights)?.f_view(sizes)?.f_to_device(device)?,
            intercepts: Tensor::f_from_slice(intercepts)?.f_to_device(device)?,
            kept: Tensor::f_empty([sizes[1], windows], (Kind::Float, device))?,
        }))
    }

    /// Of the windows of a batch, `[rows, labels]`.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn of(&self, inputs: &Inputs) -> Result<Tensor, TchError> {
        let last = self.last_rows(inputs)?.f_to_kind(Kind::Double)?;
        self.intercepts.f_addmm(&last, &self.weights)?.f_to_kind(Kind::Float)
    }

    /// `[rows, inputs]`: the last real row of each window.
    fn last_rows(&self, inputs: &Inputs) -> Result<Tensor, TchError> {
        let values = &inputs.values;
        match (self.padding, &inputs.lengths) {
            (Padding::Right, Some(lengths)) => {
                let at = lengths.f_to_kind(Kind::Int64)?.f_sub_scalar(1)?.f_view([-1, 1, 1])?;
                let at = at.f_expand([-1, 1, values.size()[2]], false)?;
                values.f_gather(1, &at, false)?.f_squeeze_dim(1)
            }
            _ => values.f_select(1, -1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn check(padding: Padding, lengths: Option<&[f32]>, expected: [f32; 4]) {
        let mut plan = sample::plan(1, [8, 0, 0]);
        plan.schema.padding = padding;
        assert!(RidgeForecasts::new(&plan, 2, Device::Cpu).unwrap().is_none());
        // Two inputs; the labels are their sum, and 10 less their difference.
        plan.ridge =
            Some(Ridge { weights: vec![1.0, -1.0, 1.0, 1.0], intercepts: vec![0.0, 10.0] });
        let ridge = RidgeForecasts::new(&plan, 2, Device::Cpu).unwrap().unwrap();
        let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 7.0, 0.5, 0.25, 9.0, 9.0, 9.0, 8.0];
        let values = Tensor::from_slice(&values).view([2, 3, 2]);
        let lengths = lengths.map(Tensor::from_slice);
        let inputs = Inputs { values, lengths, mask: None, segments: None };
        let found: Vec<f32> = Vec::try_from(ridge.of(&inputs).unwrap().flatten(0, -1)).unwrap();
        assert_eq!(found, expected, "{padding:?}");
    }

    #[test]
    fn it_is_a_sum_over_the_last_real_row() {
        check(Padding::None, None, [12.0, 12.0, 17.0, 9.0]);
        check(Padding::Left, Some(&[3.0, 1.0]), [12.0, 12.0, 17.0, 9.0]);
        check(Padding::Right, Some(&[2.0, 1.0]), [7.0, 11.0, 0.75, 9.75]);
    }
}
