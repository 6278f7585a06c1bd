//! What normalize tells everyone downstream about the stream of batches: its schema, its scaling
//! and how many batches each phase has.
//!
//! The plan travels behind an `Arc` in every batch, so a consumer needs no side channel and can
//! set itself up from the first batch. It is also what a checkpoint keeps in `schema.json` and
//! `scaler.json`.

use crate::{
    early_end::EarlyEnd,
    panel::{ColumnKind, PanelSchema},
    ridge::Ridge,
    scaling::{ColumnScaling, Scaling},
    time::TimeKind,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Which part of the data a batch is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Learned from.
    Train,
    /// Looked at after every epoch.
    Validation,
    /// Looked at once, at the end.
    Test,
    /// Forecast only; targets may lie in the future and be missing.
    Predict,
}

/// Where a batch stands in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Epochs count from 1; epoch 0 is the look at validation before the first step.
    pub epoch: u32,
    /// Which part of the data.
    pub phase: Phase,
    /// Position within its epoch and phase, from 0.
    pub index: u64,
}

/// What of a target column is forecast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The column itself.
    #[default]
    Value,
    /// Its change since the window's last row, in its own units. Outcomes and forecasts in user units are
    /// levels: what it then is, and what it was last known to be plus the change.
    Difference,
    /// Its change since the window's last row, or `delay` rows later, as a share of the size of
    /// the value there: a rise is above 0, whatever the sign of what rose.
    Return,
    /// Whether that share lies above the dead band (1), below it (-1), or within (0).
    Direction,
}

/// Where windows with fewer rows than `lookback` are filled up with zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// There are none: only whole windows are cut.
    #[default]
    None,
    /// Before their first row.
    Left,
    /// After their last row, up to the longest window of the batch.
    Right,
}

/// A part of the data that a model was trained on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBorders {
    /// The first time in it; `None` for as early as the data goes.
    #[serde(default)]
    pub from: Option<i64>,
    /// The first time after it; `None` for as late as the data goes.
    #[serde(default)]
    pub until: Option<i64>,
    /// Its series, where series were held out; `None` for all.
    #[serde(default)]
    pub series: Option<Vec<String>>,
}

/// The data contract of a model: what `schema.json` keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSchema {
    /// The column that named the series; `None` when the table was one series.
    pub series_column: Option<String>,
    /// The column that held the time.
    pub time_column: String,
    /// How to read the times.
    pub time_kind: TimeKind,
    /// Input columns, in order.
    pub features: Vec<String>,
    /// Target columns, in order.
    pub targets: Vec<String>,
    /// Rows a window shows the model.
    pub lookback: usize,
    /// Steps ahead the model forecasts, t+1 … t+horizon.
    pub horizon: usize,
    /// Where the test part begins, in the units of `time_kind`: the first time a test window
    /// forecasts, so that a later prediction starts where training and validation left off.
    pub test_start: i64,
    /// Where the test part ends, exclusive; `None` when it goes on as far as the data does.
    #[serde(default)]
    pub test_end: Option<i64>,
    /// The series of the test part, where series were held out; `None` for all.
    #[serde(default)]
    pub test_series: Option<Vec<String>>,
    /// Where the targets of training windows lie; files of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_part: Option<PartBorders>,
    /// Where those of validation windows lie; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_part: Option<PartBorders>,
    /// What the columns were in the source, by name; a column that is not here is not known.
    #[serde(default)]
    pub kinds: BTreeMap<String, ColumnKind>,
    /// Fingerprint of the data the model was fitted on.
    pub fingerprint: String,
    /// What of the targets is forecast.
    #[serde(default)]
    pub target_kind: TargetKind,
    /// The dead band of [`TargetKind::Direction`].
    #[serde(default)]
    pub dead_band: f64,
    /// Rows between a window's last one and the one that changes count from: step 1 is the row after
    /// that.
    #[serde(default)]
    pub delay: usize,
    /// Where short windows are filled up.
    #[serde(default)]
    pub padding: Padding,
    /// Rows a window must have at least; `lookback` without padding.
    #[serde(default)]
    pub min_rows: usize,
    /// The column whose small integers travel with the rows of a window, if any.
    #[serde(default)]
    pub segment: Option<String>,
}

impl DataSchema {
    /// Identifies what a model is shown and what it forecasts, but not the data: the columns in
    /// their order and the shape of a window.
    #[must_use]
    pub fn hash(&self) -> String {
        let kind = (self.target_kind, self.dead_band);
        let shape = (self.lookback, self.horizon, kind, self.padding, &self.segment);
        let mut text = format!("{:?}", (&self.features, &self.targets, shape));
        // A model of before there was a delay keeps its hash.
        if self.delay > 0 {
            text += &format!(", delay {}", self.delay);
        }
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}

impl Default for DataSchema {
    fn default() -> Self {
        DataSchema {
            series_column: None,
            time_column: String::new(),
            time_kind: TimeKind::Integer,
            features: Vec::new(),
            targets: Vec::new(),
            lookback: 1,
            horizon: 1,
            test_start: 0,
            test_end: None,
            test_series: None,
            train_part: None,
            validation_part: None,
            kinds: BTreeMap::new(),
            fingerprint: String::new(),
            target_kind: TargetKind::Value,
            dead_band: 0.0,
            delay: 0,
            padding: Padding::None,
            min_rows: 1,
            segment: None,
        }
    }
}

/// How many windows there are, and why some are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCounts {
    /// Windows to learn from, per epoch.
    pub train: u64,
    /// Windows of the validation part.
    pub validation: u64,
    /// Windows of the test part.
    pub test: u64,
    /// Series with too few rows for a single window.
    pub short_series: u64,
    /// Windows left out because a target value is missing.
    pub missing_target: u64,
    /// Windows left out because what their values are taken relative to is missing or zero.
    #[serde(default)]
    pub missing_reference: u64,
    /// Windows left out because an input is missing and `scale.missing` is `drop`.
    #[serde(default)]
    pub missing_input: u64,
    /// Windows left out because their targets lie on both sides of a border.
    pub across_border: u64,
    /// Windows left out because a target lies in the embargo after a border.
    #[serde(default)]
    pub embargoed: u64,
    /// Windows left out because their targets lie before the first part, or past the end of the
    /// last.
    #[serde(default)]
    pub outside: u64,
}

