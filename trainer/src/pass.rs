//! One pass over validation or test windows: sums on the device, read once at its end.
//!
//! Every window adds to a few sums; only the first target's first step is kept per window, in
//! memory of the pass's size made once, because correlations across series need it. The formulas
//! are in `metrics.rs`.

use crate::{
    metrics::{CrossSection, Directions, ErrorSums, Metrics},
    readback::Readback,
    settings::Loss,
    tensor::BatchTensors,
};
use millstream_stage::{ColumnScaling, Plan};
use tch::{Device, Kind, Tensor};

/// An outcome this close to 0 is 0, relative to its scaled size: scaled values are `f32`, so a raw
/// 0 seldom comes back as exactly one.
const ZERO: f64 = 1e-6;

/// What one pass found.
#[derive(Debug, Clone)]
pub(crate) struct PassResult {
    /// Mean of the configured loss; `None` when it is no number.
    pub(crate) loss: Option<f64>,
    /// The model's figures.
    pub(crate) model: Metrics,
    /// The training mean as the forecast; asked for by [`Pass::with_baselines`].
    pub(crate) mean: Option<Metrics>,
    /// The last known value as the forecast; asked for by [`Pass::with_baselines`].
    pub(crate) last: Option<Metrics>,
}

/// The sums of one forecaster.
#[derive(Debug)]
struct Tally {
    /// Squared errors per target, absolute errors per target, right signs.
    sums: Tensor,
    /// Forecasts of the first target's first step; `None` where they are all equal.
    kept: Option<Tensor>,
}

/// A pass that is under way.
#[derive(Debug)]
pub(crate) struct Pass {
    targets: Vec<ColumnScaling>,
    horizon: usize,
    /// Raw 0 in scaled units, and how far from it still counts as 0: `[targets]` each.
    zero: Tensor,
    tolerance: Tensor,
    /// The training mean in scaled units: `[targets]`.
    means: Tensor,
    model: Tally,
    baselines: Option<[Tally; 2]>,
    /// Sum of the loss, outcomes above 0, outcomes below 0.
    shared: Tensor,
    outcomes: Tensor,
    times: Vec<i64>,
}

impl Pass {
    /// A pass over at most `windows` windows.
    pub(crate) fn new(plan: &Plan, windows: u64, device: Device) -> Self {
        let targets = plan.scaling.targets.clone();
        let scaled = |raw: fn(&ColumnScaling) -> f64| -> Vec<f32> {
            targets.iter().map(|c| ((raw(c) - c.offset) / c.scale) as f32).collect()
        };
        let zero = scaled(|_| 0.0);
        let tolerance: Vec<f32> =
            zero.iter().map(|z| (ZERO * f64::from(z.abs()).max(1.0)) as f32).collect();
        let on_device = |values: &[f32]| Tensor::from_slice(values).to_device(device);
        Pass {
            horizon: plan.schema.horizon,
            zero: on_device(&zero),
            tolerance: on_device(&tolerance),
            means: on_device(&scaled(|column| column.mean)),
            model: Tally::new(targets.len(), Some(windows), device),
            baselines: None,
            shared: Tensor::zeros([3], (Kind::Double, device)),
            outcomes: Tensor::zeros([windows as i64], (Kind::Float, device)),
            times: Vec::with_capacity(windows as usize),
            targets,
        }
    }

    /// Also judges the two naive forecasts, on the same windows.
    pub(crate) fn with_baselines(mut self) -> Self {
        let (count, windows, device) =
            (self.targets.len(), self.outcomes.size()[0] as u64, self.shared.device());
        let tallies = [Tally::new(count, None, device), Tally::new(count, Some(windows), device)];
        self.baselines = Some(tallies);
        self
    }

    /// Adds a batch. Reads nothing.
    pub(crate) fn add(&mut self, batch: &BatchTensors, forecast: &Tensor, loss: Loss) {
        let _guard = tch::no_grad_guard();
        let outcome = &batch.targets;
        let rows = outcome.size()[0];
        let at = self.times.len() as i64;
        let from_zero = outcome - &self.zero;
        let rises = from_zero.gt_tensor(&self.tolerance);
        let falls = from_zero.lt_tensor(&-&self.tolerance);

        let count = |flags: &Tensor| flags.sum(Kind::Double);
        let loss = loss.mean(forecast, outcome).to_kind(Kind::Double) * rows as f64;
        self.shared += Tensor::stack(&[loss, count(&rises), count(&falls)], 0);
        first_step(outcome).copy_into(&self.outcomes, at);
        self.times.extend_from_slice(&batch.batch().meta().time);

        let truth = Truth { outcome, rises: &rises, falls: &falls, zero: &self.zero, at };
        self.model.add(forecast, &truth);
        if let Some([mean, last]) = &mut self.baselines {
            let known = batch.last.where_self(&batch.last.isnan().logical_not(), &self.means);
            mean.add(&self.means.expand_as(outcome), &truth);
            last.add(&known.unsqueeze(1).expand_as(outcome), &truth);
        }
    }

