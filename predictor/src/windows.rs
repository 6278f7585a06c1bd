//! [`Windows`]: what a program has at hand, rows in user units, and the batch that is made of them.
//!
//! Scaling a value by what `scaler.json` says takes one line; what needs other rows than the window's is not
//! done here: values that are compared among all series of a time, or within the window, are prepared by
//! millstream-normalize.

use crate::{contract::Contract, error::PredictError};
use millstream_data::{
    BatchLayout, BatchSlot, ColumnScaling, CrossSection, DeviceBatch, Extras, Fit, Missing,
    Padding, PanelSchema, Phase, Plan, Reference, Tag, TargetKind,
};
use millstream_stage::Pool;
use std::{collections::HashMap, sync::Arc};

/// Windows of one model, in user units.
///
/// ```
/// use millstream_predictor::Windows;
///
/// let mut windows = Windows::default();
/// // Two rows of two columns, the oldest first; NaN is missing.
/// windows.push("AAPL", 20_240_105, &[181.2, 0.4, 181.9, f32::NAN]);
/// assert_eq!(windows.len(), 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Windows {
    series: Vec<String>,
    times: Vec<i64>,
    /// One after the other.
    values: Vec<f32>,
}

impl Windows {
    /// Adds a window: the name of its series, the time of its last row, counted as the model's time column
    /// is ([`TimeKind`](millstream_data::TimeKind)), and its rows from the oldest on, each with the model's
    /// features in their order. What is missing is NaN.
    pub fn push(&mut self, series: impl Into<String>, time: i64, rows: &[f32]) {
        self.series.push(series.into());
        self.times.push(time);
        self.values.extend_from_slice(rows);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

/// How a model's batches are made of windows.
#[derive(Debug)]
pub(crate) struct Batching<'a> {
    contract: &'a Contract,
    windows: &'a Windows,
    layout: BatchLayout,
    plan: Arc<Plan>,
    /// By window.
    codes: Vec<u32>,
    /// Of kind `difference`, which feature each target is.
    levels: Vec<usize>,
}

impl<'a> Batching<'a> {
    /// # Errors
    /// The windows have another size than the model's, or it needs more than they hold.
    pub(crate) fn new(
        contract: &'a Contract,
        windows: &'a Windows,
        batch_size: usize,
    ) -> Result<Self, PredictError> {
        let Contract { schema, scaling, .. } = contract;
        for column in &scaling.features {
            let what = match (&column.cross_section, &column.reference) {
                (CrossSection::Rank | CrossSection::Zscore, _) => "the other series at its time",
                (_, Reference::None) => continue,
                _ => "another row of its window",
            };
            let column = column.name.clone();
            return Err(PredictError::NeedsMore { column, what });
        }
        if let Some(column) = schema.segment.clone() {
            return Err(PredictError::NeedsMore { column, what: "segments, which have no units" });
        }
        let (features, lookback) = (schema.features.len(), schema.lookback);
        let (expected, found) = (windows.len() * lookback * features, windows.values.len());
        if found != expected {
            let windows = windows.len();
            return Err(PredictError::WindowSize { windows, lookback, features, expected, found });
        }
        let (codes, series) = codes(&windows.series);
        let panel = PanelSchema {
            series_column: schema.series_column.clone(),
            time_column: schema.time_column.clone(),
            time_kind: schema.time_kind,
            columns: schema.features.clone(),
            kinds: Vec::new(),
            inputs: features,
            series,
            fingerprint: String::new(),
        };
        let layout = BatchLayout {
            batch_size,
            lookback,
            features: scaling.input_width(),
            horizon: schema.horizon,
            targets: schema.targets.len(),
            extras: Extras { padding: schema.padding != Padding::None, segments: false },
        };
        let plan = Plan::new(schema.clone(), scaling.clone(), Arc::new(panel), batch_size);
        let plan = Arc::new(plan.to_forecast(windows.len() as u64));
        let levels = match schema.target_kind {
            TargetKind::Difference => levels(contract)?,
            _ => Vec::new(),
        };
        Ok(Batching { contract, windows, layout, plan, codes, levels })
    }

