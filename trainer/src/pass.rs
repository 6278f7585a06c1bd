//! One pass over validation or test windows: sums on the device, read once at its end.
//!
//! Every window adds to a few sums; only the first target's first step is kept per window, in
//! memory of the pass's size made once, because correlations across series need it. The formulas
//! are in `metrics.rs`.

use crate::{
    landmarks::{LandmarkTable, Landmarks},
    metrics::{CrossSection, Directions, ErrorSums, Metrics},
    readback::Readback,
    settings::Loss,
    tensor::BatchTensors,
};
use millstream_stage::Plan;
use tch::{Device, Kind, Tensor};

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
    /// Forecasts of the first target's first step; `None` where they are all equal in user units.
    kept: Option<Tensor>,
}

/// A pass that is under way.
#[derive(Debug)]
pub(crate) struct Pass {
    targets: usize,
    horizon: usize,
    /// A scaled unit of each target in user units, where there is such a number.
    units: Option<Vec<f64>>,
    landmarks: LandmarkTable,
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
        let scaling = &plan.scaling;
        let units = || scaling.targets.iter().map(|target| target.fit.scale).collect();
        Pass {
            targets: scaling.targets.len(),
            horizon: plan.schema.horizon,
            units: scaling.has_affine_targets().then(units),
            landmarks: LandmarkTable::new(plan, device),
            model: Tally::new(scaling.targets.len(), Some(windows), device),
            baselines: None,
            shared: Tensor::zeros([3], (Kind::Double, device)),
            outcomes: Tensor::zeros([windows as i64], (Kind::Float, device)),
            times: Vec::with_capacity(windows as usize),
        }
    }

    /// Also judges the two naive forecasts, on the same windows.
    pub(crate) fn with_baselines(mut self) -> Self {
        let (count, windows, device) =
            (self.targets, self.outcomes.size()[0] as u64, self.shared.device());
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
        let Landmarks { zero, tolerance, mean: means } =
            self.landmarks.of(&batch.batch().meta().series);
        let from_zero = outcome - &zero;
        let rises = from_zero.gt_tensor(&tolerance);
        let falls = from_zero.lt_tensor(&-tolerance);

        let count = |flags: &Tensor| flags.sum(Kind::Double);
        let loss = loss.mean(forecast, outcome).to_kind(Kind::Double) * rows as f64;
        self.shared += Tensor::stack(&[loss, count(&rises), count(&falls)], 0);
        first_step(outcome).copy_into(&self.outcomes, at);
        self.times.extend_from_slice(&batch.batch().meta().time);

        let truth = Truth { outcome, rises: &rises, falls: &falls, zero: &zero, at };
        self.model.add(forecast, &truth);
        if let Some([mean, last]) = &mut self.baselines {
            let known = batch.last.unsqueeze(1);
            let known = known.where_self(&known.isnan().logical_not(), &means);
            mean.add(&means.expand_as(outcome), &truth);
            last.add(&known.expand_as(outcome), &truth);
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
        let (targets, windows) = (self.targets, self.times.len());
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
                Metrics::new(&errors, directions, section, self.units.as_deref())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use millstream_stage::{
        BatchLayout, BatchSlot, Curve, DeviceBatch, Extras, Fit, Pool, Scaling, SeriesFits,
    };

    const LAYOUT: BatchLayout = BatchLayout {
        batch_size: 4,
        lookback: 2,
        features: 1,
        horizon: 1,
        targets: 1,
        extras: Extras::NONE,
    };
    /// Raw outcomes of four windows of series a, b, c, a; 0 is neither a rise nor a fall.
    const OUTCOMES: [f64; 4] = [1.5, 0.0, -2.0, -1.0];
    /// Raw forecasts: right, not counted, wrong, right.
    const FORECASTS: [f64; 4] = [0.5, 1.0, 1.0, -3.0];
    /// Raw last known values: right, not counted, right, and unknown, so the mean (3), wrong.
    const LAST: [f64; 4] = [2.0, 1.0, -1.0, f64::NAN];
    const SERIES: [u32; 4] = [0, 1, 2, 0];

    /// The mean squared error of these raw values in scaled units, from the definition.
    fn scaled_mse(scaling: &Scaling, raw: [f64; 4]) -> f64 {
        let square = |i: usize| {
            let fit = scaling.target_fit(["a", "b", "c"][SERIES[i] as usize], 0);
            (fit.apply(raw[i]) - fit.apply(OUTCOMES[i])).powi(2)
        };
        (0..4).map(square).sum::<f64>() / 4.0
    }

    fn judge(plan: &Plan) -> PassResult {
        let scaled = |raw: [f64; 4]| -> Vec<f32> {
            let names = SERIES.map(|code| plan.panel.series[code as usize].as_str());
            let fits = names.map(|name| plan.scaling.target_fit(name, 0));
            raw.iter().zip(fits).map(|(raw, fit)| fit.apply(*raw) as f32).collect()
        };
        let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
        let mut slot = pool.take();
        let (parts, meta) = slot.parts_mut();
        parts.targets.copy_from_slice(&scaled(OUTCOMES));
        parts.last.copy_from_slice(&scaled(LAST));
        meta.series.extend(SERIES);
        meta.time.extend([1, 1, 1, 2]);
        let batch = BatchTensors::new(DeviceBatch::Host(slot)).unwrap();
        let forecast = Tensor::from_slice(&scaled(FORECASTS)).view([4, 1, 1]);
        let mut pass = Pass::new(plan, 4, Device::Cpu).with_baselines();
        pass.add(&batch, &forecast, Loss::Mse);
        pass.finish(&mut Readback::default())
    }

    fn check(plan: &Plan) -> PassResult {
        let found = judge(plan);
        let (mean, last) = (found.mean.unwrap(), found.last.unwrap());
        let third = |part: f64| Some(part / 3.0);
        assert_eq!(found.model.directional_accuracy, third(2.0));
        assert_eq!(mean.directional_accuracy, third(1.0), "the mean, 3, is right for a rise only");
        assert_eq!(last.directional_accuracy, third(2.0));
        let known = [LAST[0], LAST[1], LAST[2], 3.0];
        for (metrics, raw) in [(found.model, FORECASTS), (mean, [3.0; 4]), (last, known)] {
            let expected = scaled_mse(&plan.scaling, raw);
            let mse = metrics.mse.unwrap();
            assert!((mse / expected - 1.0).abs() < 1e-5, "{mse} is not {expected}");
        }
        assert_eq!(mean.ic, None, "one number for all correlates with nothing");
        found
    }

    #[test]
    fn series_scaled_alike_have_raw_errors() {
        let raw = check(&sample::plan(1, [0, 0, 4])).model.mse_raw.unwrap();
        let square = |i: usize| (FORECASTS[i] - OUTCOMES[i]).powi(2);
        let expected = (0..4).map(square).sum::<f64>() / 4.0;
        assert!((raw / expected - 1.0).abs() < 1e-5, "{raw} is not {expected}");
    }

    #[test]
    fn series_with_fits_of_their_own_are_judged_by_them() {
        let mut plan = sample::plan(1, [0, 0, 4]);
        for (name, offset, scale) in [("a", -40.0, 10.0), ("c", 25.0, 0.5)] {
            let own = Fit { curve: Curve::Linear, offset, scale };
            let fits = SeriesFits { features: vec![Fit::IDENTITY], targets: vec![own] };
            plan.scaling.by_series.insert(name.into(), fits);
        }
        let found = check(&plan);
        assert_eq!((found.model.mse_raw, found.model.mae_raw), (None, None));
    }

    #[test]
    fn a_curve_has_no_raw_errors() {
        let mut plan = sample::plan(1, [0, 0, 4]);
        plan.scaling.targets[0].fit.curve = Curve::Log1p;
        let found = check(&plan);
        assert_eq!((found.model.mse_raw, found.model.mae_raw), (None, None));
    }
}
