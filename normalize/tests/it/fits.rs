//! Fitted numbers against those of plain loops over the training values.

use crate::{
    cases::{Case, METHODS, case},
    curves,
    reference::{Cut, Model, Treatment},
    support::Table,
};
use millstream_data::{Curve, DataSchema, Fit, Reference, Scaling, TargetKind};
use millstream_normalize::{
    FitSettings, Fitted, ScaleMethod, ScalePer, ScaleSettings, Split, SplitPart, SplitSettings,
    TargetSettings, fit,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What a plain loop makes of all values of a column.
#[derive(Debug)]
struct Plain {
    fit: Fit,
    /// Whether there is anything to scale.
    spread: bool,
    /// How far the fitted numbers may be off.
    tolerance: f64,
}

/// Between the two nearest of the sorted values, as numpy does it.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    below + (sorted[place.ceil() as usize] - below) * (place - place.floor())
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

fn plain(method: ScaleMethod, values: &[f32]) -> Plain {
    let mut sorted: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let spread = sorted.first() < sorted.last();
    let largest = sorted.iter().map(|x| x.abs()).fold(1.0, f64::max);
    let plain = |curve, offset, scale, tolerance: f64| {
        let scale = if spread { scale } else { 1.0 };
        Plain { fit: Fit { curve, offset, scale }, spread, tolerance: tolerance * largest }
    };
    if method == ScaleMethod::None || values.is_empty() {
        let identity = plain(Curve::Linear, 0.0, 1.0, 0.0);
        return Plain { spread: method == ScaleMethod::None, ..identity };
    }
    match method {
        ScaleMethod::Zscore => {
            let (mean, deviation) = moments(&sorted);
            plain(Curve::Linear, mean, deviation, 1e-12)
        }
        ScaleMethod::Minmax => {
            let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
            plain(Curve::Linear, min, max - min, 0.0)
        }
        ScaleMethod::Robust => {
            let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share));
            let range = if high > low { high - low } else { moments(&sorted).1 };
            plain(Curve::Linear, median, range, 1e-12)
        }
        ScaleMethod::Log1p => {
            // Logarithms are those of f32.
            let logs: Vec<f64> =
                sorted.iter().map(|x| f64::from(curves::log1p(*x) as f32)).collect();
            let (mean, deviation) = moments(&logs);
            plain(Curve::Log1p, mean, deviation, 1e-12)
        }
        ScaleMethod::RankNormal => {
            let knots = sorted.len().min(1001);
            let share = |i: usize| i as f64 / (knots.max(2) - 1) as f64;
            let all = (0..knots).map(|i| quantile(&sorted, share(i))).collect();
            // Every value is a knot of its own where there are few enough.
            let knots = if sorted.len() <= 1001 { sorted.clone() } else { all };
            plain(Curve::Quantiles(knots), 0.0, 1.0, if sorted.len() <= 1001 { 0.0 } else { 1e-12 })
        }
        _ => unreachable!("none: see above; others are tested in their files"),
    }
}

fn check(found: &Fit, expected: &Plain, what: &str) -> Result<(), TestCaseError> {
    let near = |a: f64, b: f64| (a - b).abs() <= expected.tolerance;
    let curve = match (&found.curve, &expected.fit.curve) {
        (Curve::Quantiles(a), Curve::Quantiles(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b))
        }
        (a, b) => a == b,
    };
    let affine = near(found.offset, expected.fit.offset) && near(found.scale, expected.fit.scale);
    prop_assert!(curve && affine, "{what}: found {found:?}, expected {expected:?}");
    prop_assert!(found.scale.is_finite() && found.scale > 0.0 && found.offset.is_finite());
    Ok(())
}

/// The values an input column is fitted on, of one series or of all.
fn input_values(
    model: &Model<'_>,
    part: &SplitPart,
    column: usize,
    only: Option<usize>,
) -> Vec<f32> {
    let wanted = |series: usize| only.is_none_or(|only| only == series);
    if model.treatment(column).reference != Reference::None {
        let windows = model.windows(part).0.into_iter().filter(|cut| wanted(cut.series));
        let rows = |cut: Cut| (cut.first..=cut.last).map(move |row| (cut, row));
        return windows
            .flat_map(rows)
            .filter_map(|(cut, row)| model.unscaled(cut, row, column))
            .filter(|x| x.is_finite())
            .collect();
    }
    rows_of(model, part)
        .filter(|(series, _)| wanted(*series))
        .filter(|(series, row)| part.span.contains(model.time(*series, *row)))
        .filter_map(|(series, row)| model.present(series, row, column))
        .collect()
}

fn rows_of<'a>(
    model: &'a Model<'_>,
    part: &'a SplitPart,
) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let series = model.table.series.iter().enumerate();
    series
        .filter(|(code, _)| part.has_series(*code as u32))
        .flat_map(|(code, rows)| (0..rows.len()).map(move |row| (code, row)))
}

/// The values a target is fitted on: labels that lie in the part as a whole.
fn label_values(
    model: &Model<'_>,
    part: &SplitPart,
    target: usize,
    only: Option<usize>,
) -> Vec<f32> {
    let rows = rows_of(model, part).filter(|(series, _)| only.is_none_or(|only| only == *series));
    if model.settings.target.kind == TargetKind::Value {
        return rows
            .filter(|(series, row)| part.span.contains(model.time(*series, *row)))
            .filter_map(|(series, row)| model.value(series, row, target))
            .collect();
    }
    let (horizon, delay) = (model.horizon(), model.settings.target.delay);
    rows.filter(|(series, row)| {
        let rows = &model.table.series[*series];
        let mut outcomes = row + delay + 1..=row + delay + horizon;
        outcomes.all(|row| rows.get(row).is_some_and(|r| part.span.contains(r.0)))
    })
    .flat_map(|(series, row)| (0..horizon).map(move |step| (series, row, step)))
    .filter_map(|(series, row, step)| model.label(series, row, step, target))
    .collect()
}

