//! The figures of a pass, held against plain loops over raw numbers.

use super::*;
use crate::{metrics::Metrics, sample};
use millstream_data::{
    BatchLayout, BatchSlot, ColumnScaling, Curve, DeviceBatch, Extras, Fit, Scaling, SeriesFits,
    TargetKind,
};
use millstream_stage::Pool;

const HORIZON: usize = 2;
const TARGETS: usize = 2;
const SERIES: usize = 3;
const TIMES: usize = 5;
const WINDOWS: usize = SERIES * TIMES;
const LAYOUT: BatchLayout = BatchLayout {
    batch_size: 4,
    lookback: 2,
    features: 1,
    horizon: HORIZON,
    targets: TARGETS,
    extras: Extras::NONE,
};

/// Raw numbers of every window: `[window][step][target]`, last by `[window][target]`.
struct Raw {
    forecasts: Vec<f64>,
    outcomes: Vec<f64>,
    last: Vec<f64>,
    /// Of differences, where they count from: `[window][target]`.
    levels: Vec<f64>,
}

fn plan(kind: TargetKind, change: impl FnOnce(&mut Scaling)) -> Arc<Plan> {
    let mut plan = sample::plan(1, [0, 0, WINDOWS as u64]);
    (plan.schema.horizon, plan.schema.target_kind) = (HORIZON, kind);
    plan.schema.targets = vec!["y".into(), "z".into()];
    plan.scaling.targets =
        vec![ColumnScaling::affine("y", 1.0, 2.0, 3.0), ColumnScaling::affine("z", 0.3, 0.7, 0.3)];
    change(&mut plan.scaling);
    Arc::new(plan)
}

/// Small numbers that repeat, so that changes of 0 come up; the last value is unknown now and
/// then, unless it is that of a change, which is always 0.
fn raw(kind: TargetKind) -> Raw {
    let number = |seed: usize| (((seed * 2_654_435_761) >> 7) % 9) as f64 * 0.25 - 1.0;
    let last = |i: usize| match kind {
        TargetKind::Value if i % 7 == 3 => f64::NAN,
        TargetKind::Value => number(i + 5_000),
        _ => 0.0,
    };
    let cells = WINDOWS * HORIZON * TARGETS;
    Raw {
        forecasts: (0..cells).map(number).collect(),
        outcomes: (0..cells).map(|i| number(i + 1_000)).collect(),
        last: (0..WINDOWS * TARGETS).map(last).collect(),
        levels: (0..WINDOWS * TARGETS).map(|i| 24.0 + number(i + 9_000)).collect(),
    }
}

fn series(window: usize) -> usize {
    window / TIMES
}

/// Scaled as normalize does it: the affine part in `f32`.
fn scaled(plan: &Plan, window: usize, target: usize, raw: f64) -> f32 {
    let fit = plan.scaling.target_fit(["a", "b", "c"][series(window)], target);
    if fit.curve.is_linear() {
        (raw as f32 - fit.offset as f32) * (1.0 / fit.scale) as f32
    } else {
        fit.apply(raw) as f32
    }
}

fn judged(plan: &Arc<Plan>, raw: &Raw) -> PassResult {
    judged_with(plan, raw, true)
}

/// `tells`: whether batches carry what came in user units too.
fn judged_with(plan: &Arc<Plan>, raw: &Raw, tells: bool) -> PassResult {
    judged_by(Loss::Mae, plan, raw, tells, &[])
}

