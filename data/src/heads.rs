//! [`Heads`]: what the outputs of a model stand for. A loss asks for them, a checkpoint keeps them, and
//! a table of forecasts is named after them.

use serde::{Deserialize, Serialize};

/// What the outputs of a model stand for, of every step and target.
///
/// How outputs become a forecast is said in tensors by the model crate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Heads {
    /// The forecast, in scaled units.
    #[default]
    Value,
    /// A head for each of these quantiles, which rise and have the median, 0.5, among them: that is the
    /// forecast.
    Quantiles(Vec<f64>),
    /// The log-odds of "up"; the forecast is twice its probability less 1, from -1 to 1.
    Logit,
    /// A number by which series are ordered at a time. It has no unit: only differences between series
    /// mean something, and of those only which are larger.
    Score,
}

impl Heads {
    /// Outputs of one step of one target.
    #[must_use]
    pub fn count(&self) -> usize {
        self.quantiles().len().max(1)
    }

    /// The quantiles, where there is a head for each; else none.
    #[must_use]
    pub fn quantiles(&self) -> &[f64] {
        match self {
            Heads::Quantiles(quantiles) => quantiles,
            Heads::Value | Heads::Logit | Heads::Score => &[],
        }
    }

    /// Which of the heads is the forecast that is held against an outcome.
    #[must_use]
    pub fn forecast(&self) -> usize {
        self.quantiles().iter().position(|quantile| *quantile == MEDIAN).unwrap_or(0)
    }

    /// Whether they are as they were before there was anything to say of them.
    #[must_use]
    pub fn are_values(&self) -> bool {
        *self == Heads::Value
    }

    /// Whether a forecast has the units of its outcome.
    #[must_use]
    pub fn have_units(&self) -> bool {
        *self != Heads::Score
    }
}

/// The quantile that is the forecast.
pub const MEDIAN: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forecast_is_the_median_where_there_are_quantiles() {
        let check = |heads: Heads, count, forecast, json: &str| {
            assert_eq!((heads.count(), heads.forecast()), (count, forecast), "{heads:?}");
            assert_eq!(serde_json::to_string(&heads).unwrap(), json);
            assert_eq!(serde_json::from_str::<Heads>(json).unwrap(), heads);
        };
        check(Heads::Value, 1, 0, r#""value""#);
        check(Heads::Quantiles(vec![0.1, 0.5, 0.9]), 3, 1, r#"{"quantiles":[0.1,0.5,0.9]}"#);
        check(Heads::Quantiles(vec![0.5, 0.75]), 2, 0, r#"{"quantiles":[0.5,0.75]}"#);
        check(Heads::Logit, 1, 0, r#""logit""#);
        check(Heads::Score, 1, 0, r#""score""#);
    }
}
