//! What is made for naive forecasts: the linear one fitted on training windows alone, and what came a
//! season before.

use crate::{
    cases::size,
    stream::{Collect, settings, stream, table, training},
    support::{Table, hash},
};
use millstream_data::{Missing, Phase, Plan, Reference, Ridge, TargetKind};
use millstream_normalize::{
    NormalizeSettings, ShortSeries, SplitSettings, TargetSettings, TrainingData, TrainingSettings,
    WindowSettings,
};

/// Training ends at 70 of 100 times.
const BORDER: i64 = 70;

/// Three series of three columns, of which the last is a sum of the others and of chance.
fn noisy() -> Table {
    let row = |series: u64, time: i64| {
        let dice = |column: u64| (hash(&[series, time as u64, column]) >> 40) as f32 * 1e-6;
        let (a, b) = (dice(0), 5.0 * dice(1) + 100.0);
        let missing = hash(&[series, time as u64, 9]).is_multiple_of(20);
        (time, vec![if missing { f32::NAN } else { a }, b, a + b + dice(2)])
    };
    Table::new(3, (0..3).map(|series| (0..100).map(|time| row(series, time)).collect()).collect())
}

fn wanted(change: impl FnOnce(&mut NormalizeSettings)) -> NormalizeSettings {
    let mut wanted = NormalizeSettings { ridge: true, ..settings(training(None)) };
    wanted.fit.target.columns = vec!["c2".into(), "c0".into()];
    wanted.fit.window.horizon = size(2);
    change(&mut wanted);
    wanted
}

fn fitted(table: &Table, wanted: NormalizeSettings) -> (Ridge, Collect) {
    let collected = stream(table, wanted).unwrap();
    let ridge = collected.plan.as_ref().unwrap().ridge.clone();
    (ridge.unwrap(), collected)
}

/// Coefficients bit for bit.
fn bits(ridge: &Ridge) -> Vec<u64> {
    ridge.weights.iter().chain(&ridge.intercepts).map(|number| number.to_bits()).collect()
}

#[test]
fn it_is_made_where_it_is_asked_for() {
    let without = stream(&noisy(), wanted(|wanted| wanted.ridge = false)).unwrap();
    assert_eq!(without.plan.unwrap().ridge, None);
    let (ridge, _) = fitted(&noisy(), wanted(|_| {}));
    assert_eq!((ridge.inputs(), ridge.intercepts.len()), (3, 4));
}

/// All that is left of a last row in relation to itself is 0.
#[test]
fn where_the_last_row_says_nothing_there_is_none_and_that_is_said() {
    let plan = |reference: Reference| {
        let wanted = wanted(|wanted| wanted.fit.scale.reference = reference);
        stream(&noisy(), wanted).unwrap().plan.unwrap()
    };
    let told = |plan: &Plan| plan.warnings.iter().any(|line| line.contains("no ridge regression"));
    let last = plan(Reference::Last);
    assert!(last.ridge.is_none() && told(&last), "{:?}", last.warnings);
    let first = plan(Reference::First);
    assert!(first.ridge.is_some() && !told(&first), "{:?}", first.warnings);
}

#[test]
fn nothing_after_the_border_changes_a_coefficient_and_something_before_it_does() {
    for missing in [Missing::Zero, Missing::Ffill, Missing::Mask] {
        let of = |table: &Table| {
            let wanted = wanted(|wanted| wanted.fit.scale.missing = missing);
            bits(&fitted(table, wanted).0)
        };
        let before = of(&noisy());
        let later = noisy().disturbed(3, |_, time| time >= BORDER);
        assert_eq!(before, of(&later), "{missing:?}");
        let earlier = noisy().disturbed(3, |_, time| time == BORDER - 1);
        assert_ne!(before, of(&earlier), "{missing:?}: the last training row has a part");
    }
}

#[test]
fn threads_change_no_bit_of_it() {
    let of =
        |threads: usize| bits(&fitted(&noisy(), wanted(|wanted| wanted.threads = size(threads))).0);
    let one = of(1);
    assert_eq!(one, of(2));
    assert_eq!(one, of(8));
}