/// What the stream of batches holds. Of a stream made by hand, [`Plan::unscaled`] says it in a line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The data contract.
    pub schema: DataSchema,
    /// The fitted scaling.
    pub scaling: Scaling,
    /// The panel the batches are cut from: names of the series, kind of the times.
    pub panel: Arc<PanelSchema>,
    /// Windows per part.
    pub windows: WindowCounts,
    /// Windows in a full batch.
    pub batch_size: usize,
    /// Epochs of training in the stream.
    pub epochs: u32,
    /// Batches of one pass over each part.
    pub batches: BatchCounts,
    /// Whether every batch holds whole times over all series, and so may be smaller than the rest.
    pub by_time: bool,
    /// What the user should know of the data, a line each.
    pub warnings: Vec<String>,
    /// Windows of the `Predict` phase.
    pub predict: u64,
    /// Of a stream to forecast, the series with too few rows for a single window, by name.
    pub short_series: Vec<String>,
    /// Segments of the data, which are numbered from 0; 0 where there is no segment column.
    pub segments: usize,
    /// A linear forecast that was fitted on the training windows, to be judged beside the model.
    pub ridge: Option<Ridge>,
    pub(crate) early_end: EarlyEnd,
}

/// Batches of one pass over each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Of an epoch.
    pub train: u64,
    /// Of the validation part.
    pub validation: u64,
    /// Of the test part.
    pub test: u64,
    /// Of a prediction.
    pub predict: u64,
}

impl BatchCounts {
    /// Batches of `size` windows, the last of a part with what is left.
    #[must_use]
    pub fn even(windows: &WindowCounts, predict: u64, size: usize) -> Self {
        let batches = |windows: u64| windows.div_ceil(size as u64);
        BatchCounts {
            train: batches(windows.train),
            validation: batches(windows.validation),
            test: batches(windows.test),
            predict: batches(predict),
        }
    }
}

impl Plan {
    /// A stream that holds nothing yet, of full batches with `batch_size` windows.
    #[must_use]
    pub fn new(
        schema: DataSchema,
        scaling: Scaling,
        panel: Arc<PanelSchema>,
        batch_size: usize,
    ) -> Self {
        Plan {
            schema,
            scaling,
            panel,
            windows: WindowCounts::default(),
            batch_size,
            epochs: 0,
            batches: BatchCounts::default(),
            by_time: false,
            warnings: Vec::new(),
            predict: 0,
            short_series: Vec::new(),
            segments: 0,
            ridge: None,
            early_end: EarlyEnd::default(),
        }
    }

    /// The same for batches made by hand: windows of `lookback` rows of one series, which forecast the
    /// next value of the targets, all as they are.
    ///
    /// ```
    /// use millstream_data::{Plan, WindowCounts};
    ///
    /// let windows = WindowCounts { train: 100, test: 20, ..WindowCounts::default() };
    /// let plan = Plan::unscaled(&["open", "close"], &["close"], 12, 32).to_learn_from(windows, 3);
    /// assert_eq!((plan.batches.train, plan.batches.test), (4, 1));
    /// ```
    #[must_use]
    pub fn unscaled(
        features: &[&str],
        targets: &[&str],
        lookback: usize,
        batch_size: usize,
    ) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let as_it_is = |name: &&str| ColumnScaling::affine(*name, 0.0, 1.0, 0.0);
        let schema = DataSchema {
            time_column: "time".into(),
            features: names(features),
            targets: names(targets),
            lookback,
            min_rows: lookback,
            ..DataSchema::default()
        };
        let scaling = Scaling {
            method: "none".into(),
            features: features.iter().map(as_it_is).collect(),
            targets: targets.iter().map(as_it_is).collect(),
            ..Scaling::default()
        };
        let panel = PanelSchema {
            series_column: None,
            time_column: "time".into(),
            time_kind: TimeKind::Integer,
            columns: names(features),
            kinds: Vec::new(),
            inputs: features.len(),
            series: vec![String::new()],
            fingerprint: String::new(),
        };
        Plan::new(schema, scaling, Arc::new(panel), batch_size)
    }

    /// With these windows, the training ones `epochs` times over, in batches that are full but for the
    /// last of each part.
    #[must_use]
    pub fn to_learn_from(mut self, windows: WindowCounts, epochs: u32) -> Self {
        (self.windows, self.epochs) = (windows, epochs);
        self.batches = BatchCounts::even(&windows, 0, self.batch_size);
        self
    }

    /// With so many windows to forecast.
    #[must_use]
    pub fn to_forecast(mut self, windows: u64) -> Self {
        self.predict = windows;
        self.batches = BatchCounts::even(&WindowCounts::default(), windows, self.batch_size);
        self
    }

    /// Batches of one pass over `phase`.
    #[must_use]
    pub fn batches(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Train => self.batches.train,
            Phase::Validation => self.batches.validation,
            Phase::Test => self.batches.test,
            Phase::Predict => self.batches.predict,
        }
    }

    /// Whether the batch with this tag ends its pass.
    #[must_use]
    pub fn is_last(&self, tag: Tag) -> bool {
        tag.index + 1 == self.batches(tag.phase)
    }
}
