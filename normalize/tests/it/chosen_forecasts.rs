//! Which forecasts are asked for: parts of a run, the newest, those still to come, and all of it as if it
//! were an earlier day.

use crate::{
    cases::size,
    stream::{Collect, settings, stream, stream_panel, training},
    support::Table,
};
use millstream_data::{CrossSection, PanelSchema, Phase, Plan, TargetKind, TimeKind};
use millstream_normalize::{
    ForecastTimes, NormalizeSettings, PredictPurpose, Span, SplitBy, SplitSettings, TrainPurpose,
};
use std::num::NonZeroUsize;

const DAY: i64 = 86_400_000_000;

/// Series of 40, 20, 40, 37 and 3 rows.
fn table() -> Table {
    let row = |t: i64, s: i64| (t, vec![((t * (s + 2)) % 11) as f32, 1.0 + (t % 7) as f32]);
    let series = |(s, rows): (i64, i64)| (0..rows).map(|t| row(t, s)).collect();
    Table::new(2, (0..5).zip([40, 20, 40, 37, 3]).map(series).collect())
}

fn trained(change: impl FnOnce(&mut NormalizeSettings)) -> Plan {
    let mut wanted = settings(training(None));
    change(&mut wanted);
    (*stream(&table(), wanted).unwrap().plan.unwrap()).clone()
}

/// What a model with this plan is asked for.
fn asked(plan: &Plan, change: impl FnOnce(&mut PredictPurpose)) -> NormalizeSettings {
    let mut predict = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone());
    change(&mut predict);
    settings(predict.into())
}

fn newest(count: usize) -> ForecastTimes {
    ForecastTimes::Newest(NonZeroUsize::new(count).unwrap())
}

fn made(found: &Collect) -> Vec<(u32, i64)> {
    found.windows(Phase::Predict, 0)
}

fn times(series: &[(u32, std::ops::Range<i64>)]) -> Vec<(u32, i64)> {
    series.iter().flat_map(|(code, times)| times.clone().map(|time| (*code, time))).collect()
}

#[test]
fn the_newest_of_each_series_and_those_still_to_come() {
    let plan = trained(|s| s.fit.window.horizon = size(3));
    let of = |times| made(&stream(&table(), asked(&plan, |ask| ask.times = times)).unwrap());
    assert_eq!(of(newest(1)), times(&[(0, 39..40), (1, 19..20), (2, 39..40), (3, 36..37)]));
    // The first window of a series ends at its fifth row.
    let many = times(&[(0, 4..40), (1, 4..20), (2, 4..40), (3, 4..37)]);
    assert_eq!(of(newest(36)), many);
    assert_eq!(of(newest(usize::MAX)), many);
    let to_come = times(&[(0, 37..40), (1, 17..20), (2, 37..40), (3, 34..37)]);
    assert_eq!(of(ForecastTimes::ToCome), to_come);
}

#[test]
fn a_delay_and_a_horizon_are_both_still_to_come() {
    let plan = trained(|s| {
        (s.fit.target.kind, s.fit.target.delay) = (TargetKind::Return, 1);
        s.fit.window.horizon = size(2);
    });
    let found = stream(
        &table(),
        asked(&plan, |ask| {
            ask.times = ForecastTimes::ToCome;
            ask.series = vec!["s0".into()];
        }),
    );
    assert_eq!(made(&found.unwrap()), times(&[(0, 37..40)]));
}

