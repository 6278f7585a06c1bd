//! The table of forecasts: its columns, and one batch's worth of its rows.
//!
//! Long format, a row per window and step: series, time of the window's last row, step, and for
//! each target the forecast and the outcome in user units. What file it goes into is decided in
//! `output.rs`.

use crate::error::PredictError;
use arrow::{
    array::{
        ArrayRef, Date32Array, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use millstream_stage::{BatchMeta, DataSchema, Plan, TimeKind};
use std::{collections::HashSet, sync::Arc};

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The columns of a table of forecasts.
#[derive(Debug)]
pub(crate) struct Table {
    schema: Arc<Schema>,
    with_series: bool,
    time_kind: TimeKind,
    horizon: usize,
}

/// The values of a batch in scaled units: `[rows, horizon, targets]` each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) forecasts: &'a [f32],
    pub(crate) outcomes: &'a [f32],
}

impl Table {
    /// # Errors
    /// [`PredictError::TwoColumns`] when the names clash.
    pub(crate) fn new(data: &DataSchema) -> Result<Self, PredictError> {
        let time = match data.time_kind {
            TimeKind::Date => DataType::Date32,
            TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            TimeKind::Integer => DataType::Int64,
        };
        let mut fields = Vec::new();
        if let Some(name) = &data.series_column {
            fields.push(Field::new(name, DataType::Utf8, false));
        }
        fields.push(Field::new(&data.time_column, time, false));
        fields.push(Field::new("step", DataType::Int32, false));
        for target in &data.targets {
            fields.push(Field::new(format!("{target}_forecast"), DataType::Float32, false));
            fields.push(Field::new(target, DataType::Float32, true));
        }
        let mut seen = HashSet::new();
        if let Some(field) = fields.iter().find(|field| !seen.insert(field.name().as_str())) {
            return Err(PredictError::TwoColumns { name: field.name().clone() });
        }
        Ok(Table {
            with_series: data.series_column.is_some(),
            time_kind: data.time_kind,
            horizon: data.horizon,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The rows of one batch.
    pub(crate) fn rows(&self, meta: &BatchMeta, plan: &Plan, values: Values<'_>) -> RecordBatch {
        let windows = meta.time.len();
        let per_step = |window: usize| std::iter::repeat_n(window, self.horizon);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if self.with_series {
            let names = meta.series.iter().map(|code| plan.panel.series[*code as usize].as_str());
            let names = names.flat_map(|name| std::iter::repeat_n(name, self.horizon));
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        columns.push(self.times((0..windows).flat_map(per_step).map(|window| meta.time[window])));
        let steps = (0..windows).flat_map(|_| 1..=self.horizon as i32);
        columns.push(Arc::new(Int32Array::from_iter_values(steps)));
        for target in 0..plan.scaling.targets.len() {
            let raw = |values| self.unscaled(values, target, meta, plan);
            columns.push(Arc::new(Float32Array::from(raw(values.forecasts))));
            let known = raw(values.outcomes).into_iter().map(|v| (!v.is_nan()).then_some(v));
            columns.push(Arc::new(known.collect::<Float32Array>()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns are made in the order and length of the schema")
    }

    /// A target's values in user units, from the scaled values of all targets.
    fn unscaled(&self, values: &[f32], target: usize, meta: &BatchMeta, plan: &Plan) -> Vec<f32> {
        let scaling = &plan.scaling;
        let values = values.iter().skip(target).step_by(scaling.targets.len());
        let values = values.map(|value| f64::from(*value));
        if scaling.has_affine_targets() {
            let fit = &scaling.targets[target].fit;
            return values.map(|value| (value * fit.scale + fit.offset) as f32).collect();
        }
        let series = meta.series.iter().map(|code| plan.panel.series[*code as usize].as_str());
        let fits = series.map(|name| scaling.target_fit(name, target));
        let fits = fits.flat_map(|fit| std::iter::repeat_n(fit, self.horizon));
        values.zip(fits).map(|(value, fit)| fit.invert(value) as f32).collect()
    }

    fn times(&self, times: impl Iterator<Item = i64>) -> ArrayRef {
        match self.time_kind {
            TimeKind::Date => Arc::new(Date32Array::from_iter_values(
                // Every date that a table can hold fits 32 bits of days.
                times.map(|time| time.div_euclid(MICROSECONDS_PER_DAY) as i32),
            )),
            TimeKind::Timestamp => Arc::new(TimestampMicrosecondArray::from_iter_values(times)),
            TimeKind::Integer => Arc::new(Int64Array::from_iter_values(times)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(series: &str, time: &str, target: &str, expected: &str) {
        let data = DataSchema {
            series_column: Some(series.into()),
            time_column: time.into(),
            targets: vec![target.into()],
            ..DataSchema::default()
        };
        let error = Table::new(&data).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn clashing_names_are_refused() {
        check_refused("symbol", "step", "y", "two columns named \"step\"");
        check_refused("y_forecast", "day", "y", "two columns named \"y_forecast\"");
    }
}