/// By another loss, of which every head makes the same output; `season` is as the outcomes of `raw`, or
/// of no window.
fn judged_by(loss: Loss, plan: &Arc<Plan>, raw: &Raw, tells: bool, season: &[f32]) -> PassResult {
    let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
    let settings = TrainSettings { loss, ..TrainSettings::default() };
    let heads = settings.heads().count() as i64;
    let mut pass = Pass::new(plan, WINDOWS as u64, Device::Cpu, &settings).unwrap();
    let windows: Vec<usize> = (0..WINDOWS).collect();
    for windows in windows.chunks(LAYOUT.batch_size) {
        let mut slot = pool.take();
        let (parts, meta) = slot.parts_mut();
        meta.series.clear();
        meta.time.clear();
        meta.outcomes.clear();
        meta.last_known.clear();
        meta.season.clear();
        let mut forecasts = Vec::new();
        for (row, &window) in windows.iter().enumerate() {
            for target in 0..TARGETS {
                parts.last_known[row * TARGETS + target] =
                    scaled(plan, window, target, raw.last[window * TARGETS + target]);
            }
            for cell in 0..HORIZON * TARGETS {
                let (at, target) = (window * HORIZON * TARGETS + cell, cell % TARGETS);
                parts.targets[row * HORIZON * TARGETS + cell] =
                    scaled(plan, window, target, raw.outcomes[at]);
                forecasts.push(scaled(plan, window, target, raw.forecasts[at]));
            }
            if tells {
                // Differences are told as the levels that they count from and lead to.
                let told = |value: f64, target: usize| match plan.schema.target_kind {
                    TargetKind::Difference => raw.levels[window * TARGETS + target] + value,
                    _ => value,
                };
                let of = |values: &[f64], width: usize| -> Vec<f32> {
                    let values = values[window * width..][..width].iter().enumerate();
                    values.map(|(at, value)| told(*value, at % TARGETS) as f32).collect()
                };
                meta.outcomes.extend(of(&raw.outcomes, HORIZON * TARGETS));
                meta.last_known.extend(of(&raw.last, TARGETS));
            }
            if !season.is_empty() {
                let width = HORIZON * TARGETS;
                meta.season.extend_from_slice(&season[window * width..][..width]);
            }
            meta.series.push(series(window) as u32);
            meta.time.push((window % TIMES) as i64);
        }
        let batch = BatchTensors::new(DeviceBatch::Host(slot)).unwrap();
        let shape = [windows.len() as i64, HORIZON as i64, TARGETS as i64];
        let mut outputs = Tensor::from_slice(&forecasts).view(shape);
        if heads > 1 {
            outputs = outputs.unsqueeze(-1).expand([-1, -1, -1, heads], false);
        }
        let evaluated = Evaluated::of(&pass.heads, outputs).unwrap();
        pass.add(&batch, &evaluated).unwrap();
    }
    assert_eq!(pass.times.len(), WINDOWS);
    let result = pass.finish(&mut Readback::default(), true).unwrap();
    assert_eq!(pass.times.len(), 0, "the next pass starts over");
    result
}

/// One step of one target from the definitions, in raw numbers wherever that is possible.
fn naive(plan: &Plan, raw: &Raw, said: &[f64], step: usize, target: usize) -> Metrics {
    let cell = |window: usize| (window * HORIZON + step) * TARGETS + target;
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let error = |window: usize| said[cell(window)] - raw.outcomes[cell(window)];
    let scaled_error = |window: usize| {
        let scaled = |value| f64::from(scaled(plan, window, target, value));
        scaled(said[cell(window)]) - scaled(raw.outcomes[cell(window)])
    };
    let over = |f: &dyn Fn(usize) -> f64| Some(mean((0..WINDOWS).map(f).collect()));
    let signs: Vec<(f64, f64)> = (0..WINDOWS)
        .map(|w| (w, raw.last[w * TARGETS + target]))
        .map(|(w, last)| (said[cell(w)] - last, raw.outcomes[cell(w)] - last))
        .filter(|(f, o)| f * o != 0.0 && !(f * o).is_nan())
        .collect();
    let right = signs.iter().filter(|(f, o)| f * o > 0.0).count() as f64;
    let both = signs.iter().any(|s| s.1 > 0.0) && signs.iter().any(|s| s.1 < 0.0);
    // Of signs, the correlation of the textbook is that of Matthews.
    let matthews = || {
        let of = |side: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            signs.iter().map(|pair| side(pair).signum()).collect()
        };
        let (xs, ys) = (of(|pair| pair.0), of(|pair| pair.1));
        let (mx, my) = (mean(xs.clone()), mean(ys.clone()));
        let product = |a: &[f64], ma: f64, b: &[f64], mb: f64| -> f64 {
            a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum()
        };
        let variance = product(&xs, mx, &xs, mx) * product(&ys, my, &ys, my);
        (variance > 1e-12).then(|| product(&xs, mx, &ys, my) / variance.sqrt())
    };
    let correlation = |ranked: bool| {
        let found = (0..TIMES).filter_map(|time| {
            let of = |values: &[f64]| -> Vec<f64> {
                (0..SERIES).map(|s| values[cell(s * TIMES + time)]).collect()
            };
            let (mut xs, mut ys) = (of(said), of(&raw.outcomes));
            if ranked {
                let rank = |v: &[f64]| -> Vec<f64> {
                    let count = |x: f64, f: fn(f64, f64) -> bool| {
                        v.iter().filter(|y| f(**y, x)).count() as f64
                    };
                    v.iter().map(|x| count(*x, |y, x| y < x) + count(*x, |y, x| y <= x)).collect()
                };
                (xs, ys) = (rank(&xs), rank(&ys));
            }
            let (mx, my) = (mean(xs.clone()), mean(ys.clone()));
            let product = |a: &[f64], ma, b: &[f64], mb| -> f64 {
                a.iter().zip(b).map(|(x, y): (&f64, &f64)| (x - ma) * (y - mb)).sum()
            };
            let variance = product(&xs, mx, &xs, mx) * product(&ys, my, &ys, my);
            (variance > 1e-12).then(|| product(&xs, mx, &ys, my) / variance.sqrt())
        });
        let found: Vec<f64> = found.collect();
        let average = (!found.is_empty()).then(|| mean(found.clone()));
        let ratio = average.filter(|_| found.len() > 1).and_then(|average| {
            let squares: f64 = found.iter().map(|x| (x - average).powi(2)).sum();
            let deviation = (squares / (found.len() - 1) as f64).sqrt();
            (deviation > 1e-9).then(|| average / deviation)
        });
        (average, ratio)
    };
    let ((ic, icir), (rank_ic, rank_icir)) = (correlation(false), correlation(true));
    Metrics {
        mse: over(&|w| scaled_error(w).powi(2)),
        mae: over(&|w| scaled_error(w).abs()),
        directional_accuracy: both.then(|| right / signs.len() as f64),
        mcc: matthews(),
        ic,
        icir,
        rank_ic,
        rank_icir,
        mse_raw: over(&|w| error(w).powi(2)),
        mae_raw: over(&|w| error(w).abs()),
        ..Metrics::default()
    }
}

