//! The table of forecasts: its columns, and one batch's worth of its rows.
//!
//! Long format, a row per window and step: series, time of the window's last row, step, the time
//! that is forecast, and for each target the forecast and the outcome in user units. Where it
//! goes is decided in `output.rs`.

use crate::{contract::Contract, error::PredictError};
use arrow::{
    array::{
        ArrayRef, Date32Array, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use millstream_data::{BatchMeta, CrossSection, Fit, ForecastColumns, Plan, Scaling, TimeKind};
use std::sync::Arc;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The columns of a table of forecasts.
#[derive(Debug)]
pub(crate) struct Table {
    schema: Arc<Schema>,
    with_series: bool,
    time_kind: TimeKind,
    horizon: usize,
}

impl Table {
    /// # Errors
    /// [`PredictError::TwoColumns`] when the names clash.
    pub(crate) fn new(contract: &Contract) -> Result<Self, PredictError> {
        let Contract { schema, scaling, .. } = contract;
        let time = match schema.time_kind {
            TimeKind::Date => DataType::Date32,
            TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            TimeKind::Integer => DataType::Int64,
        };
        let columns = ForecastColumns::of(schema, cross_section(scaling))?;
        let mut fields = Vec::new();
        fields.extend(columns.series.map(|name| Field::new(name, DataType::Utf8, false)));
        fields.push(Field::new(columns.time, time.clone(), false));
        fields.push(Field::new(columns.step, DataType::Int32, false));
        fields.push(Field::new(columns.target_time, time, true));
        for target in columns.targets {
            fields.push(Field::new(target.forecast, DataType::Float32, false));
            fields.push(Field::new(target.outcome, DataType::Float32, true));
        }
        Ok(Table {
            with_series: schema.series_column.is_some(),
            time_kind: schema.time_kind,
            horizon: schema.horizon,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The rows of one batch, from its forecasts in scaled units, `[rows, horizon, targets]`.
    pub(crate) fn rows(&self, meta: &BatchMeta, plan: &Plan, forecasts: &[f32]) -> RecordBatch {
        let windows = meta.time.len();
        let per_step = |window: usize| std::iter::repeat_n(window, self.horizon);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if self.with_series {
            let names = meta.series.iter().map(|code| plan.panel.series[*code as usize].as_str());
            let names = names.flat_map(|name| std::iter::repeat_n(name, self.horizon));
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        let made = (0..windows).flat_map(per_step).map(|window| Some(meta.time[window]));
        columns.push(self.times(made));
        let steps = (0..windows).flat_map(|_| 1..=self.horizon as i32);
        columns.push(Arc::new(Int32Array::from_iter_values(steps)));
        // A stream that was not made to be forecast knows neither the times nor what came.
        let targets = meta.target_time.iter().copied().chain(std::iter::repeat(None));
        columns.push(self.times(targets.take(windows * self.horizon)));
        let (targets, rows) = (plan.scaling.targets.len(), windows * self.horizon);
        for target in 0..targets {
            let unscaled = self.unscaled(forecasts, target, meta, plan);
            columns.push(Arc::new(Float32Array::from(unscaled)));
            let outcomes = meta.outcomes.iter().copied().skip(target).step_by(targets);
            let known = outcomes.map(|value| (!value.is_nan()).then_some(value));
            let known = known.chain(std::iter::repeat(None)).take(rows);
            columns.push(Arc::new(known.collect::<Float32Array>()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns are made in the order and length of the schema")
    }

    /// A target's values in user units, from the scaled values of all targets.
    fn unscaled(&self, values: &[f32], target: usize, meta: &BatchMeta, plan: &Plan) -> Vec<f32> {
        let scaling = &plan.scaling;
        let values = values.iter().copied().skip(target).step_by(scaling.targets.len());
        let raw = |value: f32, fit: &Fit| fit.invert(f64::from(value)) as f32;
        if scaling.by_series.is_empty() {
            let fit = &scaling.targets[target].fit;
            return values.map(|value| raw(value, fit)).collect();
        }
        let series = meta.series.iter().map(|code| plan.panel.series[*code as usize].as_str());
        let fits = series.map(|name| scaling.target_fit(name, target));
        let fits = fits.flat_map(|fit| std::iter::repeat_n(fit, self.horizon));
        values.zip(fits).map(|(value, fit)| raw(value, fit)).collect()
    }

    fn times(&self, times: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match self.time_kind {
            TimeKind::Date => Arc::new(
                // Every date that a table can hold fits 32 bits of days.
                times
                    .map(|time| time.map(|time| time.div_euclid(MICROSECONDS_PER_DAY) as i32))
                    .collect::<Date32Array>(),
            ),
            TimeKind::Timestamp => Arc::new(times.collect::<TimestampMicrosecondArray>()),
            TimeKind::Integer => Arc::new(times.collect::<Int64Array>()),
        }
    }
}

fn cross_section(scaling: &Scaling) -> CrossSection {
    scaling.targets.first().map(|target| target.cross_section).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::DataSchema;
    use millstream_model::{ModelDescription, Precision};
    use serde_json::Value;

    fn check_refused(series: &str, time: &str, target: &str, expected: &str) {
        let schema = DataSchema {
            series_column: Some(series.into()),
            time_column: time.into(),
            targets: vec![target.into()],
            ..DataSchema::default()
        };
        let model = ModelDescription { kind: "lstm".into(), options: Value::Null };
        let precision = Precision::default();
        let contract = Contract { schema, scaling: Scaling::default(), model, precision };
        let error = Table::new(&contract).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn clashing_names_are_refused() {
        check_refused("symbol", "step", "y", "two columns named \"step\"");
        check_refused("y_forecast", "day", "y", "two columns named \"y_forecast\"");
    }
}
