//! The `[target]`, `[window]`, `[split]` and `[scale]` settings, as plain serde structs. Fields may be
//! added: who builds one fills it up with `..Default::default()`.

use crate::{error::NormalizeError, scalers::ScaleMethod};
use millstream_data::{CrossSection, Missing, Padding, Reference, Relative, TargetKind};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// What to forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TargetSettings {
    /// One or more columns.
    pub columns: Vec<String>,
    /// What of them; of a difference the level is given back, so it takes no `delay` and no
    /// `cross_section`.
    pub kind: TargetKind,
    /// Of kinds `return` and `direction`: rows between the window's last one and the one that changes
    /// count from.
    pub delay: usize,
    /// Of kind `direction`: changes of at most this share of the value count as none.
    pub dead_band: f64,
    /// What outcomes of all series at one time are made of before they are scaled.
    pub cross_section: CrossSection,
    /// Rows of a season, after which outcomes come again: a naive forecast to be judged beside the model.
    /// 0 for none.
    pub season: usize,
}

/// The shape of the windows, and their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowSettings {
    /// Rows the model sees.
    pub lookback: NonZeroUsize,
    /// Steps forecast: t+1 … t+horizon.
    pub horizon: NonZeroUsize,
    /// Rows between the starts of two windows of a series to learn from. Every window is validated,
    /// tested and forecast.
    pub stride: NonZeroUsize,
    /// What happens where a series has fewer rows than `lookback`.
    pub short: ShortSeries,
    /// Where `short = "pad"` fills up.
    pub pad: PadSide,
    /// Rows that a padded window has at least.
    pub min_rows: NonZeroUsize,
    /// A column of small integers that travels with the rows of a window.
    pub segment: Option<String>,
    /// The order of the training windows.
    pub order: WindowOrder,
    /// Whether an incomplete last batch of an epoch is left out.
    pub drop_last: bool,
}

/// What happens where a series has fewer rows than a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShortSeries {
    /// Only whole windows are cut; series without one are left out and counted.
    Skip,
    /// Windows near the start of a series are filled up with zeros.
    Pad,
}

/// Where a short window is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PadSide {
    /// Before its first row, up to `lookback`.
    Left,
    /// After its last row, up to the longest window of the batch.
    Right,
}

/// The order in which training windows are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WindowOrder {
    /// Shuffled, all of them.
    Global,
    /// Shard after shard in a shuffled order, shuffled within each.
    Shards,
    /// By series, then time.
    None,
    /// Whole times over all series, in a shuffled order of times.
    ByTime,
}

/// How the data is divided. A window belongs to the part in which all its targets lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SplitSettings {
    /// What is divided.
    pub by: SplitBy,
    /// Share of the distinct times (or of the series) that is learned from.
    pub train: f64,
    /// Or the time at which it ends, exclusive.
    pub train_end: Option<String>,
    /// Share that is looked at after every epoch.
    pub validation: f64,
    /// Or the time at which it ends, exclusive.
    pub validation_end: Option<String>,
    /// The time at which the test part ends, exclusive; without it, the rest is tested.
    pub test_end: Option<String>,
    /// Distinct times left out after each border.
    pub embargo: usize,
    /// Folds of a walk forward through time; 0 for a single split.
    pub folds: usize,
    /// Which of them this run uses, from 1.
    pub fold: NonZeroUsize,
    /// What a fold learns from.
    pub walk: Walk,
    /// Of `by = "series"`: chooses which series are held out.
    pub seed: u64,
}

/// What is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SplitBy {
    /// Time, at borders that hold for all series.
    Time,
    /// Series: whole ones are held out.
    Series,
}

/// What a fold of a walk forward learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Walk {
    /// Everything before it.
    Expanding,
    /// As many times before it as the first fold has.
    Rolling,
}

/// How values are scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleSettings {
    /// How the scale of a column is fitted, on training rows only.
    pub method: ScaleMethod,
    /// What has numbers of its own.
    pub per: ScalePer,
    /// What a missing input becomes.
    pub missing: Missing,
    /// Scaled inputs are kept within plus and minus this; 0 switches it off.
    pub clip: f64,
    /// What values of all series at one time are made of first.
    pub cross_section: CrossSection,
    /// What values of a window are taken relative to.
    pub reference: Reference,
    /// How they are.
    pub relative: Relative,
    /// Columns that are treated differently; the first group that names a column counts.
    pub groups: Vec<ScaleGroup>,
}

