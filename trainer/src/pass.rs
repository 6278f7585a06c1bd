//! One pass over validation or test windows: forecasts and outcomes are kept on the device, in
//! memory of the pass's size made once, and read once at its end.
//!
//! Correlations across series need every number of a time together, and windows of one time lie in
//! many batches; so all are kept, 8 bytes for each window, step and target. The figures are worked
//! out on the host, in `judge.rs`. What came in user units does not go to the device at all.

use crate::{
    judge::{Forecaster, Kept, judge},
    losses::Loss,
    metrics::Figures,
    readback::Readback,
    report::Baseline,
};
use millstream_data::Plan;
use millstream_model::BatchTensors;
use std::sync::Arc;
use tch::{Device, Kind, TchError, Tensor};

/// What one pass found.
#[derive(Debug, Clone)]
pub(crate) struct PassResult {
    /// Mean of the configured loss; `None` when it is no number.
    pub(crate) loss: Option<f64>,
    /// The model's figures.
    pub(crate) model: Figures,
    /// The figures of the naive forecasts, where they were asked for.
    pub(crate) baseline: Baseline,
}

/// A pass that is under way.
#[derive(Debug)]
pub(crate) struct Pass {
    plan: Arc<Plan>,
    /// Sum of the loss over windows.
    loss: Tensor,
    /// `[horizon * targets, windows]`, scaled, as are the next two.
    forecasts: Tensor,
    /// `[horizon * targets, windows]`
    outcomes: Tensor,
    /// `[targets, windows]`
    last: Tensor,
    series: Vec<u32>,
    times: Vec<i64>,
    raw: RawOutcomes,
}

/// What came, in user units, as the batches say it beside their scaled values.
#[derive(Debug, Default)]
pub(crate) struct RawOutcomes {
    /// `[windows, horizon * targets]`
    pub(crate) outcomes: Vec<f32>,
    /// `[windows, targets]`
    pub(crate) last: Vec<f32>,
}

impl Pass {
    /// A pass over at most `windows` windows.
    ///
    /// # Errors
    /// When libtorch has no memory for them.
    pub(crate) fn new(plan: &Arc<Plan>, windows: u64, device: Device) -> Result<Self, TchError> {
        let targets = plan.schema.targets.len();
        let room = |columns: usize| {
            Tensor::f_empty([columns as i64, windows as i64], (Kind::Float, device))
        };
        Ok(Pass {
            loss: Tensor::f_zeros([1], (Kind::Double, device))?,
            forecasts: room(plan.schema.horizon * targets)?,
            outcomes: room(plan.schema.horizon * targets)?,
            last: room(targets)?,
            series: Vec::with_capacity(windows as usize),
            times: Vec::with_capacity(windows as usize),
            raw: RawOutcomes {
                outcomes: Vec::with_capacity(windows as usize * plan.schema.horizon * targets),
                last: Vec::with_capacity(windows as usize * targets),
            },
            plan: Arc::clone(plan),
        })
    }

    /// Adds a batch. Reads nothing.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn add(
        &mut self,
        batch: &BatchTensors,
        forecast: &Tensor,
        loss: Loss,
    ) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        let rows = batch.targets.size()[0];
        let sum = loss.listed().mean(forecast, &batch.targets)?.f_to_kind(Kind::Double)?;
        let _ = self.loss.f_add_(&sum.f_mul_scalar(rows as f64)?)?;
        let at = self.times.len() as i64;
        let keep = |values: &Tensor, kept: &Tensor| {
            let values = values.f_reshape([rows, -1])?.f_transpose(0, 1)?;
            kept.f_narrow(1, at, rows)?.f_copy_(&values)
        };
        keep(forecast, &self.forecasts)?;
        keep(&batch.targets, &self.outcomes)?;
        keep(&batch.last_known, &self.last)?;
        let meta = batch.batch().meta();
        self.series.extend_from_slice(&meta.series);
        self.times.extend_from_slice(&meta.time);
        self.raw.outcomes.extend_from_slice(&meta.outcomes);
        self.raw.last.extend_from_slice(&meta.last_known);
        Ok(())
    }

    /// Reads what was kept, once, judges it, and starts over. The naive forecasts are judged on the
    /// same windows, if they are asked for.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn finish(
        &mut self,
        readback: &mut Readback,
        baselines: bool,
    ) -> Result<PassResult, TchError> {
        let _guard = tch::no_grad_guard();
        let windows = self.times.len();
        let seen = |kept: &Tensor| kept.f_narrow(1, 0, windows as i64);
        let host = readback.tensors(&[
            self.loss.shallow_clone(),
            seen(&self.forecasts)?,
            seen(&self.outcomes)?,
            seen(&self.last)?,
        ])?;
        let [loss, forecasts, outcomes, last] = &host[..] else {
            unreachable!("as many tensors as were read")
        };
        let kept = Kept {
            forecasts,
            outcomes,
            last,
            raw: &self.raw,
            series: &self.series,
            times: &self.times,
        };
        let all = [Forecaster::Model, Forecaster::Mean, Forecaster::Last];
        let forecasters = if baselines { &all[..] } else { &all[..1] };
        let mut figures = judge(&self.plan, &kept, forecasters).into_iter();
        let loss = loss.f_double_value(&[0])? / windows as f64;
        let result = PassResult {
            loss: loss.is_finite().then_some(loss),
            model: figures.next().expect("the model is the first"),
            baseline: Baseline { mean: figures.next(), last: figures.next() },
        };
        self.series.clear();
        self.times.clear();
        self.raw.outcomes.clear();
        self.raw.last.clear();
        let _ = self.loss.f_zero_()?;
        Ok(result)
    }
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
