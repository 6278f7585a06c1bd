//! What the outputs of a model become: forecasts, by what its [`Heads`] stand for.
//!
//! Quantiles cannot cross, whatever a model makes: the median is its own head, and each further one lies
//! beyond its neighbour by `softplus` of how far their outputs are apart,
//!
//! ```text
//! q[k + 1] = q[k] + ln(1 + exp(output[k + 1] - output[k]))
//! ```
//!
//! So all heads are alike to the model: what is added to every output is added to every quantile, as
//! the models need that forecast a change and add the level. Sums of what is not negative rise in `f32`
//! too, so no rounding crosses them either.

use crate::{
    error::ModelError,
    model::{Mode, Model},
    parameters::Parameters,
    tensor::Inputs,
};
use millstream_data::{Extras, Heads};
use tch::{Kind, TchError, Tensor};

/// The forecasts that a model's outputs `[rows, horizon, targets]` stand for, scaled; with several heads
/// `[rows, horizon, targets, heads]`, in and out.
///
/// # Errors
/// When libtorch fails.
pub fn forecasts(heads: &Heads, outputs: &Tensor) -> Result<Tensor, TchError> {
    match heads {
        Heads::Quantiles(quantiles) if quantiles.len() > 1 => ordered(outputs, heads.forecast()),
        // 2 / (1 + exp(-x)) - 1
        Heads::Logit => outputs.f_mul_scalar(0.5)?.f_tanh(),
        _ => Ok(outputs.shallow_clone()),
    }
}

/// Puts heads in order around the median.
fn ordered(outputs: &Tensor, median: usize) -> Result<Tensor, TchError> {
    let (heads, median) = (outputs.size().last().copied().unwrap_or(1), median as i64);
    let (lower, upper) = (outputs.f_narrow(-1, 0, heads - 1)?, outputs.f_narrow(-1, 1, heads - 1)?);
    let above_first = upper.f_sub(&lower)?.f_softplus()?.f_cumsum(-1, None::<Kind>)?;
    let first = above_first.f_narrow(-1, 0, 1)?.f_zeros_like()?;
    let above_first = Tensor::f_cat(&[first, above_first], -1)?;
    let above_median = above_first.f_sub(&above_first.f_narrow(-1, median, 1)?)?;
    above_median.f_add(&outputs.f_narrow(-1, median, 1)?)
}

/// A model whose outputs are forecasts already: what others are to be given of it.
#[derive(Debug)]
pub struct Forecasting {
    model: Box<dyn Model>,
    heads: Heads,
}

impl Forecasting {
    /// The model, followed by what makes forecasts of its outputs.
    #[must_use]
    pub fn new(model: Box<dyn Model>, heads: Heads) -> Self {
        Forecasting { model, heads }
    }
}

impl Model for Forecasting {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        Ok(forecasts(&self.heads, &self.model.forward(inputs, mode)?)?)
    }

    fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.model.parameters_mut()
    }

    fn is_random(&self) -> bool {
        self.model.is_random()
    }

    fn forward_traced(&self, inputs: &Inputs) -> Result<Tensor, ModelError> {
        Ok(forecasts(&self.heads, &self.model.forward_traced(inputs)?)?)
    }

    fn traced_with(&self) -> Extras {
        self.model.traced_with()
    }

    /// A script of the user's is his, and what follows is not part of it.
    fn as_torchscript(&self) -> Result<Option<Vec<u8>>, ModelError> {
        self.model.as_torchscript()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    fn quantiles(of: &[f64]) -> Heads {
        Heads::Quantiles(of.to_vec())
    }

    #[test]
    fn quantiles_are_sums_of_softplus_away_from_the_median() {
        let outputs = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 2.5]).view([1, 1, 1, 4]);
        let found = numbers(&forecasts(&quantiles(&[0.1, 0.4, 0.5, 0.9]), &outputs).unwrap());
        let softplus = |x: f64| x.exp().ln_1p();
        let median = 2.0;
        let expected = [
            median - softplus(-1.0) - softplus(2.0),
            median - softplus(-1.0),
            median,
            median + softplus(0.5),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found}, {expected}");
        }
    }

    #[test]
    fn no_outputs_cross_them() {
        let mut random = SplitMix64::new(3);
        let size = |power: usize| 10f32.powi(power as i32 % 40 - 20);
        let outputs: Vec<f32> = (0..7 * 2000).map(|i| random.uniform(1.0) * size(i / 7)).collect();
        let outputs = Tensor::from_slice(&outputs).view([1000, 2, 1, 7]);
        let heads = quantiles(&[0.01, 0.1, 0.3, 0.5, 0.6, 0.9, 0.99]);
        let found = numbers(&forecasts(&heads, &outputs).unwrap());
        for (outputs, found) in numbers(&outputs).chunks_exact(7).zip(found.chunks_exact(7)) {
            assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{outputs:?}: {found:?}");
            assert_eq!(found[3], outputs[3], "the median is its head");
        }
    }

    #[test]
    fn a_level_that_is_added_to_all_outputs_is_added_to_all_quantiles() {
        let outputs = Tensor::from_slice(&[0.5f32, -0.25, 1.0]).view([1, 1, 1, 3]);
        let heads = quantiles(&[0.1, 0.5, 0.9]);
        let moved = forecasts(&heads, &(&outputs + 8.0)).unwrap() - 8.0;
        let difference = (moved - forecasts(&heads, &outputs).unwrap()).abs().max();
        assert!(difference.double_value(&[]) < 1e-5);
    }

    #[test]
    fn a_logit_becomes_twice_its_probability_less_one() {
        let logits = [-30.0f32, -1.0, 0.0, 0.5, 30.0];
        let found = numbers(&forecasts(&Heads::Logit, &Tensor::from_slice(&logits)).unwrap());
        for (logit, found) in logits.iter().zip(&found) {
            let expected = 2.0 / (1.0 + (-f64::from(*logit)).exp()) - 1.0;
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{logit}: {found}");
        }
        assert_eq!((found[0], found[2], found[4]), (-1.0, 0.0, 1.0));
    }
}
