//! Nothing of the future reaches training: values that may not be known are changed, and nothing
//! that is learned or learned from may change with them, not in one bit.
//!
//! The last tests remove the border and see the same changes arrive, so that the first ones do not
//! pass for want of looking.

use crate::{
    cases::{Case, Filled, METHODS, case, size},
    support::Table,
};
use millstream_data::{CrossSection, Missing, Panel, Reference, Relative, TargetKind};
use millstream_normalize::{
    FitSettings, Fitted, ScalePer, ScaleSettings, ScaledRows, SplitBy, SplitPart, SplitSettings,
    TargetSettings, WindowIndex, WindowSettings, WindowShape,
};
use proptest::prelude::*;

/// The inputs of every window that ends at or before a time, with what belongs to them, alone in
/// its batch.
fn inputs(case: &Case, panel: &Panel, fitted: &Fitted, until: i64) -> Vec<Filled> {
    let rows = ScaledRows::new(panel, &fitted.schema, &fitted.scaling).unwrap();
    let index = WindowIndex::made_in(&rows, case.shape(fitted), &SplitPart::everything());
    let mut windows = case.filled(&rows, fitted, &index, 1);
    windows.retain(|window| window.time[0] <= until);
    // Labels are the future itself.
    windows.iter_mut().for_each(|window| window.targets.clear());
    windows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_after_the_cutoff_changes_a_statistic_or_a_training_batch(
        case in case(), seed: u64, later in 0i64..3,
    ) {
        prop_assume!(case.split.by == SplitBy::Time);
        let panel = case.panel();
        let Some((split, _)) = case.fitted(&panel) else { return Ok(()) };
        let border = split.train().end().saturating_add(later);
        let changed = case.table.disturbed(seed, |_, time| time >= border);
        // All that is left of a target may be gone now, which is refused and not leaked.
        let Some(after) = case.training(&changed.panel(&case.cuts)) else { return Ok(()) };
        let before = case.training(&panel).unwrap();
        prop_assert_eq!(before.0, after.0);
        prop_assert_eq!(before.1, after.1);
    }

    #[test]
    fn nothing_after_a_window_changes_its_inputs(case in case(), seed: u64, now in 0i64..45) {
        let panel = case.panel();
        let Some((_, fitted)) = case.fitted(&panel) else { return Ok(()) };
        let changed = case.table.disturbed(seed, |_, time| time > now).panel(&case.cuts);
        let (before, after) =
            (inputs(&case, &panel, &fitted, now), inputs(&case, &changed, &fitted, now));
        prop_assert_eq!(before, after);
    }

    #[test]
    fn a_series_that_is_held_out_changes_nothing_in_training(case in case(), seed: u64) {
        prop_assume!(case.fit.target.cross_section == CrossSection::None);
        let mut case = case;
        case.split = SplitSettings { by: SplitBy::Series, train: 0.5, validation: 0.2, seed, ..SplitSettings::default() };
        case.fit.scale.cross_section = CrossSection::None;
        case.fit.scale.groups.iter_mut().for_each(|group| group.cross_section = None);
        let panel = case.panel();
        let Some((split, _)) = case.fitted(&panel) else { return Ok(()) };
        let held_out = |series: usize| !split.train().part().has_series(series as u32);
        let changed = case.table.disturbed(seed, |series, _| held_out(series));
        let Some(after) = case.training(&changed.panel(&case.cuts)) else { return Ok(()) };
        let before = case.training(&panel).unwrap();
        prop_assert_eq!(before.0, after.0);
        prop_assert_eq!(before.1, after.1);
    }
}

/// Three series of 40 rows with nothing missing.
fn whole() -> Table {
    let row = |series: i64, t: i64| {
        let x = (t as f32 * 0.7 + series as f32 * 1.3).sin();
        (t, vec![20.0 + 5.0 * x, 30.0 + (t * 7 % 11 + series) as f32])
    };
    Table::new(2, (0..3).map(|series| (0..40).map(|t| row(series, t)).collect()).collect())
}

fn with(scale: &ScaleSettings, target: &TargetSettings, train: f64) -> Case {
    Case {
        table: whole(),
        cuts: vec![17],
        fit: FitSettings {
            target: TargetSettings { columns: vec!["c0".into()], ..target.clone() },
            window: WindowSettings { lookback: size(4), horizon: size(2), ..Default::default() },
            scale: scale.clone(),
        },
        split: SplitSettings { train, validation: 0.0, ..SplitSettings::default() },
        batch_size: 16,
    }
}

/// The same table with other values from time 20 on.
fn later_changed(table: &Table) -> Table {
    let mut changed = table.clone();
    for (time, values) in changed.series.iter_mut().flatten().filter(|row| row.0 >= 20) {
        values.iter_mut().for_each(|x| *x = *x * 1.5 + (*time % 3) as f32);
    }
    changed
}