    /// How many batches there are.
    pub(crate) fn count(&self) -> usize {
        self.windows.len().div_ceil(self.layout.batch_size)
    }

    /// One of them.
    ///
    /// # Errors
    /// A value is missing that the model cannot do without.
    pub(crate) fn batch(&self, index: usize) -> Result<DeviceBatch, PredictError> {
        let BatchLayout { batch_size, lookback, features, .. } = self.layout;
        let mut slot = Pool::new([BatchSlot::on_heap(self.layout)]).take();
        let (parts, meta) = slot.parts_mut();
        let first = index * batch_size;
        let windows = first..(first + batch_size).min(self.windows.len());
        let rows = lookback * self.contract.schema.features.len();
        for (at, window) in windows.enumerate() {
            let raw = &self.windows.values[window * rows..][..rows];
            let out = &mut parts.inputs[at * lookback * features..][..lookback * features];
            self.scale(window, raw, out)?;
            let last = |feature: &usize| {
                let column = raw.iter().skip(*feature).step_by(self.contract.schema.features.len());
                column.copied().rfind(|value| value.is_finite()).unwrap_or(f32::NAN)
            };
            meta.last_known.extend(self.levels.iter().map(last));
            meta.series.push(self.codes[window]);
            meta.time.push(self.windows.times[window]);
        }
        parts.lengths.fill(lookback as f32);
        parts.mask.fill(1.0);
        meta.tag = Some(Tag { epoch: 0, phase: Phase::Predict, index: index as u64 });
        meta.plan = Some(Arc::clone(&self.plan));
        Ok(DeviceBatch::Host(slot))
    }

    /// Scales the rows of a window.
    fn scale(&self, window: usize, raw: &[f32], out: &mut [f32]) -> Result<(), PredictError> {
        let Contract { schema, scaling, .. } = self.contract;
        let features = schema.features.len();
        let own = scaling.by_series.get(&self.windows.series[window]);
        let mut known = vec![f32::NAN; features];
        for (row, out) in raw.chunks_exact(features).zip(out.chunks_exact_mut(self.layout.features))
        {
            for (at, column) in scaling.features.iter().enumerate() {
                let mut value = row[at];
                if value.is_finite() {
                    known[at] = value;
                } else if scaling.missing == Missing::Ffill {
                    value = known[at];
                }
                let must_be_there = matches!(scaling.missing, Missing::Drop | Missing::Ffill);
                if must_be_there && !value.is_finite() {
                    let (column, series) =
                        (column.name.clone(), self.windows.series[window].clone());
                    return Err(PredictError::MissingValue { column, series });
                }
                let fit = own.map_or(&column.fit, |own| &own.features[at]);
                out[at] = scaled(value, column, fit);
                if scaling.missing == Missing::Mask {
                    out[features + at] = f32::from(u8::from(value.is_finite()));
                }
            }
        }
        Ok(())
    }
}

/// As it stands in a batch that normalize has made; 0 for what is missing.
fn scaled(value: f32, column: &ColumnScaling, fit: &Fit) -> f32 {
    if !value.is_finite() {
        return 0.0;
    }
    let limit = column.clip.map_or(f32::MAX, |clip| clip as f32);
    fit.apply_f32(value).clamp(-limit, limit)
}

/// The distinct names, and by window which of them is its.
fn codes(names: &[String]) -> (Vec<u32>, Vec<String>) {
    let (mut known, mut distinct): (HashMap<&str, u32>, Vec<String>) = Default::default();
    let code = |name| {
        *known.entry(name).or_insert_with(|| {
            distinct.push(name.to_owned());
            distinct.len() as u32 - 1
        })
    };
    let codes = names.iter().map(String::as_str).map(code).collect();
    (codes, distinct)
}

/// Which feature each target is: a difference counts from its level.
fn levels(contract: &Contract) -> Result<Vec<usize>, PredictError> {
    let features = &contract.schema.features;
    let place = |target: &String| {
        let place = features.iter().position(|feature| feature == target);
        place.ok_or_else(|| {
            let what = "its level, which is none of the features";
            PredictError::NeedsMore { column: target.clone(), what }
        })
    };
    contract.schema.targets.iter().map(place).collect()
}
