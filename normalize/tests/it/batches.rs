//! Filled batches against the reference, value by value.

use crate::{
    cases::{Case, Filled, case, size},
    reference::{Cut, Expected, Model},
    support::Table,
};
use millstream_data::{Missing, Padding, Scaling, TargetKind};
use millstream_normalize::{
    FitSettings, ScaleMethod, ScaleSettings, ScaledRows, ShortSeries, Span, SplitPart,
    SplitSettings, TargetSettings, WindowIndex, WindowSettings,
};
use proptest::prelude::*;

struct Check<'a> {
    case: &'a Case,
    model: &'a Model<'a>,
    scaling: &'a Scaling,
}

impl Check<'_> {
    fn batch(&self, batch: &Filled, cuts: &[Cut]) -> Result<(), TestCaseError> {
        let window = &self.case.fit.window;
        let (targets, horizon) = (self.model.targets.len(), self.model.horizon());
        let padding = window.padding();
        let longest = cuts.iter().map(|cut| cut.last + 1 - cut.first).max().unwrap();
        let expected = if padding == Padding::Right { longest } else { window.lookback.get() };
        prop_assert_eq!(batch.lookback, expected);
        prop_assert_eq!(batch.series.len(), cuts.len());
        let values = self.model.features.len();
        let mask = self.case.fit.scale.missing == Missing::Mask;
        let channels = if mask { 2 * values } else { values };
        let padded = window.short == ShortSeries::Pad;
        let lengths = [
            batch.lookback * channels,
            horizon * targets,
            targets,
            usize::from(padded),
            if padded { batch.lookback } else { 0 },
            if window.segment.is_some() { batch.lookback } else { 0 },
        ];
        prop_assert_eq!(
            &batch.parts().map(<[f32]>::len)[..6],
            &lengths.map(|n| n * cuts.len())[..]
        );
        for (i, cut) in cuts.iter().enumerate() {
            let time = self.model.time(cut.series, cut.last);
            prop_assert_eq!((batch.series[i], batch.time[i]), (cut.series as u32, time));
            self.rows(batch, i, *cut, channels, padding)?;
            for (at, found) in batch.targets[i * lengths[1]..][..lengths[1]].iter().enumerate() {
                let (step, target) = (at / targets, at % targets);
                let expected = self.model.target(self.scaling, *cut, step, target);
                self.value(expected, *found, *cut, || format!("target {target} in {step} steps"))?;
            }
            for (target, found) in batch.last[i * targets..][..targets].iter().enumerate() {
                let expected = self.model.last(self.scaling, *cut, target);
                self.value(expected, *found, *cut, || format!("last of target {target}"))?;
            }
            if padded {
                prop_assert_eq!(batch.lengths[i], (cut.last + 1 - cut.first) as f32);
            }
        }
        Ok(())
    }

    /// Inputs, mask and segments, row by row.
    fn rows(
        &self,
        batch: &Filled,
        window: usize,
        cut: Cut,
        channels: usize,
        padding: Padding,
    ) -> Result<(), TestCaseError> {
        let real = cut.last + 1 - cut.first;
        let before = if padding == Padding::Left { batch.lookback - real } else { 0 };
        for place in 0..batch.lookback {
            let at = window * batch.lookback + place;
            let is_real = (before..before + real).contains(&place);
            let row = cut.first + place.saturating_sub(before);
            if let Some(mask) = batch.mask.get(at) {
                prop_assert_eq!(*mask, f32::from(u8::from(is_real)));
            }
            if let (Some(found), Some(name)) =
                (batch.segments.get(at), &self.case.fit.window.segment)
            {
                let table = &self.case.table;
                let expected =
                    if is_real { table.series[cut.series][row].1[table.column(name)] } else { 0.0 };
                prop_assert_eq!(*found, expected);
            }
            for channel in 0..channels {
                let found = batch.inputs[at * channels + channel];
                if is_real {
                    let expected = self.model.input(self.scaling, cut, row, channel);
                    self.value(expected, found, cut, || format!("channel {channel} of row {row}"))?;
                    prop_assert!(found.is_finite());
                } else {
                    prop_assert_eq!(found.to_bits(), 0, "padding of {:?}", cut);
                }
            }
        }
        Ok(())
    }

    fn value(
        &self,
        expected: Expected,
        found: f32,
        cut: Cut,
        what: impl Fn() -> String,
    ) -> Result<(), TestCaseError> {
        prop_assert!(expected.is(found), "{} of {cut:?}: {found}, expected {expected:?}", what());
        Ok(())
    }
}

