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
    ridge::RidgeForecasts,
    settings::TrainSettings,
};
use millstream_data::{Heads, Plan};
use millstream_model::{BatchTensors, Evaluated};
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
    loss: Loss,
    heads: Heads,
    /// Sum of the loss over windows.
    loss_sum: Tensor,
    /// `[horizon * targets * heads, windows]`, scaled, as are the next two.
    forecasts: Tensor,
    /// `[horizon * targets, windows]`
    outcomes: Tensor,
    /// `[targets, windows]`
    last: Tensor,
    /// Where this pass is held against naive forecasts.
    ridge: Option<RidgeForecasts>,
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
    /// As the outcomes, of a season before; of no window where there are no seasons.
    pub(crate) season: Vec<f32>,
}

impl Pass {
    /// A pass over at most `windows` windows of a model that learns by these settings.
    ///
    /// # Errors
    /// When libtorch has no memory for them.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        windows: u64,
        device: Device,
        settings: &TrainSettings,
    ) -> Result<Self, TchError> {
        let heads = settings.heads();
        let targets = plan.schema.targets.len();
        let room = |columns: usize| {
            Tensor::f_empty([columns as i64, windows as i64], (Kind::Float, device))
        };
        Ok(Pass {
            loss: settings.loss,
            loss_sum: Tensor::f_zeros([1], (Kind::Double, device))?,
            forecasts: room(plan.schema.horizon * targets * heads.count())?,
            outcomes: room(plan.schema.horizon * targets)?,
            last: room(targets)?,
            series: Vec::with_capacity(windows as usize),
            times: Vec::with_capacity(windows as usize),
            raw: RawOutcomes {
                outcomes: Vec::with_capacity(windows as usize * plan.schema.horizon * targets),
                last: Vec::with_capacity(windows as usize * targets),
                season: Vec::new(),
            },
            ridge: None,
            plan: Arc::clone(plan),
            heads,
        })
    }

    /// Has naive forecasts judged too that are made batch by batch. To be called before the first batch.
    ///
    /// # Errors
    /// When libtorch has no memory for them.
    pub(crate) fn with_baselines(&mut self) -> Result<(), TchError> {
        let (windows, device) = (self.forecasts.size()[1], self.forecasts.device());
        self.ridge = RidgeForecasts::new(&self.plan, windows, device)?;
        Ok(())
    }

    /// Adds a batch, of which the model has made this. Reads nothing.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn add(
        &mut self,
        batch: &BatchTensors,
        Evaluated { outputs, forecasts, .. }: &Evaluated,
    ) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        let rows = batch.targets.size()[0];
        let sum = self.loss.of_batch(&self.heads, outputs, batch)?.f_to_kind(Kind::Double)?;
        let _ = self.loss_sum.f_add_(&sum.f_mul_scalar(rows as f64)?)?;
        let at = self.times.len() as i64;
        let keep = |values: &Tensor, kept: &Tensor| {
            let values = values.f_reshape([rows, -1])?.f_transpose(0, 1)?;
            kept.f_narrow(1, at, rows)?.f_copy_(&values)
        };
        keep(forecasts, &self.forecasts)?;
        keep(&batch.targets, &self.outcomes)?;
        keep(&batch.last_known, &self.last)?;
        if let Some(ridge) = &self.ridge {
            keep(&ridge.of(&batch.inputs)?, &ridge.kept)?;
        }
        let meta = batch.batch().meta();
        self.series.extend_from_slice(&meta.series);
        self.times.extend_from_slice(&meta.time);
        self.raw.outcomes.extend_from_slice(&meta.outcomes);
        self.raw.last.extend_from_slice(&meta.last_known);
        self.raw.season.extend_from_slice(&meta.season);
        Ok(())
    }

    /// Reads what was kept, once, judges it, and starts over. The naive forecasts are judged on the
    /// same windows, if they are asked for: the seasonal one where batches have said it, the linear one
    /// where it was [made](Self::with_baselines).
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
        let mut on_device = vec![
            self.loss_sum.shallow_clone(),
            seen(&self.forecasts)?,
            seen(&self.outcomes)?,
            seen(&self.last)?,
        ];
        on_device.extend(self.ridge.as_ref().map(|ridge| seen(&ridge.kept)).transpose()?);
        let host = readback.tensors(&on_device)?;
        let [loss, forecasts, outcomes, last, ridge @ ..] = &host[..] else {
            unreachable!("as many tensors as were read")
        };
        let ridge = ridge.first();
        let kept = Kept {
            forecasts,
            heads: &self.heads,
            ridge,
            outcomes,
            last,
            raw: &self.raw,
            series: &self.series,
            times: &self.times,
        };
        let mut forecasters = vec![Forecaster::Model];
        if baselines {
            forecasters.extend([Forecaster::Mean, Forecaster::Last]);
            let labels = self.plan.schema.horizon * self.plan.schema.targets.len();
            let have_seasons = windows > 0 && self.raw.season.len() == windows * labels;
            forecasters.extend(have_seasons.then_some(Forecaster::Season));
            forecasters.extend(ridge.map(|_| Forecaster::Ridge));
        }
        let mut figures = judge(&self.plan, &kept, &forecasters).into_iter();
        let mean = loss.f_double_value(&[0])? / windows as f64;
        let model = figures.next().expect("the model is the first");
        // What is no number is no loss, whatever the figures say that leave it out.
        let of_pass = self.loss.listed().of_pass(&model.overall).filter(|_| mean.is_finite());
        let loss = of_pass.unwrap_or(mean);
        let result = PassResult {
            loss: loss.is_finite().then_some(loss),
            model,
            baseline: baseline(&forecasters[1..], figures),
        };
        self.ridge = None;
        self.raw.season.clear();
        self.series.clear();
        self.times.clear();
        self.raw.outcomes.clear();
        self.raw.last.clear();
        let _ = self.loss_sum.f_zero_()?;
        Ok(result)
    }
}

/// The figures of naive forecasters, each in its place.
fn baseline(forecasters: &[Forecaster], figures: impl Iterator<Item = Figures>) -> Baseline {
    let mut baseline = Baseline::default();
    for (forecaster, figures) in forecasters.iter().zip(figures) {
        let place = match forecaster {
            Forecaster::Model => unreachable!("the model is no naive forecaster"),
            Forecaster::Mean => &mut baseline.mean,
            Forecaster::Last => &mut baseline.last,
            Forecaster::Season => &mut baseline.season,
            Forecaster::Ridge => &mut baseline.ridge,
        };
        *place = Some(figures);
    }
    baseline
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
