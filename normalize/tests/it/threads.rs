//! The same numbers and the same batches, bit for bit, on any number of threads and wherever
//! shards are cut.

use crate::{
    cases::{Case, METHODS, case, size},
    support::{Table, cuts, hash},
};
use millstream_data::{CrossSection, Reference, TargetKind};
use millstream_normalize::{
    FitSettings, ScaleMethod, ScalePer, ScaleSettings, SplitSettings, TargetSettings,
    WindowSettings,
};
use millstream_stage::thread_pool;
use proptest::prelude::*;
use rayon::ThreadPool;
use std::sync::OnceLock;

/// Pools of 1, 2 and 8 threads.
fn pools() -> &'static [ThreadPool; 3] {
    static POOLS: OnceLock<[ThreadPool; 3]> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 8].map(|threads| thread_pool("test", size(threads))))
}

/// Checks that what a case trains on is the same on every pool and with other shards; says whether
/// it trains on anything.
fn check(case: &Case, other_cuts: &[usize]) -> Result<bool, TestCaseError> {
    let panel = case.panel();
    let [one, two, eight] = pools().each_ref().map(|pool| pool.install(|| case.training(&panel)));
    prop_assert!(one == two, "2 threads");
    prop_assert!(one == eight, "8 threads");
    let other = case.table.panel(other_cuts);
    prop_assert!(one == pools()[1].install(|| case.training(&other)), "other shards");
    Ok(one.is_some_and(|(_, batches)| !batches.is_empty()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn small_panels_with_every_setting(case in case(), other in cuts()) {
        check(&case, &other)?;
    }
}

/// Seven series of 1,000 rows and more: many chunks of statistics, blocks of scaling and tasks of
/// filling, none of which end where a series does.
fn large() -> Table {
    let row = |series: usize, at: usize| {
        let value = |column: usize| {
            let dice = hash(&[series as u64, at as u64, column as u64]);
            match dice % 50 {
                0 => f32::NAN,
                _ => 50.0 + (dice >> 40) as f32 * 1e-6 + (at as f32 * 0.01).sin() * 9.0,
            }
        };
        ((at + at / 97) as i64, (0..5).map(value).collect())
    };
    Table::new(5, (0..7).map(|s| (0..1000 + 37 * s).map(|at| row(s, at)).collect()).collect())
}

fn large_case(scale: &ScaleSettings, target: &TargetSettings) -> Case {
    Case {
        table: large(),
        cuts: vec![701],
        fit: FitSettings {
            target: TargetSettings { columns: vec!["c0".into(), "c3".into()], ..target.clone() },
            window: WindowSettings {
                lookback: size(30),
                horizon: size(2),
                ..WindowSettings::default()
            },
            scale: scale.clone(),
        },
        split: SplitSettings::default(),
        batch_size: 256,
    }
}

#[test]
fn large_panels_with_every_method() {
    for (i, method) in METHODS.into_iter().enumerate() {
        let per = if i % 2 == 0 { ScalePer::Feature } else { ScalePer::Series };
        let scale = ScaleSettings { method, per, ..ScaleSettings::default() };
        assert!(check(&large_case(&scale, &TargetSettings::default()), &[256, 0, 1000]).unwrap());
    }
}

#[test]
fn large_panels_with_references_and_cross_sections() {
    let column = Reference::Column("c4".into());
    for reference in [Reference::First, Reference::Last, column] {
        let scale = ScaleSettings { reference, per: ScalePer::Series, ..Default::default() };
        assert!(check(&large_case(&scale, &TargetSettings::default()), &[97]).unwrap());
    }
    for cross_section in [CrossSection::Rank, CrossSection::Zscore] {
        let scale =
            ScaleSettings { cross_section, method: ScaleMethod::Robust, ..Default::default() };
        let target =
            TargetSettings { kind: TargetKind::Return, cross_section, ..Default::default() };
        assert!(check(&large_case(&scale, &target), &[97]).unwrap());
    }
}

#[test]
fn nothing_after_the_cutoff_of_a_large_panel_changes_training() {
    for method in METHODS {
        let scale = ScaleSettings { method, ..ScaleSettings::default() };
        let case = large_case(&scale, &TargetSettings::default());
        let panel = case.panel();
        let end = case.fitted(&panel).unwrap().0.train().end();
        let changed = case.table.disturbed(3, |_, time| time >= end).panel(&case.cuts);
        assert!(case.training(&panel).unwrap() == case.training(&changed).unwrap(), "{method:?}");
    }
}