/// By name, null as `None`.
fn parts(metrics: &Metrics) -> Vec<(String, Option<f64>)> {
    let json = serde_json::to_value(metrics).unwrap();
    let fields = json.as_object().unwrap().clone().into_iter();
    fields.map(|(name, value)| (name, value.as_f64())).collect()
}

fn check_same(who: &str, found: &Metrics, expected: &Metrics) {
    for ((name, found), (_, expected)) in parts(found).into_iter().zip(parts(expected)) {
        let close = match (found, expected) {
            // A ratio may be large.
            (Some(found), Some(expected)) => {
                (found - expected).abs() < 1e-5 * f64::max(1.0, expected.abs())
            }
            (found, expected) => found == expected,
        };
        assert!(close, "{name} of {who} is {found:?} instead of {expected:?}");
    }
}

fn check_forecaster(who: &str, plan: &Plan, raw: &Raw, figures: &Figures, said: &[f64]) {
    let mut all = Vec::new();
    let mut steps = figures.by_step.iter();
    for (target, name) in ["y", "z"].into_iter().enumerate() {
        for step in 0..HORIZON {
            let found = steps.next().unwrap();
            assert_eq!((found.target.as_str(), found.step), (name, step + 1));
            let expected = naive(plan, raw, said, step, target);
            check_same(&format!("{who}, {name} + {}", step + 1), &found.metrics, &expected);
            all.push(expected);
        }
    }
    assert!(steps.next().is_none());
    let mean = |of: fn(&Metrics) -> Option<f64>| {
        let defined: Vec<f64> = all.iter().filter_map(of).collect();
        (!defined.is_empty()).then(|| defined.iter().sum::<f64>() / defined.len() as f64)
    };
    let overall = Metrics {
        mse: mean(|m| m.mse),
        mae: mean(|m| m.mae),
        // Pooled, not averaged: steps with few directions count less.
        directional_accuracy: figures.overall.directional_accuracy,
        mcc: figures.overall.mcc,
        ic: mean(|m| m.ic),
        icir: mean(|m| m.icir),
        rank_ic: mean(|m| m.rank_ic),
        rank_icir: mean(|m| m.rank_icir),
        mse_raw: mean(|m| m.mse_raw),
        mae_raw: mean(|m| m.mae_raw),
        ..Metrics::default()
    };
    check_same(&format!("{who}, overall"), &figures.overall, &overall);
}

fn check(kind: TargetKind, change: impl FnOnce(&mut Scaling)) -> PassResult {
    let (plan, raw) = (plan(kind, change), raw(kind));
    check_told(&plan, &raw, false);
    check_told(&plan, &raw, true)
}