    /// Reads the sums, once, and starts over.
    pub(crate) fn finish(&mut self, readback: &mut Readback) -> PassResult {
        let _guard = tch::no_grad_guard();
        let windows = self.times.len();
        let mut parts = vec![self.shared.shallow_clone()];
        for tally in self.tallies() {
            parts.push(tally.sums.shallow_clone());
        }
        let kept = self.tallies().filter_map(|tally| tally.kept.as_ref());
        for values in std::iter::once(&self.outcomes).chain(kept) {
            parts.push(values.narrow(0, 0, windows as i64).to_kind(Kind::Double));
        }
        let numbers = readback.numbers(&Tensor::cat(&parts, 0));
        let result = self.evaluate(&numbers);
        self.reset();
        result
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        std::iter::once(&self.model).chain(self.baselines.iter().flatten())
    }

    /// Takes apart what `finish` put together: the shared sums, each tally's sums, the outcomes,
    /// each tally's forecasts.
    fn evaluate(&self, numbers: &[f64]) -> PassResult {
        let (targets, windows) = (self.targets.len(), self.times.len());
        let (shared, rest) = numbers.split_at(3);
        let (sums, kept) = rest.split_at(self.tallies().count() * (2 * targets + 1));
        let mut kept = kept.chunks_exact(windows.max(1));
        let outcomes = kept.next().unwrap_or_default();
        let mut metrics =
            self.tallies().zip(sums.chunks_exact(2 * targets + 1)).map(|(tally, sums)| {
                let errors = ErrorSums {
                    squared: sums[..targets].to_vec(),
                    absolute: sums[targets..2 * targets].to_vec(),
                    count: (windows * self.horizon) as f64,
                };
                let directions =
                    Directions { right: sums[2 * targets], rises: shared[1], falls: shared[2] };
                let forecasts = tally.kept.as_ref().and_then(|_| kept.next());
                let section = forecasts.map(|forecasts| CrossSection {
                    times: &self.times,
                    forecasts,
                    outcomes,
                });
                Metrics::new(&errors, directions, section, &self.targets)
            });
        let loss = shared[0] / windows as f64;
        PassResult {
            loss: loss.is_finite().then_some(loss),
            model: metrics.next().expect("the model is the first tally"),
            mean: metrics.next(),
            last: metrics.next(),
        }
    }

    fn reset(&mut self) {
        self.times.clear();
        let _ = self.shared.zero_();
        let _ = self.model.sums.zero_();
        for tally in self.baselines.iter_mut().flatten() {
            let _ = tally.sums.zero_();
        }
    }
}

/// What a batch's forecasts are held against.
struct Truth<'a> {
    outcome: &'a Tensor,
    rises: &'a Tensor,
    falls: &'a Tensor,
    zero: &'a Tensor,
    /// Windows of the pass before this batch.
    at: i64,
}

impl Tally {
    fn new(targets: usize, windows: Option<u64>, device: Device) -> Self {
        Tally {
            sums: Tensor::zeros([2 * targets as i64 + 1], (Kind::Double, device)),
            kept: windows.map(|n| Tensor::zeros([n as i64], (Kind::Float, device))),
        }
    }

    fn add(&mut self, forecast: &Tensor, truth: &Truth<'_>) {
        let error = forecast - truth.outcome;
        let per_target =
            |values: &Tensor| values.sum_dim_intlist([0i64, 1].as_slice(), false, Kind::Double);
        let up = forecast.gt_tensor(truth.zero).logical_and(truth.rises);
        let down = forecast.lt_tensor(truth.zero).logical_and(truth.falls);
        let right = up.logical_or(&down).sum(Kind::Double).view([1]);
        self.sums +=
            Tensor::cat(&[per_target(&error.square()), per_target(&error.abs()), right], 0);
        if let Some(kept) = &self.kept {
            first_step(forecast).copy_into(kept, truth.at);
        }
    }
}

/// The first target's first step of each window.
struct FirstStep(Tensor);

fn first_step(values: &Tensor) -> FirstStep {
    FirstStep(values.select(2, 0).select(1, 0))
}

impl FirstStep {
    fn copy_into(&self, kept: &Tensor, at: i64) {
        kept.narrow(0, at, self.0.size()[0]).copy_(&self.0);
    }
}
