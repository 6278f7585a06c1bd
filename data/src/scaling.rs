//! The scaling of a data set: what `scaler.json` keeps, and how one value goes there and back.
//!
//! A value passes, in this order: the cross-section of its time, the window's reference, the curve,
//! the offset and scale, the clip. This file defines each step for one value and its inverse;
//! fitting the numbers and applying them to whole panels is normalize's business.

use crate::curve::Curve;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a missing input becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Zero in scaled units: the mean for `zscore`.
    #[default]
    Zero,
    /// The last known value of the series; zero in scaled units before the first.
    Ffill,
    /// Zero, and a second channel per feature says what is there: 1 = present.
    Mask,
    /// Windows that miss an input are left out and counted.
    Drop,
}

/// What a value is compared with, among all series at its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossSection {
    /// Nothing.
    #[default]
    None,
    /// Its rank, from -0.5 to 0.5; equal values share their average rank.
    Rank,
    /// The distance from the mean of its time, in standard deviations of its time.
    Zscore,
}

/// What the values of a window are taken relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reference {
    /// Nothing.
    #[default]
    None,
    /// The column's own value in the window's first row.
    First,
    /// The column's own value in the window's last row.
    Last,
    /// The value of this column in the window's last row.
    Column(String),
}

/// How a value is taken relative to its reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relative {
    /// `value - reference`
    #[default]
    Difference,
    /// `value / reference - 1`
    Ratio,
}

/// The numbers fitted for a column, or for a column of one series:
/// `scaled = (curve(raw) - offset) / scale`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Applied first.
    #[serde(default, skip_serializing_if = "Curve::is_linear")]
    pub curve: Curve,
    /// Subtracted second.
    pub offset: f64,
    /// Divided by last; never zero.
    pub scale: f64,
}

/// The scaling of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnScaling {
    /// Column name.
    pub name: String,
    /// What values of all series at one time are made of first.
    #[serde(default)]
    pub cross_section: CrossSection,
    /// What values of a window are taken relative to, after that.
    #[serde(default)]
    pub reference: Reference,
    /// How they are.
    #[serde(default)]
    pub relative: Relative,
    /// The fitted numbers, for every series that has none of its own.
    #[serde(flatten)]
    pub fit: Fit,
    /// Scaled inputs are kept within plus and minus this; targets never are.
    #[serde(default)]
    pub clip: Option<f64>,
    /// The column's mean over the training rows, in raw units; of an input that is scaled by its
    /// logarithm, the mean of that, taken back.
    pub mean: f64,
}

/// The numbers fitted for one series, in the order of the columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesFits {
    /// One entry per input column.
    pub features: Vec<Fit>,
    /// One entry per target column.
    pub targets: Vec<Fit>,
    /// The mean of each target over the training rows of the series, in raw units.
    #[serde(default)]
    pub target_means: Vec<f64>,
}

/// Every column's scaling: what `scaler.json` keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// How it was fitted, where no group of columns says otherwise.
    pub method: String,
    /// What a missing input becomes.
    #[serde(default)]
    pub missing: Missing,
    /// One entry per input column, in order.
    pub features: Vec<ColumnScaling>,
    /// One entry per target column, in order.
    pub targets: Vec<ColumnScaling>,
    /// What was fitted for single series, by name; a series that is not here, as one that appeared
    /// after training, is scaled as its columns are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_series: BTreeMap<String, SeriesFits>,
    /// [`DataSchema::hash`](crate::DataSchema::hash) of the schema it belongs to.
    #[serde(default)]
    pub schema_hash: String,
}

impl Fit {
    /// Leaves values as they are.
    pub const IDENTITY: Fit = Fit { curve: Curve::Linear, offset: 0.0, scale: 1.0 };

    /// A raw value in scaled units.
    #[must_use]
    pub fn apply(&self, raw: f64) -> f64 {
        (self.curve.apply(raw) - self.offset) / self.scale
    }