/// Whether a change of the rows from time 20 on, the other half of the data, is seen in the
/// statistics and in the batches of training.
fn is_seen(case: &Case) -> (bool, bool) {
    let changed = later_changed(&case.table);
    let before = case.training(&case.panel()).unwrap();
    let after = case.training(&changed.panel(&case.cuts)).unwrap();
    (before.0 != after.0, before.1 != after.1)
}

/// With the border nothing is seen; without it, everything is.
fn check_guard(scale: &ScaleSettings, target: &TargetSettings) {
    let guarded = with(scale, target, 0.5);
    assert_eq!(is_seen(&guarded), (false, false), "{:?}", guarded.fit);
    let unguarded = with(scale, target, 1.0);
    assert_eq!(is_seen(&unguarded), (true, true), "{:?}", unguarded.fit);
}

#[test]
fn without_the_border_every_method_sees_the_change() {
    let base = ScaleSettings::default();
    for method in METHODS {
        for missing in [Missing::Zero, Missing::Ffill, Missing::Mask, Missing::Drop] {
            let scale = ScaleSettings { method, missing, ..base.clone() };
            check_guard(&scale, &TargetSettings::default());
        }
    }
}

#[test]
fn without_the_border_every_reference_cross_section_and_target_sees_the_change() {
    let base = ScaleSettings::default();
    let column = Reference::Column("c1".into());
    for reference in [Reference::First, Reference::Last, column] {
        for relative in [Relative::Difference, Relative::Ratio] {
            let scale = ScaleSettings { reference: reference.clone(), relative, ..base.clone() };
            check_guard(&scale, &TargetSettings::default());
        }
    }
    for cross_section in [CrossSection::None, CrossSection::Rank, CrossSection::Zscore] {
        let scale = ScaleSettings { cross_section, ..base.clone() };
        check_guard(&scale, &TargetSettings::default());
        for kind in [TargetKind::Value, TargetKind::Return] {
            check_guard(&base, &TargetSettings { kind, cross_section, ..Default::default() });
        }
    }
    let direction = TargetSettings { kind: TargetKind::Direction, ..Default::default() };
    check_guard(&base, &direction);
    let difference = TargetSettings { kind: TargetKind::Difference, ..Default::default() };
    check_guard(&base, &difference);
    check_guard(&ScaleSettings { per: ScalePer::Series, ..base.clone() }, &difference);
    for delay in 1..=3 {
        for cross_section in [CrossSection::None, CrossSection::Rank] {
            let kind = TargetKind::Return;
            check_guard(
                &base,
                &TargetSettings { kind, delay, cross_section, ..Default::default() },
            );
        }
        check_guard(&base, &TargetSettings { delay, ..direction.clone() });
    }
}

/// The border judges the last row that a label needs, however long after its window that is.
#[test]
fn a_border_that_forgets_the_delay_lets_the_change_in() {
    for (kind, delay) in [TargetKind::Return, TargetKind::Direction]
        .into_iter()
        .flat_map(|kind| (1..=3).map(move |delay| (kind, delay)))
    {
        let target = TargetSettings { kind, delay, ..TargetSettings::default() };
        let case = with(&ScaleSettings::default(), &target, 0.5);
        let changed = Case { table: later_changed(&case.table), ..case.clone() };
        let (split, fitted) = case.fitted(&case.panel()).unwrap();
        let labels = |case: &Case, delay: usize| {
            let rows = ScaledRows::new(&case.panel(), &fitted.schema, &fitted.scaling).unwrap();
            let shape = WindowShape { delay, ..case.shape(&fitted) };
            let index = WindowIndex::labelled(&rows, shape, split.train().part());
            case.filled(&rows, &fitted, &index, 1).into_iter().map(|window| window.targets)
        };
        let is_seen = |delay| labels(&case, delay).ne(labels(&changed, delay));
        assert!(!is_seen(delay), "{target:?}");
        assert!(is_seen(delay - 1), "{target:?}");
        assert!(is_seen(0), "{target:?}");
    }
}

#[test]
fn a_cross_section_over_series_that_are_held_out_is_not_fitted() {
    let by_series = |scale: &ScaleSettings, target: &TargetSettings| {
        let mut case = with(scale, target, 0.5);
        case.split.by = SplitBy::Series;
        case.training(&case.panel()).is_some()
    };
    let (scale, target) = (ScaleSettings::default(), TargetSettings::default());
    let cross_section = CrossSection::Rank;
    assert!(by_series(&scale, &target));
    assert!(!by_series(&ScaleSettings { cross_section, ..scale.clone() }, &target));
    assert!(!by_series(&scale, &TargetSettings { cross_section, ..target.clone() }));
}

#[test]
fn a_change_inside_a_window_is_seen_by_it() {
    let case = with(&ScaleSettings::default(), &TargetSettings::default(), 0.5);
    let panel = case.panel();
    let (_, fitted) = case.fitted(&panel).unwrap();
    let changed = case.table.disturbed(7, |_, time| time >= 30).panel(&case.cuts);
    let seen =
        |until| inputs(&case, &panel, &fitted, until) != inputs(&case, &changed, &fitted, until);
    assert!(!seen(29));
    assert!(seen(30));
}
