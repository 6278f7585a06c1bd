//! The table of forecasts: its columns, and one batch's worth of its rows.
//!
//! Long format, a row per window and step: series, time of the window's last row, step, the time
//! that is forecast, and for each target the forecast and the outcome in user units. What file it
//! goes into is decided in `output.rs`.

use crate::{contract::Contract, error::PredictError};
use arrow::{
    array::{
        ArrayRef, Date32Array, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use millstream_stage::{
    BatchMeta, CrossSection, Fit, ForecastColumns, Plan, Scaling, TargetKind, TimeKind,
};
use std::sync::Arc;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The columns of a table of forecasts.
#[derive(Debug)]
pub(crate) struct Table {
    schema: Arc<Schema>,
    with_series: bool,
    time_kind: TimeKind,
    horizon: usize,
    kind: TargetKind,
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
    pub(crate) fn new(contract: &Contract) -> Result<Self, PredictError> {
        let Contract { schema, scaling } = contract;
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
            kind: schema.target_kind,
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
        let made = (0..windows).flat_map(per_step).map(|window| Some(meta.time[window]));
        columns.push(self.times(made));
        let steps = (0..windows).flat_map(|_| 1..=self.horizon as i32);
        columns.push(Arc::new(Int32Array::from_iter_values(steps)));
        // A stream that was not made to be forecast does not know the times.
        let targets = meta.target_time.iter().copied().chain(std::iter::repeat(None));
        columns.push(self.times(targets.take(windows * self.horizon)));
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
        let values = values.iter().copied().skip(target).step_by(scaling.targets.len());
        if scaling.by_series.is_empty() {
            let unscale = Unscale::new(&scaling.targets[target].fit, self.kind);
            return values.map(|value| unscale.raw(value)).collect();
        }
        let series = meta.series.iter().map(|code| plan.panel.series[*code as usize].as_str());
        let units = series.map(|name| Unscale::new(scaling.target_fit(name, target), self.kind));
        let units = units.flat_map(|unscale| std::iter::repeat_n(unscale, self.horizon));
        values.zip(units).map(|(value, unscale)| unscale.raw(value)).collect()
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

/// The way back to user units. Scaled values are rounded, so "no change" would come back as a tiny
/// one; what stands in a batch for exact numbers that mean something comes back as those.
#[derive(Clone)]
struct Unscale<'a> {
    fit: &'a Fit,
    /// Scaled and raw.
    exact: [(f32, f32); 3],
}

impl<'a> Unscale<'a> {
    fn new(fit: &'a Fit, kind: TargetKind) -> Self {
        let numbers = match kind {
            TargetKind::Direction => [0.0, 1.0, -1.0],
            TargetKind::Value | TargetKind::Return => [0.0; 3],
        };
        Unscale { fit, exact: numbers.map(|raw| (fit.apply_f32(raw), raw)) }
    }

    fn raw(&self, scaled: f32) -> f32 {
        match self.exact.iter().find(|(value, _)| *value == scaled) {
            Some((_, raw)) => *raw,
            None => self.fit.invert(f64::from(scaled)) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_stage::{Curve, DataSchema};

    fn check_refused(series: &str, time: &str, target: &str, expected: &str) {
        let schema = DataSchema {
            series_column: Some(series.into()),
            time_column: time.into(),
            targets: vec![target.into()],
            ..DataSchema::default()
        };
        let error =
            Table::new(&Contract { schema, scaling: Scaling::default() }).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn clashing_names_are_refused() {
        check_refused("symbol", "step", "y", "two columns named \"step\"");
        check_refused("y_forecast", "day", "y", "two columns named \"y_forecast\"");
    }

    #[test]
    fn what_is_exactly_zero_is_written_as_zero() {
        let fit = Fit { curve: Curve::Linear, offset: 0.000_731, scale: 0.021_37 };
        let returns = Unscale::new(&fit, TargetKind::Return);
        assert_eq!(returns.raw(fit.apply_f32(0.0)), 0.0);
        // Without the exception it would be a tiny change.
        assert_ne!(fit.invert(f64::from(fit.apply_f32(0.0))) as f32, 0.0);
        let directions = Unscale::new(&fit, TargetKind::Direction);
        for raw in [-1.0, 0.0, 1.0] {
            assert_eq!(directions.raw(fit.apply_f32(raw)), raw);
        }
    }
}