/// The derivative of what it makes small is 0, by the batches that a model is shown.
fn check_least_squares(change: impl FnOnce(&mut NormalizeSettings)) {
    let (ridge, collected) = fitted(&noisy(), wanted(change));
    let (width, labels) = (ridge.inputs(), ridge.intercepts.len());
    let (mut inputs, mut errors) = (Vec::new(), Vec::new());
    let batches = collected.batches.iter().filter(|b| (b.0, b.1) == (1, Phase::Train));
    for (.., batch) in batches {
        let windows = batch.inputs.chunks_exact(batch.lookback * width);
        for (number, (window, outcomes)) in
            windows.zip(batch.targets.chunks_exact(labels)).enumerate()
        {
            // Windows are padded on the right here, if at all.
            let rows = batch.lengths.get(number).map_or(batch.lookback, |rows| *rows as usize);
            let last: Vec<f64> =
                window[(rows - 1) * width..][..width].iter().map(|x| f64::from(*x)).collect();
            let error = |label: usize| {
                let weights = ridge.weights.iter().skip(label).step_by(labels);
                let said: f64 = weights.zip(&last).map(|(weight, x)| weight * x).sum();
                f64::from(outcomes[label]) - said - ridge.intercepts[label]
            };
            errors.push((0..labels).map(error).collect::<Vec<_>>());
            inputs.push(last);
        }
    }
    let n = inputs.len() as f64;
    assert!(n > 100.0);
    let column =
        |of: &[Vec<f64>], at: usize| -> Vec<f64> { of.iter().map(|row| row[at]).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / n;
    for label in 0..labels {
        let errors = column(&errors, label);
        assert!(mean(&errors).abs() < 1e-9, "an intercept has no penalty");
        for input in 0..width {
            let values = column(&inputs, input);
            let centre = mean(&values);
            let values: Vec<f64> = values.iter().map(|value| value - centre).collect();
            let deviation = product(&values, &values).sqrt();
            let weight = ridge.weights[input * labels + label];
            if deviation == 0.0 {
                assert_eq!(weight, 0.0, "an input that is always the same");
                continue;
            }
            let slope = product(&values, &errors);
            let penalty = 1e-3 * weight * deviation * deviation;
            assert!((slope - penalty).abs() < 1e-9, "input {input}, label {label}: {slope}");
        }
    }
}

#[test]
fn it_makes_the_squared_error_small_on_what_the_model_sees_last() {
    check_least_squares(|_| {});
    check_least_squares(|wanted| wanted.fit.scale.missing = Missing::Mask);
    check_least_squares(|wanted| {
        wanted.fit.scale.reference = Reference::First;
        wanted.fit.scale.missing = Missing::Ffill;
        wanted.fit.window.short = ShortSeries::Pad;
        wanted.fit.window.pad = millstream_normalize::PadSide::Right;
    });
}

/// Checks what stands beside test windows against `expected` of (time of the last row, step).
fn check_season(kind: TargetKind, season: usize, expected: impl Fn(i64, i64) -> Option<f32>) {
    let target =
        TargetSettings { columns: vec!["c0".into()], kind, season, ..TargetSettings::default() };
    let mut settings = TrainingSettings { batch_size: size(4), ..TrainingSettings::default() };
    settings.split = SplitSettings::default();
    settings.fit.target = target;
    settings.fit.window =
        WindowSettings { lookback: size(5), horizon: size(3), ..WindowSettings::default() };
    let mut data = TrainingData::new(&table().panel(&[17]), &settings).unwrap();
    let learned: Vec<_> = data.train(1).collect();
    assert!(learned.iter().all(|batch| batch.meta.season.is_empty()), "nobody judges these");
    let judged: Vec<_> = data.validation().collect();
    let tested: Vec<_> = data.test().collect();
    assert!(judged.len() > 1 && tested.len() > 1);
    for batch in judged.iter().chain(&tested) {
        if season == 0 {
            assert!(batch.meta.season.is_empty());
            continue;
        }
        assert_eq!(batch.meta.season.len(), 3 * batch.rows());
        for (time, found) in batch.times().iter().zip(batch.meta.season.chunks_exact(3)) {
            for (step, found) in (1..).zip(found) {
                let expected = expected(*time, step).unwrap_or(f32::NAN);
                let same = *found == expected || (found.is_nan() && expected.is_nan());
                assert!(same, "{kind:?}, t = {time}, step {step}: {found}, expected {expected}");
            }
        }
    }
}

/// The column is its time, so what came a season before says which row it is from.
#[test]
fn a_season_before_is_the_latest_that_is_known_by_then() {
    let back = |step: i64, season: i64| season * ((step + season - 1) / season);
    check_season(TargetKind::Value, 0, |_, _| None);
    for season in [1, 2, 3, 7] {
        let of = |time: i64, step: i64| (time + step - back(step, season)) as f32;
        check_season(TargetKind::Value, season as usize, |time, step| Some(of(time, step)));
        check_season(TargetKind::Return, season as usize, |time, step| {
            let base = (time - back(step, season)) as f32;
            Some((f64::from(of(time, step) - base) / f64::from(base)) as f32)
        });
    }
    let early = |time: i64, step: i64| (time + step >= 35).then(|| (time + step - 35) as f32);
    check_season(TargetKind::Value, 35, early);
    for season in [1000, usize::MAX] {
        check_season(TargetKind::Value, season, |_, _| None);
        check_season(TargetKind::Direction, season, |_, _| None);
    }
}
