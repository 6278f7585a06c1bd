//! The `[target]`, `[window]`, `[split]` and `[scale]` settings, as plain serde structs.

use crate::error::NormalizeError;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// What to forecast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TargetSettings {
    /// One or more columns.
    pub columns: Vec<String>,
    /// What of them.
    pub kind: TargetKind,
}

/// What of a target column is forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The column itself.
    Value,
}

/// The shape of a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowSettings {
    /// Rows the model sees.
    pub lookback: NonZeroUsize,
    /// Steps forecast: t+1 … t+horizon.
    pub horizon: NonZeroUsize,
    /// Rows between the starts of two windows of a series.
    pub stride: NonZeroUsize,
    /// What happens to series with too few rows for a window.
    pub short: ShortSeries,
}

/// What happens to series with too few rows for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortSeries {
    /// They are left out and counted.
    Skip,
}

/// How time is divided. A window belongs to the part in which all its targets lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SplitSettings {
    /// Share of the distinct times that is learned from.
    pub train: f64,
    /// Or the time at which it ends, exclusive.
    pub train_end: Option<String>,
    /// Share of the distinct times that is looked at after every epoch.
    pub validation: f64,
    /// Or the time at which it ends, exclusive.
    pub validation_end: Option<String>,
    /// The time at which the test part ends, exclusive; without it, the rest is tested.
    pub test_end: Option<String>,
    /// Distinct times left out after each border.
    pub embargo: usize,
}

/// How values are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleSettings {
    /// How the scale of a column is fitted, on training rows only.
    pub method: ScaleMethod,
    /// What a missing input becomes, after scaling.
    pub missing: Missing,
}

/// How the scale of a column is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleMethod {
    /// Mean 0, standard deviation 1.
    Zscore,
    /// Minimum 0, maximum 1.
    Minmax,
    /// Values as they are.
    None,
}

/// What a missing input becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Zero in scaled units: the mean for `zscore`.
    Zero,
}

impl Default for TargetSettings {
    fn default() -> Self {
        TargetSettings { columns: vec!["close_pct".to_owned()], kind: TargetKind::Value }
    }
}

impl Default for WindowSettings {
    fn default() -> Self {
        let rows = |n| NonZeroUsize::new(n).expect("a constant above zero");
        let (lookback, horizon, stride) = (rows(60), rows(1), rows(1));
        WindowSettings { lookback, horizon, stride, short: ShortSeries::Skip }
    }
}

impl Default for SplitSettings {
    fn default() -> Self {
        SplitSettings {
            train: 0.7,
            train_end: None,
            validation: 0.15,
            validation_end: None,
            test_end: None,
            embargo: 0,
        }
    }
}

impl SplitSettings {
    /// Checks what can be checked without data.
    ///
    /// # Errors
    /// [`NormalizeError::Share`] when a share is out of range.
    pub fn validate(&self) -> Result<(), NormalizeError> {
        let SplitSettings { train, validation, .. } = *self;
        if !(train > 0.0 && train <= 1.0) {
            return Err(NormalizeError::Share { key: "train", value: train });
        }
        // A hair above 1 is how 0.7 + 0.2 + 0.1 comes out in binary.
        if !(validation >= 0.0 && train + validation <= 1.0 + 1e-9) {
            return Err(NormalizeError::Share { key: "validation", value: validation });
        }
        Ok(())
    }
}

impl Default for ScaleSettings {
    fn default() -> Self {
        ScaleSettings { method: ScaleMethod::Zscore, missing: Missing::Zero }
    }
}

impl std::fmt::Display for ScaleMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ScaleMethod::Zscore => "zscore",
            ScaleMethod::Minmax => "minmax",
            ScaleMethod::None => "none",
        })
    }
}