fn check_told(plan: &Arc<Plan>, raw: &Raw, tells: bool) -> PassResult {
    let found = judged_with(plan, raw, tells);
    check_forecaster("the model", plan, raw, &found.model, &raw.forecasts);
    let mean_of = |row: usize, target: usize| {
        let name = ["a", "b", "c"][series(row / HORIZON)];
        plan.scaling.target_mean(name, target)
    };
    let cells = || (0..WINDOWS * HORIZON).flat_map(|row| [(row, 0), (row, 1)]);
    let means: Vec<f64> = cells().map(|(row, target)| mean_of(row, target)).collect();
    let mean = found.baseline.mean.as_ref().unwrap();
    check_forecaster("the mean", plan, raw, mean, &means);
    let last = cells().map(|(row, target)| {
        let last = raw.last[row / HORIZON * TARGETS + target];
        if last.is_nan() { mean_of(row, target) } else { last }
    });
    let last: Vec<f64> = last.collect();
    check_forecaster("the last", plan, raw, found.baseline.last.as_ref().unwrap(), &last);
    let loss = found.loss.unwrap();
    assert!((loss - found.model.overall.mae.unwrap()).abs() < 1e-6, "the loss was mae");
    found
}

fn own_fits(scaling: &mut Scaling, fits: [(f64, f64); 2]) {
    for (name, (offset, scale)) in ["a", "c"].into_iter().zip(fits) {
        let own = Fit { curve: Curve::Linear, offset, scale };
        let (features, targets) = (vec![Fit::IDENTITY], vec![own; 2]);
        let fits = SeriesFits { features, targets, target_means: vec![0.75, -0.5] };
        scaling.by_series.insert(name.into(), fits);
    }
}

/// Powers of two: what is equal in two series is so when it was scaled and brought back.
fn exact_fits(scaling: &mut Scaling) {
    scaling.targets[1].fit = Fit { curve: Curve::Linear, offset: 0.25, scale: 0.5 };
    own_fits(scaling, [(-40.0, 8.0), (25.0, 0.5)]);
}

fn curves(scaling: &mut Scaling) {
    scaling.targets[0].fit.curve = Curve::Log1p;
    scaling.targets[1].fit.curve = Curve::Quantiles(vec![-1.5, -0.5, 0.0, 0.5, 1.5]);
}

const KINDS: [TargetKind; 4] =
    [TargetKind::Value, TargetKind::Difference, TargetKind::Return, TargetKind::Direction];

#[test]
fn figures_are_those_of_the_definitions() {
    KINDS.into_iter().for_each(|kind| drop(check(kind, |_| {})));
}

#[test]
fn series_with_fits_of_their_own_are_judged_by_them() {
    KINDS.into_iter().for_each(|kind| drop(check(kind, exact_fits)));
}

#[test]
fn values_on_a_curve_are_judged_in_user_units_too() {
    KINDS.into_iter().for_each(|kind| drop(check(kind, curves)));
}

#[test]
fn predict_the_last_has_no_direction_and_no_order() {
    for kind in KINDS {
        // Fits by which a 0 is not brought back as one.
        let plan = plan(kind, |scaling| own_fits(scaling, [(-41.3, 9.7), (25.1, 0.3)]));
        let found = judged(&plan, &raw(kind)).baseline.last.unwrap();
        let directions = found.by_step.iter().map(|step| step.metrics.directional_accuracy);
        assert!(directions.into_iter().all(|share| share.is_none()), "{kind:?}");
        assert_eq!(found.overall.directional_accuracy, None, "{kind:?}");
        let orders = kind == TargetKind::Value;
        assert_eq!(found.overall.ic.is_some(), orders, "a change of 0 for all, {kind:?}");
    }
}

/// What is lost when it is scaled is judged all the same, if the batches say what it was.
#[test]
fn changes_that_are_lost_by_scaling_still_have_a_direction() {
    let plan = plan(TargetKind::Value, |scaling| {
        for target in &mut scaling.targets {
            target.fit = Fit { curve: Curve::Linear, offset: 1e12, scale: 1e10 };
        }
    });
    let raw = raw(TargetKind::Value);
    let share = |tells| judged_with(&plan, &raw, tells).baseline.mean.unwrap().overall;
    assert_eq!(share(false).directional_accuracy, None, "all outcomes are the same");
    assert!(share(true).directional_accuracy.is_some());
}

/// A change that is no more in the level that a file of forecasts holds is none.
#[test]
fn differences_are_judged_by_the_levels_of_the_file() {
    let plan = plan(TargetKind::Difference, |_| {});
    let mut raw = raw(TargetKind::Difference);
    let share = |raw: &Raw| judged(&plan, raw).model.overall.directional_accuracy;
    assert!(share(&raw).is_some());
    raw.forecasts.iter_mut().for_each(|change| *change *= 1e-9);
    assert_eq!(share(&raw), None);
    let found = judged(&plan, &raw).model.overall;
    assert_eq!((found.mae_raw, found.ic), (judged_last(&plan, &raw).mae_raw, None));
}