    /// A raw value in scaled units, in the arithmetic of a panel: what stands in a batch.
    #[must_use]
    pub fn apply_f32(&self, raw: f32) -> f32 {
        if self.curve.is_linear() {
            (raw - self.offset as f32) * (1.0 / self.scale) as f32
        } else {
            self.apply(f64::from(raw)) as f32
        }
    }

    /// A scaled value in raw units.
    #[must_use]
    pub fn invert(&self, scaled: f64) -> f64 {
        self.curve.invert(scaled * self.scale + self.offset)
    }
}

impl ColumnScaling {
    /// An affine scaling: `(raw - offset) / scale`, `mean` being the mean of the training rows.
    #[must_use]
    pub fn affine(name: impl Into<String>, offset: f64, scale: f64, mean: f64) -> Self {
        ColumnScaling {
            name: name.into(),
            cross_section: CrossSection::None,
            reference: Reference::None,
            relative: Relative::Difference,
            fit: Fit { curve: Curve::Linear, offset, scale },
            clip: None,
            mean,
        }
    }
}

impl Scaling {
    /// Values in a row of a batch: one per input column, or two where a mask goes with it.
    #[must_use]
    pub fn input_width(&self) -> usize {
        self.features.len() * if self.missing == Missing::Mask { 2 } else { 1 }
    }

    /// How target number `target` of this series was scaled.
    #[must_use]
    pub fn target_fit(&self, series: &str, target: usize) -> &Fit {
        let own = self.by_series.get(series).map(|fits| &fits.targets[target]);
        own.unwrap_or(&self.targets[target].fit)
    }

    /// The mean of target number `target` over the training rows: those of this series, if it was
    /// scaled by itself.
    #[must_use]
    pub fn target_mean(&self, series: &str, target: usize) -> f64 {
        let own = self.by_series.get(series).and_then(|fits| fits.target_means.get(target));
        *own.unwrap_or(&self.targets[target].mean)
    }

    /// Whether all targets of all series have one affine scaling per column, so that errors in
    /// scaled and in raw units are proportional.
    #[must_use]
    pub fn has_affine_targets(&self) -> bool {
        self.by_series.is_empty() && self.targets.iter().all(|t| t.fit.curve.is_linear())
    }
}

impl From<String> for Reference {
    fn from(name: String) -> Self {
        match name.as_str() {
            "none" => Reference::None,
            "first" => Reference::First,
            "last" => Reference::Last,
            _ => Reference::Column(name),
        }
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> String {
        match reference {
            Reference::None => "none".to_owned(),
            Reference::First => "first".to_owned(),
            Reference::Last => "last".to_owned(),
            Reference::Column(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_there_and_back() {
        let quantiles = Curve::Quantiles(vec![-4.0, -1.0, 0.5, 0.5, 3.0, 10.0]);
        for curve in [Curve::Linear, Curve::Log1p, quantiles] {
            let fit = Fit { curve, offset: 0.25, scale: 3.0 };
            for raw in [-3.5, -1.0, 0.0, 0.5, 2.0, 9.5] {
                let back = fit.invert(fit.apply(raw));
                assert!((back - raw).abs() < 1e-9, "{fit:?}: {raw} came back as {back}");
            }
        }
    }

    #[test]
    fn a_series_without_a_fit_of_its_own_is_scaled_as_its_column() {
        let own = Fit { curve: Curve::Linear, offset: 7.0, scale: 2.0 };
        let mut scaling = Scaling {
            targets: vec![ColumnScaling::affine("y", 1.0, 4.0, 1.0)],
            ..Scaling::default()
        };
        assert!(scaling.has_affine_targets());
        let fits = SeriesFits {
            features: Vec::new(),
            targets: vec![own.clone()],
            target_means: vec![7.0],
        };
        scaling.by_series.insert("a".into(), fits);
        assert_eq!(scaling.target_fit("a", 0), &own);
        assert_eq!(scaling.target_fit("b", 0).offset, 1.0);
        assert_eq!([scaling.target_mean("a", 0), scaling.target_mean("b", 0)], [7.0, 1.0]);
        assert!(!scaling.has_affine_targets());
    }
}
