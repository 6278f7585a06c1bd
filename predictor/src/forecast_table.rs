//! The table of forecasts: its columns, and one batch's worth of its rows.
//!
//! Long format, a row per window and step: series, time of the window's last row, step, the time
//! that is forecast, and for each target the forecast, further quantiles and the outcome in user units; a
//! difference is given back as the level it leads to. Where it goes is decided in `output.rs`.

use crate::{contract::Contract, error::PredictError, intervals::Interval};
use arrow::{
    array::{
        ArrayRef, Date32Array, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use millstream_data::{
    BatchMeta, CrossSection, ForecastColumns, Heads, Plan, Scaling, TargetKind, TimeKind,
    level_after,
};
use std::sync::Arc;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The columns of a table of forecasts, and how they are made.
#[derive(Debug)]
pub(crate) struct ForecastTable {
    schema: Arc<Schema>,
    with_series: bool,
    time_kind: TimeKind,
    horizon: usize,
    heads: Heads,
}

/// Where the values of one head of one target stand among those of a batch.
#[derive(Clone, Copy)]
struct HeadColumn {
    target: usize,
    first: usize,
    width: usize,
}

impl ForecastTable {
    /// # Errors
    /// [`PredictError::TwoColumns`] when the names clash.
    pub(crate) fn new(contract: &Contract, levels: &[f64]) -> Result<Self, PredictError> {
        let Contract { schema, scaling, model, .. } = contract;
        let time = match schema.time_kind {
            TimeKind::Date => DataType::Date32,
            TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            TimeKind::Integer => DataType::Int64,
        };
        let columns = ForecastColumns::of(schema, cross_section(scaling), &model.heads)?
            .with_intervals(levels)?;
        let mut fields = Vec::new();
        fields.extend(columns.series.map(|name| Field::new(name, DataType::Utf8, false)));
        fields.push(Field::new(columns.time, time.clone(), false));
        fields.push(Field::new(columns.step, DataType::Int32, false));
        fields.push(Field::new(columns.target_time, time, true));
        for target in columns.targets {
            let ends = target.intervals.into_iter().flat_map(|ends| [ends.lower, ends.upper]);
            let said = std::iter::once(target.forecast).chain(target.quantiles).chain(ends);
            fields.extend(said.map(|name| Field::new(name, DataType::Float32, false)));
            fields.push(Field::new(target.outcome, DataType::Float32, true));
        }
        Ok(ForecastTable {
            with_series: schema.series_column.is_some(),
            time_kind: schema.time_kind,
            horizon: schema.horizon,
            heads: model.heads.clone(),
            schema: Arc::new(Schema::new(fields)),
        })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether rows can be made of such a batch: differences need the levels that they count from.
    pub(crate) fn can_tell(meta: &BatchMeta, plan: &Plan) -> bool {
        let levels = &meta.last_known;
        plan.schema.target_kind != TargetKind::Difference
            || levels.len() == meta.time.len() * plan.scaling.targets.len()
                && levels.iter().all(|level| !level.is_nan())
    }

    /// The rows of one batch, from its forecasts in scaled units, `[rows, horizon, targets, heads]`, and the
    /// intervals around them.
    pub(crate) fn rows(
        &self,
        meta: &BatchMeta,
        plan: &Plan,
        forecasts: &[f32],
        intervals: &[Interval],
    ) -> RecordBatch {
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
            let mut said = self.said(forecasts, target, meta, plan);
            let ends: Vec<[Vec<f32>; 2]> =
                intervals.iter().map(|interval| interval.ends(target, &said)).collect();
            // The forecast comes first, then the other quantiles.
            said[..=self.heads.forecast()].rotate_right(1);
            for values in said.into_iter().chain(ends.into_iter().flatten()) {
                columns.push(Arc::new(Float32Array::from(values)));
            }
            let outcomes = meta.outcomes.iter().copied().skip(target).step_by(targets);
            let known = outcomes.map(|value| (!value.is_nan()).then_some(value));
            let known = known.chain(std::iter::repeat(None)).take(rows);
            columns.push(Arc::new(known.collect::<Float32Array>()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns are made in the order and length of the schema")
    }

    /// What each head says of a target, in user units; quantiles rise.
    pub(crate) fn said(
        &self,
        values: &[f32],
        target: usize,
        meta: &BatchMeta,
        plan: &Plan,
    ) -> Vec<Vec<f32>> {
        let (heads, targets) = (self.heads.count(), plan.scaling.targets.len());
        let width = targets * heads;
        let places =
            (0..heads).map(|head| HeadColumn { target, first: target * heads + head, width });
        if !self.heads.have_units() {
            let as_it_is = |HeadColumn { first, width, .. }| {
                values.iter().copied().skip(first).step_by(width).collect()
            };
            return places.map(as_it_is).collect();
        }
        let in_units = |place| {
            let unscaled = self.unscaled(values, place, meta, plan);
            match plan.schema.target_kind {
                TargetKind::Difference => self.levels(unscaled, target, meta, targets).collect(),
                _ => unscaled.map(|value| value as f32).collect(),
            }
        };
        let mut said: Vec<Vec<f32>> = places.map(in_units).collect();
        let forecast = self.heads.forecast();
        // Between the knots of a curve, rounding may bring two that are close past each other.
        for head in forecast + 1..heads {
            let (below, above) = said.split_at_mut(head);
            above[0].iter_mut().zip(&below[head - 1]).for_each(|(a, b)| *a = a.max(*b));
        }
        for head in (0..forecast).rev() {
            let (below, above) = said.split_at_mut(head + 1);
            below[head].iter_mut().zip(&above[0]).for_each(|(b, a)| *b = b.min(*a));
        }
        said
    }

    /// Values of one head of a target in user units, from the scaled values of all.
    fn unscaled<'a>(
        &'a self,
        values: &'a [f32],
        place: HeadColumn,
        meta: &'a BatchMeta,
        plan: &'a Plan,
    ) -> impl Iterator<Item = f64> + 'a {
        let (scaling, HeadColumn { target, first, width }) = (&plan.scaling, place);
        let fits = meta.series.iter().map(move |code| match scaling.by_series.is_empty() {
            true => &scaling.targets[target].fit,
            false => scaling.target_fit(&plan.panel.series[*code as usize], target),
        });
        let fits = fits.flat_map(|fit| std::iter::repeat_n(fit, self.horizon));
        let values = values.iter().copied().skip(first).step_by(width);
        values.zip(fits).map(|(value, fit)| fit.invert(f64::from(value)))
    }

    /// The levels that these changes of a target lead to, from where it was last known.
    fn levels<'a>(
        &'a self,
        changes: impl Iterator<Item = f64> + 'a,
        target: usize,
        meta: &'a BatchMeta,
        targets: usize,
    ) -> impl Iterator<Item = f32> + 'a {
        let last = meta.last_known.iter().copied().skip(target).step_by(targets);
        let last = last.flat_map(|last| std::iter::repeat_n(last, self.horizon));
        changes.zip(last).map(|(change, last)| level_after(last, change))
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
    use arrow::{array::AsArray, datatypes::Float32Type};
    use millstream_data::{BatchLayout, BatchSlot, DataSchema, Extras};
    use millstream_model::{ModelDescription, Precision};
    use serde_json::Value;

    fn check_refused(series: &str, time: &str, target: &str, expected: &str) {
        let schema = DataSchema {
            series_column: Some(series.into()),
            time_column: time.into(),
            targets: vec![target.into()],
            ..DataSchema::default()
        };
        let (kind, options) = ("lstm".into(), Value::Null);
        let model = ModelDescription { kind, options, heads: Heads::Value };
        let precision = Precision::default();
        let contract = Contract { schema, scaling: Scaling::default(), model, precision };
        let error = ForecastTable::new(&contract, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    /// What is written of windows of one step, of which `levels` are the last known values, where the model
    /// has such heads and says `outputs`.
    fn written(
        heads: Heads,
        change: impl FnOnce(&mut Plan),
        levels: &[f32],
        outputs: &[f32],
    ) -> RecordBatch {
        let mut plan = Plan::unscaled(&["x"], &["y"], 1, 2);
        change(&mut plan);
        let model = ModelDescription { kind: "lstm".into(), options: Value::Null, heads };
        let (schema, scaling) = (plan.schema.clone(), plan.scaling.clone());
        let contract = Contract { schema, scaling, model, precision: Precision::default() };
        let table = ForecastTable::new(&contract, &[]).unwrap();
        let layout = BatchLayout {
            batch_size: 2,
            lookback: 1,
            features: 1,
            horizon: 1,
            targets: 1,
            extras: Extras::NONE,
        };
        let mut meta = BatchSlot::on_heap(layout).meta;
        (meta.series, meta.time) = (vec![0; levels.len()], vec![1; levels.len()]);
        meta.last_known = levels.to_vec();
        table.rows(&meta, &plan, outputs, &[])
    }

    fn check(rows: &RecordBatch, name: &str, expected: &[f32]) {
        assert_eq!(rows[name].as_primitive::<Float32Type>().values(), expected, "{name}");
    }

    /// Quantiles that rise, and some that a curve has brought past each other.
    #[test]
    fn quantiles_stand_beside_the_forecast_and_never_cross() {
        let heads = || Heads::Quantiles(vec![0.1, 0.25, 0.5, 0.9]);
        let outputs = [1.0, 2.0, 3.0, 4.0, 2.5, 9.0, 2.0, 1.0];
        let rows = written(heads(), |_| {}, &[10.0, 20.0], &outputs);
        let schema = rows.schema();
        let names = schema.fields().iter().skip(3).map(|field| field.name().as_str());
        assert!(names.eq(["y_forecast", "y_q0.1", "y_q0.25", "y_q0.9", "y"]));
        check(&rows, "y_forecast", &[3.0, 2.0]);
        check(&rows, "y_q0.25", &[2.0, 2.0]);
        check(&rows, "y_q0.1", &[1.0, 2.0]);
        check(&rows, "y_q0.9", &[4.0, 2.0]);
        let difference = |plan: &mut Plan| plan.schema.target_kind = TargetKind::Difference;
        let rows = written(heads(), difference, &[10.0, 20.0], &outputs);
        check(&rows, "y_forecast", &[13.0, 22.0]);
        check(&rows, "y_q0.9", &[14.0, 22.0]);
    }

    #[test]
    fn scores_are_written_as_they_are() {
        let rows =
            written(Heads::Score, |plan| plan.scaling.targets[0].fit.scale = 8.0, &[7.0], &[0.5]);
        check(&rows, "y_score", &[0.5]);
    }

    #[test]
    fn clashing_names_are_refused() {
        check_refused("symbol", "step", "y", "two columns named \"step\"");
        check_refused("y_forecast", "day", "y", "two columns named \"y_forecast\"");
    }
}