/// Every batch of every part, and of what can be forecast from a time on. Says how many windows
/// there were.
fn check_case(case: &Case, from: i64) -> Result<usize, TestCaseError> {
    let panel = case.panel();
    let Some((split, fitted)) = case.fitted(&panel) else { return Ok(0) };
    let rows = ScaledRows::new(&panel, &fitted.schema, &fitted.scaling).unwrap();
    let model = Model::new(&case.table, &case.fit);
    let check = Check { case, model: &model, scaling: &fitted.scaling };
    let parts = [split.train().part(), &split.validation, &split.test];
    let labelled = parts.map(|part| {
        (WindowIndex::labelled(&rows, case.shape(&fitted), part), model.windows(part).0)
    });
    // Labels that nobody knows yet are in here.
    let part = SplitPart::times(Span { from, until: i64::MAX });
    let future = WindowIndex::forecastable(&rows, case.shape(&fitted), &part);
    let mut windows = 0;
    for (index, cuts) in labelled.into_iter().chain([(future, model.forecastable(&part).0)]) {
        let batches = case.filled(&rows, &fitted, &index, case.batch_size);
        let expected: Vec<&[Cut]> = cuts.chunks(case.batch_size).collect();
        prop_assert_eq!(batches.len(), expected.len());
        for (batch, cuts) in batches.iter().zip(expected) {
            check.batch(batch, cuts)?;
        }
        windows += cuts.len();
    }
    Ok(windows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_value_of_every_batch_is_that_of_the_reference(case in case(), from in 0i64..40) {
        check_case(&case, from)?;
    }
}

#[test]
fn a_value_is_filled_forward_from_any_distance() {
    // The first is known only at the very start, the second not for the first thousand rows.
    let row = |t: i64| {
        let late = if t < 1_000 || t % 700 != 3 { f32::NAN } else { t as f32 };
        (t, vec![if t == 0 { 3.5 } else { f32::NAN }, late, (t as f32 * 0.1).sin()])
    };
    let table = Table::new(3, vec![(0..3_000).map(row).collect(), (0..50).map(row).collect()]);
    let target = TargetSettings { columns: vec!["c2".into()], ..TargetSettings::default() };
    for missing in [Missing::Ffill, Missing::Mask, Missing::Zero] {
        let case = Case {
            table: table.clone(),
            cuts: vec![1_100],
            fit: FitSettings {
                target: target.clone(),
                window: WindowSettings { lookback: size(3), stride: size(5), ..Default::default() },
                // As they are: a fitted scale makes zero of a value that never changes, too.
                scale: ScaleSettings { method: ScaleMethod::None, missing, ..Default::default() },
            },
            split: SplitSettings::default(),
            batch_size: 64,
        };
        assert!(check_case(&case, 2_900).unwrap() > 500);
    }
}

/// The label of qlib's Alpha158, `Ref($close, -2) / Ref($close, -1) - 1`: bought at the next close, sold
/// at the one after it.
#[test]
fn the_label_of_qlib_is_a_return_after_a_delay_of_one() {
    let close = [10.0, 11.0, 12.1, 9.68, 12.1, 6.05];
    let series = (0..).zip(close).map(|(time, x)| (time, vec![x])).collect();
    let target = TargetSettings {
        columns: vec!["c0".into()],
        kind: TargetKind::Return,
        delay: 1,
        ..TargetSettings::default()
    };
    let window = WindowSettings { lookback: size(1), ..WindowSettings::default() };
    let scale = ScaleSettings { method: ScaleMethod::None, ..ScaleSettings::default() };
    let case = Case {
        table: Table::new(1, vec![series]),
        cuts: vec![5],
        fit: FitSettings { target, window, scale },
        split: SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() },
        batch_size: 16,
    };
    let (_, batches) = case.training(&case.panel()).unwrap();
    // The last row but one has nobody to sell to, the last nobody to buy from.
    assert_eq!(batches[0].time, [0, 1, 2, 3]);
    // By hand: 12.1 / 11, 9.68 / 12.1, 12.1 / 9.68 and 6.05 / 12.1, less one.
    for (label, expected) in batches[0].targets.iter().zip([0.1, -0.2, 0.25, -0.5]) {
        assert!((label - expected).abs() < 1e-6, "{label} instead of {expected}");
    }
    assert_eq!(batches[0].targets.len(), 4);
}

#[test]
fn a_change_of_just_the_dead_band_is_none() {
    // 0.1 rounded to f32 lies above 0.1, and 10 to 11 is a change of 0.1.
    let values = [10.0, 11.0, 10.0, 11.5, 10.0, 9.0, 0.0, 5.0, -10.0, -9.0, -10.0, -12.0];
    let series = (0..).zip(values).map(|(time, x)| (time, vec![x])).collect();
    let target = TargetSettings {
        columns: vec!["c0".into()],
        kind: TargetKind::Direction,
        dead_band: 0.1,
        ..TargetSettings::default()
    };
    let window = WindowSettings { lookback: size(1), ..WindowSettings::default() };
    let case = Case {
        table: Table::new(1, vec![series]),
        cuts: vec![5],
        fit: FitSettings { target, window, scale: ScaleSettings::default() },
        split: SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() },
        batch_size: 16,
    };
    let (_, batches) = case.training(&case.panel()).unwrap();
    // The window that ends at 0 has no share to speak of, and is not here.
    assert_eq!(batches[0].time, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]);
    assert_eq!(batches[0].targets, [0.0, 0.0, 1.0, -1.0, 0.0, -1.0, -1.0, 0.0, -1.0, -1.0]);
    assert_eq!(batches[0].last, [0.0; 10]);
}