/// Columns that are treated differently. What a group leaves out is as in `[scale]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleGroup {
    /// Names or globs.
    pub columns: Vec<String>,
    /// See [`ScaleSettings::method`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<ScaleMethod>,
    /// See [`ScaleSettings::per`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<ScalePer>,
    /// See [`ScaleSettings::clip`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// See [`ScaleSettings::cross_section`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_section: Option<CrossSection>,
    /// See [`ScaleSettings::reference`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// See [`ScaleSettings::relative`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
}

/// What has scaling numbers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScalePer {
    /// Every column.
    Feature,
    /// Every column of every series.
    Series,
}

impl Default for TargetSettings {
    fn default() -> Self {
        TargetSettings {
            columns: vec!["close_pct".to_owned()],
            kind: TargetKind::Value,
            delay: 0,
            dead_band: 0.0,
            cross_section: CrossSection::None,
            season: 0,
        }
    }
}

impl Default for WindowSettings {
    fn default() -> Self {
        let rows = |n| NonZeroUsize::new(n).expect("a constant above zero");
        WindowSettings {
            lookback: rows(60),
            horizon: rows(1),
            stride: rows(1),
            short: ShortSeries::Skip,
            pad: PadSide::Left,
            min_rows: rows(1),
            segment: None,
            order: WindowOrder::Global,
            drop_last: false,
        }
    }
}

impl WindowSettings {
    /// Where short windows are filled up.
    #[must_use]
    pub fn padding(&self) -> Padding {
        match (self.short, self.pad) {
            (ShortSeries::Skip, _) => Padding::None,
            (ShortSeries::Pad, PadSide::Left) => Padding::Left,
            (ShortSeries::Pad, PadSide::Right) => Padding::Right,
        }
    }
}

impl Default for SplitSettings {
    fn default() -> Self {
        SplitSettings {
            by: SplitBy::Time,
            train: 0.7,
            train_end: None,
            validation: 0.15,
            validation_end: None,
            test_end: None,
            embargo: 0,
            folds: 0,
            fold: NonZeroUsize::MIN,
            walk: Walk::Expanding,
            seed: 0,
        }
    }
}

impl SplitSettings {
    /// Checks what can be checked without data.
    ///
    /// # Errors
    /// [`NormalizeError::Share`] when a share is out of range, [`NormalizeError::Conflict`] when
    /// two settings exclude each other.
    pub fn validate(&self) -> Result<(), NormalizeError> {
        let SplitSettings { train, validation, .. } = *self;
        if !(train > 0.0 && train <= 1.0) {
            return Err(NormalizeError::Share { key: "train", value: train });
        }
        // A hair above 1 is how 0.7 + 0.2 + 0.1 comes out in binary.
        if !(validation >= 0.0 && train + validation <= 1.0 + 1e-9) {
            return Err(NormalizeError::Share { key: "validation", value: validation });
        }
        let dates = [
            ("train_end", &self.train_end),
            ("validation_end", &self.validation_end),
            ("test_end", &self.test_end),
        ];
        let date = dates.into_iter().find(|(_, date)| date.is_some()).map(|(key, _)| key);
        let conflict = |first: String, second: &'static str, instead: &'static str| {
            Err(NormalizeError::Conflict { first, second, instead })
        };
        match (self.by, self.folds, date) {
            (SplitBy::Series, 1.., _) => conflict(
                format!("split.folds = {}", self.folds),
                "split.by = \"series\"",
                "folds walk through time: set split.by = \"time\"",
            ),
            (SplitBy::Series, _, Some(key)) => conflict(
                format!("split.{key}"),
                "split.by = \"series\"",
                "series are divided by the shares split.train and split.validation",
            ),
            (_, 1.., Some(key)) => conflict(
                format!("split.{key}"),
                "split.folds",
                "folds are cut by the shares split.train and split.validation",
            ),
            (_, folds @ 1.., None) if self.fold.get() > folds => {
                Err(NormalizeError::NoSuchFold { fold: self.fold.get(), folds })
            }
            _ => Ok(()),
        }
    }
}

impl Default for ScaleSettings {
    fn default() -> Self {
        ScaleSettings {
            method: ScaleMethod::Zscore,
            per: ScalePer::Feature,
            missing: Missing::Zero,
            clip: 0.0,
            cross_section: CrossSection::None,
            reference: Reference::None,
            relative: Relative::Difference,
            groups: Vec::new(),
        }
    }
}