fn judged_last(plan: &Arc<Plan>, raw: &Raw) -> Metrics {
    judged(plan, raw).baseline.last.unwrap().overall
}

#[test]
fn directions_of_several_steps_are_pooled() {
    let (plan, raw) = (plan(TargetKind::Return, |_| {}), raw(TargetKind::Return));
    let found = judged(&plan, &raw).model.overall.directional_accuracy.unwrap();
    let pairs = raw.forecasts.iter().zip(&raw.outcomes).map(|(f, o)| f * o);
    let signed: Vec<f64> = pairs.filter(|product| *product != 0.0).collect();
    let right = signed.iter().filter(|product| **product > 0.0).count() as f64;
    assert_eq!(found, right / signed.len() as f64);
}

#[test]
fn quantiles_are_judged_beside_their_median() {
    let (plan, raw) = (plan(TargetKind::Value, |_| {}), raw(TargetKind::Value));
    let plain = judged(&plan, &raw).model;
    let PassResult { loss, model, baseline } = judged_by(Loss::Quantile, &plan, &raw, true, &[]);
    let Metrics { pinball, pinball_raw, coverage, .. } = model.overall;
    let same = Metrics { pinball: None, pinball_raw: None, coverage: None, ..model.overall };
    assert_eq!(same, plain.overall, "the median is the forecast");
    assert!((loss.unwrap() - pinball.unwrap()).abs() < 1e-6, "{loss:?}, {pinball:?}");
    assert!(coverage.unwrap() > 0.0 && pinball_raw.unwrap() > 0.0);
    let named: Vec<f64> = model.quantiles.iter().map(|quantile| quantile.quantile).collect();
    assert_eq!(named, [0.1, 0.5, 0.9]);
    // The median halves the absolute error.
    let median = model.quantiles[1].pinball.unwrap();
    assert!((median - model.overall.mae.unwrap() / 2.0).abs() < 1e-9);
    assert!(model.by_step.iter().all(|step| step.quantiles.len() == 3));
    let mean = baseline.mean.unwrap();
    assert!(mean.quantiles.is_empty() && mean.overall.pinball.is_none(), "it has none");
}

#[test]
fn of_scores_only_the_order_is_judged() {
    // Fits by which an order would change if scores were brought back by them.
    let plan = plan(TargetKind::Return, exact_fits);
    let mut raw = raw(TargetKind::Return);
    let PassResult { loss, model, .. } = judged_by(Loss::Ic, &plan, &raw, true, &[]);
    let Metrics { ic, icir, rank_ic, rank_icir, .. } = model.overall;
    let only = Metrics { ic, icir, rank_ic, rank_icir, ..Metrics::default() };
    assert_eq!(model.overall, only);
    assert_eq!(loss.unwrap(), -ic.unwrap());
    // Scores are as the model made them, whatever scale its series has.
    for window in 0..WINDOWS {
        for cell in 0..HORIZON * TARGETS {
            let forecast = &mut raw.forecasts[window * HORIZON * TARGETS + cell];
            *forecast = f64::from(scaled(&plan, window, cell % TARGETS, *forecast));
        }
    }
    let same = |found: Option<f64>, step: usize, target: usize| {
        let expected = naive(&plan, &raw, &raw.forecasts, step, target).ic;
        assert!((found.unwrap() - expected.unwrap()).abs() < 1e-6, "{found:?}, {expected:?}");
    };
    for (number, step) in model.by_step.iter().enumerate() {
        same(step.metrics.ic, number % HORIZON, number / HORIZON);
    }
}

#[test]
fn a_season_before_is_judged_where_batches_say_it() {
    let (plan, raw) = (plan(TargetKind::Value, exact_fits), raw(TargetKind::Value));
    let season = |season: &[f32]| judged_by(Loss::Mae, &plan, &raw, true, season).baseline;
    assert_eq!(season(&[]).season, None);
    let outcomes: Vec<f32> = raw.outcomes.iter().map(|outcome| *outcome as f32).collect();
    let right = season(&outcomes).season.unwrap().overall;
    assert_eq!((right.mse, right.mae_raw), (Some(0.0), Some(0.0)));
    let unknown = season(&vec![f32::NAN; outcomes.len()]);
    assert_eq!(unknown.season, unknown.last, "where nobody knows, as the last");
    assert_eq!(unknown.ridge, None, "the plan has none");
}
