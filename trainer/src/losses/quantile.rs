//! Pinball loss: a head for each of `train.quantiles`, each drawn to where that share of the outcomes
//! lies below it.
//!
//! ```text
//! max(q * (outcome - forecast), (q - 1) * (outcome - forecast))
//! ```
//!
//! averaged over quantiles, steps and targets. The heads are put in order before they are judged
//! (`model/src/heads.rs`), so quantiles never cross.

use super::{MeanLoss, Outcomes};
use crate::{
    error::TrainError,
    settings::{TrainSettings, require},
};
use millstream_data::{Heads, MEDIAN, Plan};
use millstream_model::{Architecture, forecasts};
use tch::{Kind, TchError, Tensor};

pub(super) struct Quantile;

impl MeanLoss for Quantile {
    fn reads(&self, key: &str) -> bool {
        key == "quantiles"
    }

    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let quantiles = &settings.quantiles;
        let inside = quantiles.iter().all(|quantile| 0.0 < *quantile && *quantile < 1.0);
        let rise = quantiles.windows(2).all(|pair| pair[0] < pair[1]);
        let usable = inside && rise && quantiles.contains(&MEDIAN);
        let expected = "numbers between 0 and 1 that rise and have 0.5, the forecast, among them";
        require("train.quantiles", &format!("{quantiles:?}"), usable, expected)
    }

    fn check_stream(&self, _: &Plan, model: &dyn Architecture) -> Result<(), TrainError> {
        let name = model.name();
        let expected =
            format!("another with train.model = \"{name}\", which has no heads for quantiles");
        require("train.loss", &"\"quantile\"", model.has_heads(), &expected)
    }

    fn heads(&self, settings: &TrainSettings) -> Heads {
        Heads::Quantiles(settings.quantiles.clone())
    }

    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        let quantiles = came.heads.quantiles();
        let forecasts = forecasts(came.heads, outputs)?;
        let (forecasts, outcomes) = if quantiles.len() > 1 {
            (forecasts, came.targets.f_unsqueeze(-1)?)
        } else {
            (forecasts.f_unsqueeze(-1)?, came.targets.f_unsqueeze(-1)?)
        };
        // q * error + max(-error, 0), so that no tensor of quantiles has to be on the device.
        let errors = outcomes.f_sub(&forecasts)?;
        let mut loss = errors.f_neg()?.f_relu()?.f_mean(None::<Kind>)?;
        for (head, quantile) in quantiles.iter().enumerate() {
            let mean = errors.f_select(-1, head as i64)?.f_mean(None::<Kind>)?;
            loss = loss.f_add(&mean.f_mul_scalar(quantile / quantiles.len() as f64)?)?;
        }
        Ok(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::*, *};
    use crate::losses::Loss;

    fn settings(quantiles: &[f64]) -> TrainSettings {
        TrainSettings {
            loss: Loss::Quantile,
            quantiles: quantiles.to_vec(),
            ..TrainSettings::default()
        }
    }

    /// The definition, head by head, after the heads were put in order one by one.
    fn formula(quantiles: &[f64], median: usize, outputs: &[f64], outcomes: &[f64]) -> f64 {
        let heads = quantiles.len();
        let mut sum = 0.0;
        for (outputs, outcome) in outputs.chunks_exact(heads).zip(outcomes) {
            let step = |k: usize| (outputs[k + 1] - outputs[k]).exp().ln_1p();
            for (head, q) in quantiles.iter().enumerate() {
                let forecast = if head < median {
                    outputs[median] - (head..median).map(step).sum::<f64>()
                } else {
                    outputs[median] + (median..head).map(step).sum::<f64>()
                };
                let error = outcome - forecast;
                sum += (q * error).max((q - 1.0) * error);
            }
        }
        sum / (heads * outcomes.len()) as f64
    }

    #[test]
    fn loss_and_gradient_are_those_of_the_definition() {
        let outcomes = [0.5f32, -3.0, 0.25, 1.5, 0.0, 8.0];
        let targets = Tensor::from_slice(&outcomes).view([3, 2, 1]);
        let outcomes = outcomes.map(f64::from);
        for quantiles in [&[0.5][..], &[0.1, 0.5, 0.9], &[0.5, 0.75], &[0.05, 0.2, 0.5, 0.6]] {
            let heads = Quantile.heads(&settings(quantiles));
            let count = quantiles.len();
            // No forecast is its outcome, where there is a kink.
            let at = (0..6 * count).map(|i| ((i * 7 % 11) as f64 - 5.0) * 0.37 + 0.013);
            let at: Vec<f64> = at.collect();
            let outputs: Vec<f32> = at.iter().map(|x| *x as f32).collect();
            let outputs = Tensor::from_slice(&outputs).view([3, 2, 1, count as i64]);
            let outputs = if count == 1 { outputs.squeeze_dim(-1) } else { outputs };
            let came = Outcomes { heads: &heads, targets: &targets, times: &[1, 2, 3] };
            let (loss, gradient) = with_gradient(&Quantile, &outputs, &came);
            let formula = |x: &[f64]| formula(quantiles, heads.forecast(), x, &outcomes);
            check_close(&[loss], &[formula(&at)]);
            check_close(&gradient, &differences(formula, &at));
        }
    }

    #[test]
    fn quantiles_that_do_not_rise_or_lack_the_median_are_refused() {
        for bad in [&[][..], &[0.1, 0.9], &[0.5, 0.1], &[0.5, 0.5], &[0.0, 0.5], &[0.5, 1.0]] {
            let error = settings(bad).validate().unwrap_err().to_string();
            let expected = format!(
                "train.quantiles is {bad:?}, but must be numbers between 0 and 1 that rise and \
                 have 0.5, the forecast, among them"
            );
            assert_eq!(error, expected);
        }
        assert!(settings(&[0.5, f64::NAN]).validate().is_err());
        settings(&[0.5]).validate().unwrap();
    }
}
