//! Tests of the generated table: that it is stable, holey as asked, and worth learning from.

use super::*;
use millstream_data::{Panel, Shard};
use millstream_stage::Warnings;
use std::ops::ControlFlow;

/// What is known at a step, and the target of the next.
type Sample = (Vec<f64>, f64);

fn panel(change: impl FnOnce(&mut SourceSettings)) -> Panel {
    let mut settings = SourceSettings::default();
    change(&mut settings);
    let required = ["close_pct".to_owned()];
    let warnings = Warnings::default();
    let request = Request::new(&settings, &required, &warnings).unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let reporter = &mut ProgressReporter::new(go_on);
    Generate.read(&request, reporter).unwrap().into_panel(reporter).unwrap().panel
}

#[test]
fn the_default_table_is_the_same_on_every_machine() {
    let panel = panel(|_| {});
    assert_eq!(panel.schema().columns.len(), 17);
    assert_eq!(panel.schema().inputs, 17);
    assert_eq!(panel.schema().series.len(), 500);
    assert_eq!(panel.schema().series[499], "S499");
    assert_eq!(panel.schema().format_time(business_day(5)), "2015-01-12");
    assert_eq!(panel.schema().fingerprint, "6958ddbdc39da26cc8c2ab5eadc32593");
}

#[test]
fn gaps_and_short_series_are_as_frequent_as_asked() {
    let panel = panel(|_| {});
    let short = panel.pieces().iter().filter(|piece| piece.rows < SHORT_ROWS).count();
    assert!((10..=32).contains(&short), "{short} of 500 series are short");
    let values: Vec<f32> = panel.shards().iter().flat_map(Shard::values).copied().collect();
    let share = values.iter().filter(|value| value.is_nan()).count() as f64 / values.len() as f64;
    assert!((0.003..0.006).contains(&share), "{share} of the values are missing");
}

#[test]
fn more_gaps_leave_the_other_values_alone() {
    let (few, many) = (panel(|_| {}), panel(|settings| settings.generate.missing = 0.3));
    let both = few.shards()[0].values().iter().zip(many.shards()[0].values());
    assert!(both.filter(|(one, other)| !one.is_nan() && !other.is_nan()).all(|(a, b)| a == b));
}

#[test]
fn a_share_is_a_share() {
    let mut settings = SourceSettings::default();
    settings.generate.missing = 1.5;
    let error = settings.check().unwrap_err().to_string();
    assert!(error.contains("source.generate.missing = \"1.5\""), "{error}");
}

/// A linear model on smoothed columns explains the next target well; the last value of the best
/// single column does clearly worse; and nobody could explain all of it.
#[test]
fn the_next_target_can_be_learned() {
    let panel = panel(|settings| settings.generate.missing = 0.0);
    let width = panel.schema().width();
    let mut samples: Vec<Sample> = Vec::new();
    let mut singles: Vec<Vec<Sample>> = vec![Vec::new(); width];
    for piece in panel.pieces() {
        let rows: Vec<&[f32]> = panel.shards()[piece.shard].values()[piece.start * width..]
            .chunks(width)
            .take(piece.rows)
            .collect();
        let mut smooth = vec![0.0; width];
        for (age, pair) in rows.windows(2).enumerate() {
            for (mean, value) in smooth.iter_mut().zip(pair[0]) {
                *mean = if age == 0 {
                    f64::from(*value)
                } else {
                    0.7 * *mean + 0.3 * f64::from(*value)
                };
            }
            let next = f64::from(pair[1][0]);
            if age >= 20 {
                samples.push((smooth.clone(), next));
                for (single, value) in singles.iter_mut().zip(pair[0]) {
                    single.push((vec![f64::from(*value)], next));
                }
            }
        }
    }
    let learned = explained(&samples);
    let best = singles.iter().map(|single| explained(single)).fold(0.0, f64::max);
    assert!((0.4..0.6).contains(&learned), "a linear model explains {learned}");
    assert!(best < learned - 0.1, "the best single column explains {best}, all {learned}");
}

/// Share of the variance that least squares explains.
fn explained(samples: &[Sample]) -> f64 {
    let width = samples[0].0.len();
    let count = samples.len() as f64;
    let mean = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let centre: Vec<f64> = (0..width).map(|i| mean(&|s| s.0[i])).collect();
    let spread: Vec<f64> =
        (0..width).map(|i| mean(&|s| (s.0[i] - centre[i]).powi(2)).sqrt()).collect();
    let middle = mean(&|s| s.1);
    let total = mean(&|s| (s.1 - middle).powi(2));
    let mut system = vec![vec![0.0; width + 1]; width];
    for (inputs, next) in samples {
        let scaled: Vec<f64> = (0..width).map(|i| (inputs[i] - centre[i]) / spread[i]).collect();
        for i in 0..width {
            for j in 0..width {
                system[i][j] += scaled[i] * scaled[j] / count;
            }
            system[i][width] += scaled[i] * (next - middle) / count;
        }
    }
    let moments: Vec<f64> = system.iter().map(|row| row[width]).collect();
    let weights = solve(system);
    weights.iter().zip(moments).map(|(weight, moment)| weight * moment).sum::<f64>() / total
}

/// Gauss-Jordan elimination; the matrix is positive definite, so no pivot is zero.
fn solve(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let width = system.len();
    for pivot in 0..width {
        let divisor = system[pivot][pivot];
        system[pivot].iter_mut().for_each(|cell| *cell /= divisor);
        let row = system[pivot].clone();
        for (_, other) in system.iter_mut().enumerate().filter(|(i, _)| *i != pivot) {
            let factor = other[pivot];
            other.iter_mut().zip(&row).for_each(|(cell, value)| *cell -= factor * value);
        }
    }
    system.into_iter().map(|row| row[width]).collect()
}