/// By what the checkpoint keeps, and not by what the data would be divided into now.
#[test]
fn parts_are_those_that_the_model_was_trained_with() {
    for split in [
        SplitSettings::default(),
        SplitSettings { embargo: 1, ..SplitSettings::default() },
        SplitSettings { by: SplitBy::Series, train: 0.4, validation: 0.4, ..Default::default() },
    ] {
        let by_series = split.by == SplitBy::Series;
        let purpose = TrainPurpose { split, seed: 1, ..TrainPurpose::default() };
        let learned = stream(&table(), settings(purpose.into())).unwrap();
        let plan = learned.plan.as_ref().unwrap();
        // More data has come since.
        let mut longer = table();
        if !by_series {
            longer.series[0].extend((40..60).map(|t| (t, vec![1.0, 2.0])));
        }
        for (part, phase, epoch) in [
            (ForecastTimes::TrainPart, Phase::Train, 1),
            (ForecastTimes::ValidationPart, Phase::Validation, 0),
        ] {
            let mut expected = learned.windows(phase, epoch);
            expected.sort_unstable();
            let found = stream(&longer, asked(plan, |ask| ask.times = part)).unwrap();
            let mut found = made(&found);
            if by_series {
                // Series that are held out go on as far as the data does.
                let ends = [40, 20, 40, 37, 3];
                found.retain(|(code, time)| *time < ends[*code as usize] - 1);
            }
            assert_eq!(found, expected, "{part:?}");
            assert!(!expected.is_empty());
        }
    }
    let mut older = trained(|_| ());
    older.schema.validation_part = None;
    let part = ForecastTimes::ValidationPart;
    let error = stream(&table(), asked(&older, |ask| ask.times = part)).err().unwrap();
    let error = error.source.to_string();
    assert!(error.contains("did not keep where its validation part lies; train it"), "{error}");
}