/// One column, for all series and for each.
fn check_column(
    what: &str,
    method: ScaleMethod,
    per: ScalePer,
    values: impl Fn(Option<usize>) -> Vec<f32>,
    found: impl Fn(Option<usize>) -> Fit,
    series: usize,
) -> Result<Option<bool>, TestCaseError> {
    let all = values(None);
    let common = plain(method, &all);
    check(&found(None), &common, what)?;
    for code in 0..series {
        let own = plain(method, &values(Some(code)));
        let own = if per == ScalePer::Series && own.spread { &own } else { &common };
        check(&found(Some(code)), own, &format!("{what} of series {code}"))?;
    }
    Ok(if common.spread { None } else { Some(all.is_empty()) })
}

fn check_case(case: &Case) -> Result<(), TestCaseError> {
    let panel = case.panel();
    let Some((split, fitted)) = case.fitted(&panel) else { return Ok(()) };
    let model = Model::new(&case.table, &case.fit);
    let (part, scaling, names) = (split.train().part(), &fitted.scaling, &case.table.columns);
    let own = |code: Option<usize>| scaling.by_series.get(&format!("s{}", code?));
    // Columns without a spread: constant, or without a value.
    let mut flat = [BTreeSet::new(), BTreeSet::new()];
    for (i, &column) in model.features.iter().enumerate() {
        let Treatment { method, per, .. } = model.treatment(column);
        let values = |only| input_values(&model, part, column, only);
        let found =
            |code| own(code).map_or(&scaling.features[i].fit, |own| &own.features[i]).clone();
        let series = case.table.series.len();
        if let Some(empty) = check_column(&names[column], method, per, values, found, series)? {
            flat[usize::from(empty)].insert(names[column].clone());
        }
    }
    for (i, &column) in model.targets.iter().enumerate() {
        let Treatment { method, per, .. } = match case.fit.target.kind {
            TargetKind::Direction => {
                let (method, per) = (ScaleMethod::None, ScalePer::Feature);
                Treatment { method, per, ..model.treatment(column) }
            }
            _ => model.treatment(column),
        };
        let values = |only| label_values(&model, part, i, only);
        let found = |code| own(code).map_or(&scaling.targets[i].fit, |own| &own.targets[i]).clone();
        let what = format!("target {}", names[column]);
        let series = case.table.series.len();
        if let Some(empty) = check_column(&what, method, per, values, found, series)? {
            flat[usize::from(empty)].insert(names[column].clone());
        }
    }
    // Each kind has one line, and a column is named in it once.
    let line = |text: &str, columns: &BTreeSet<String>| -> Result<(), TestCaseError> {
        let lines = fitted.warnings.iter().filter(|line| line.contains(text));
        let mut named: Vec<&str> =
            lines.flat_map(|line| line.split(':').next().unwrap().split(", ")).collect();
        named.sort_unstable();
        prop_assert!(named.into_iter().eq(columns), "{:?}: {columns:?}", fitted.warnings);
        Ok(())
    };
    line("constant", &flat[0])?;
    line("no value", &flat[1])?;
    prop_assert_eq!(&scaling.schema_hash, &fitted.schema.hash());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn fitted_numbers_are_those_of_plain_loops(case in case()) {
        check_case(&case)?;
    }

    #[test]
    fn what_is_saved_as_json_comes_back_bit_for_bit(case in case()) {
        let Some((_, Fitted { schema, scaling, .. })) = case.fitted(&case.panel()) else {
            return Ok(());
        };
        let text = serde_json::to_string(&(&schema, &scaling)).unwrap();
        let back: (DataSchema, Scaling) = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&back.1.schema_hash, &back.0.hash());
        prop_assert_eq!(back, (schema, scaling));
    }
}

/// One series of `rows` rows, of which nine in ten are learned from, by every method.
fn fit_long(rows: usize, value: impl Fn(usize) -> f32, method: ScaleMethod) -> (Vec<f32>, Scaling) {
    let series = (0..rows).map(|row| (row as i64, vec![value(row)])).collect();
    let panel = Table::new(1, vec![series]).panel(&[1000]);
    let shares = SplitSettings { train: 0.9, validation: 0.05, ..SplitSettings::default() };
    let split = Split::new(&panel, &shares).unwrap();
    let settings = FitSettings {
        target: TargetSettings { columns: vec!["c0".into()], ..TargetSettings::default() },
        scale: ScaleSettings { method, ..ScaleSettings::default() },
        ..FitSettings::default()
    };
    let learned = (0..rows * 9 / 10).map(value).filter(|x| x.is_finite()).collect();
    (learned, fit(&panel, split.train(), &settings).unwrap().scaling)
}

#[test]
fn long_columns_far_from_zero_keep_every_digit() {
    // Chunks, trees and quantiles: many of each, with gaps, on top of a large offset.
    let value = |row: usize| match row {
        _ if row % 97 == 13 => f32::NAN,
        _ => 1e4 + (row as f32 * 0.37).sin() * 3.0 + (row % 1013) as f32 * 0.01,
    };
    for method in METHODS {
        let (learned, scaling) = fit_long(100_000, value, method);
        let mut expected = plain(method, &learned);
        // Relative to the value itself, not to 1.
        expected.tolerance = expected.tolerance.min(1e-12 * 1e4);
        for column in [&scaling.features[0], &scaling.targets[0]] {
            check(&column.fit, &expected, method.name()).unwrap();
        }
    }
}