/// All that a batch holds is what it would be, had the rows after that time never been.
#[test]
fn as_of_a_time_nothing_after_it_is_known() {
    const AS_OF: i64 = 35;
    let mut early = table();
    early.series.iter_mut().for_each(|rows| rows.retain(|(time, _)| *time <= AS_OF));
    for kind in
        [TargetKind::Value, TargetKind::Difference, TargetKind::Return, TargetKind::Direction]
    {
        for (cross_section, delay) in [(CrossSection::None, 1), (CrossSection::Rank, 0)] {
            let is_place = matches!(kind, TargetKind::Value | TargetKind::Return);
            let delay = if is_place && kind == TargetKind::Return { delay } else { 0 };
            let plan = trained(|s| {
                (s.fit.target.kind, s.fit.target.delay) = (kind, delay);
                s.fit.scale.cross_section = cross_section;
                s.fit.target.cross_section =
                    if is_place { cross_section } else { CrossSection::None };
                s.fit.window.horizon = size(2);
            });
            for times in [
                ForecastTimes::TestPart,
                ForecastTimes::ToCome,
                ForecastTimes::MadeIn(Span::ALL),
                newest(3),
            ] {
                let known = asked(&plan, |ask| (ask.times, ask.as_of) = (times, Some(AS_OF)));
                let known = stream(&table(), known).unwrap();
                let then = stream(&early, asked(&plan, |ask| ask.times = times)).unwrap();
                assert_eq!(known.batches, then.batches, "{kind:?}, {times:?}");
                let last = made(&known).into_iter().map(|(_, time)| time).max();
                assert_eq!(last, Some(AS_OF));
                // It could have been seen.
                let all = stream(&table(), asked(&plan, |ask| ask.times = times)).unwrap();
                assert_ne!(known.batches, all.batches, "{kind:?}, {times:?}");
            }
        }
    }
    let plan = trained(|_| ());
    let before = asked(&plan, |ask| (ask.times, ask.as_of) = (newest(1), Some(3)));
    let error = stream(&table(), before).err().unwrap().source.to_string();
    let expected = "nothing to forecast in the last row of each series, as of 3: no window of 5 rows \
                    ends there; the data goes from 0 to 39, 5 series are too short, 0 windows miss";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn series_that_are_too_short_are_named_among_those_asked_for() {
    let plan = trained(|_| ());
    let short = |series: &[&str]| {
        let series = series.iter().map(|&name| name.to_owned()).collect();
        let found = stream(&table(), asked(&plan, |ask| ask.series = series)).unwrap();
        let plan = found.plan.unwrap();
        assert_eq!(plan.windows.short_series, plan.short_series.len() as u64);
        plan.short_series.clone()
    };
    // Of all, as of those that are asked for.
    assert_eq!(short(&[]), ["s4"]);
    assert_eq!(short(&["s0", "s4"]), ["s4"]);
    assert_eq!(short(&["s0", "s2"]), [""; 0]);
}

/// A slip of the decimal point, in windows that are shown; rows that nobody looks at do not count.
#[test]
fn values_far_from_what_was_learned_from_are_counted_by_column() {
    let plan = trained(|_| ());
    let warnings = |change: fn(&mut Table), times: ForecastTimes| {
        let mut table = table();
        change(&mut table);
        let found = stream(&table, asked(&plan, |ask| ask.times = times)).unwrap();
        found.plan.unwrap().warnings.clone()
    };
    let test = ForecastTimes::TestPart;
    assert_eq!(warnings(|_| (), test), [""; 0]);
    let line = warnings(|table| table.series[0][38].1[1] = 700.0, test);
    let expected = "far outside what the model learned from, by more than 10 times its scale: c1 in 1 \
                    of 30 values";
    assert_eq!(line, [expected]);
    assert_eq!(warnings(|table| table.series[0][3].1[1] = 700.0, test), [""; 0]);
    let cents =
        warnings(|table| table.series.iter_mut().flatten().for_each(|row| row.1[0] *= 100.0), test);
    assert!(cents[0].contains("scale: c0 in ") && !cents[0].contains("c1"), "{cents:?}");
    // What is compared with others has no place of its own.
    let ranked = trained(|s| s.fit.scale.cross_section = CrossSection::Rank);
    let mut far = table();
    far.series[0][38].1[1] = 700.0;
    let found = stream(&far, asked(&ranked, |_| ())).unwrap();
    assert_eq!(found.plan.unwrap().warnings, [""; 0]);
}

#[test]
fn old_rows_are_said_where_the_newest_are_asked_for() {
    let plan = trained(|_| ());
    let warnings = |times: ForecastTimes, now: i64| {
        let mut days = table();
        days.series.iter_mut().flatten().for_each(|row| row.0 *= DAY);
        let panel = PanelSchema { time_kind: TimeKind::Date, ..plan.panel.as_ref().clone() };
        let settings = asked(&plan, |ask| {
            ask.schema.time_kind = TimeKind::Date;
            ask.schema.test_start *= DAY;
            (ask.times, ask.now) = (times, Some(now * DAY));
        });
        let found = stream_panel(days.panel_with(panel, &[17]), settings).unwrap();
        found.plan.unwrap().warnings.clone()
    };
    let behind = "the newest row of 2 series is more than 5 steps older than 1970-02-09, the newest \
                  of all, and forecasts count from there: s1, s4";
    assert_eq!(warnings(newest(1), 41), [behind]);
    let old = warnings(ForecastTimes::ToCome, 60);
    assert_eq!(old[0], behind);
    assert!(
        old[1].starts_with("the newest row is of 1970-02-09, 21 days before 1970-03-02"),
        "{old:?}"
    );
    // Of the past nobody expects that it is of today.
    assert_eq!(warnings(ForecastTimes::TestPart, 60), [""; 0]);
}

#[test]
fn what_intervals_are_calibrated_by_comes_first_and_is_of_all_series() {
    let learned = stream(&table(), settings(training(None))).unwrap();
    let plan = learned.plan.as_ref().unwrap();
    let wanted = asked(plan, |ask| {
        (ask.calibrate, ask.series) = (true, vec!["s2".into()]);
        ask.times = newest(2);
    });
    let found = stream(&table(), wanted).unwrap();
    let phases: Vec<Phase> = found.batches.iter().map(|batch| batch.1).collect();
    assert!(phases.is_sorted_by_key(|phase| *phase == Phase::Predict), "{phases:?}");
    let expected = learned.windows(Phase::Validation, 0);
    assert_eq!(found.windows(Phase::Validation, 0), expected);
    assert_eq!(made(&found), times(&[(2, 38..40)]));
    let outcomes = |collected: &Collect| {
        let of =
            collected.batches.iter().filter(|batch| (batch.0, batch.1) == (0, Phase::Validation));
        of.flat_map(|batch| batch.3.outcomes.clone()).collect::<Vec<f32>>()
    };
    assert_eq!(outcomes(&found), outcomes(&learned));
    assert_eq!(found.plan.unwrap().windows.validation, expected.len() as u64);
}
