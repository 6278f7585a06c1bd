//! What a model is asked to forecast: its test part and no more, on data of the form it was trained
//! on, with cross-sections over all series whichever are forecast.

use crate::{
    cases::{case, size},
    reference::Model,
    stream::{Collect, settings, stream, training},
    support::Table,
};
use millstream_data::{ColumnKind, CrossSection, Phase, Plan, TargetKind, TimeKind};
use millstream_normalize::{
    ForecastTimes, NormalizeSettings, PredictPurpose, Purpose, Span, Split, SplitBy, SplitSettings,
    TargetSettings, TrainPurpose,
};
use proptest::prelude::*;

/// Three series of 40 rows, one that ends at 20 and one that ends at 36.
fn table() -> Table {
    let row = |t: i64, s: i64| (t, vec![((t * (s + 2)) % 11) as f32, 1.0 + (t % 7) as f32]);
    let series = |(s, rows): (i64, i64)| (0..rows).map(|t| row(t, s)).collect();
    let rows = [40, 20, 40, 37, 40];
    Table::new(2, (0..5).zip(rows).map(series).collect())
}

fn trained(change: impl FnOnce(&mut NormalizeSettings)) -> Plan {
    let mut wanted = settings(training(None));
    change(&mut wanted);
    (*stream(&table(), wanted).unwrap().plan.unwrap()).clone()
}

fn split(split: SplitSettings) -> Purpose {
    TrainPurpose { split, seed: 1, ..TrainPurpose::default() }.into()
}

fn forecast(plan: &Plan, times: ForecastTimes, series: &[&str]) -> NormalizeSettings {
    let mut predict = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone());
    predict.times = times;
    predict.series = series.iter().map(|&name| name.to_owned()).collect();
    settings(predict.into())
}

/// (series, time) of all forecasts.
fn made(collected: &Collect) -> Vec<(u32, i64)> {
    collected.windows(Phase::Predict, 0)
}

#[test]
fn the_test_part_and_no_more() {
    let check = |purpose: Purpose, expected: &[(u32, std::ops::Range<i64>)]| {
        let plan = trained(|s| s.purpose = purpose);
        let found = stream(&table(), forecast(&plan, ForecastTimes::TestPart, &[])).unwrap();
        let expected: Vec<(u32, i64)> =
            expected.iter().flat_map(|(s, times)| times.clone().map(|t| (*s, t))).collect();
        assert_eq!(made(&found), expected);
    };
    // Tested from 34 on. The series that ended at 20 has none; the last windows wait for 40.
    check(training(None), &[(0, 33..40), (2, 33..40), (3, 33..37), (4, 33..40)]);
    let ended = SplitSettings {
        validation_end: Some("34".into()),
        test_end: Some("37".into()),
        ..SplitSettings::default()
    };
    check(split(ended), &[(0, 33..36), (2, 33..36), (3, 33..36), (4, 33..36)]);
    let fold = SplitSettings {
        train: 0.5,
        validation: 0.2,
        folds: 2,
        fold: size(1),
        ..SplitSettings::default()
    };
    check(split(fold), &[(0, 27..33), (2, 27..33), (3, 27..33), (4, 27..33)]);
}

#[test]
fn series_that_were_held_out_are_the_test_part() {
    let by_series =
        SplitSettings { by: SplitBy::Series, train: 0.4, validation: 0.2, ..Default::default() };
    let plan = trained(|s| s.purpose = split(by_series));
    let held_out = plan.schema.test_series.clone().unwrap();
    assert_eq!(held_out.len(), 2);
    let found = stream(&table(), forecast(&plan, ForecastTimes::TestPart, &[])).unwrap();
    let names = &plan.panel.series;
    assert!(made(&found).iter().all(|(code, _)| held_out.contains(&names[*code as usize])));
    assert!(!made(&found).is_empty());
}

#[test]
fn a_span_of_times_counts_when_a_forecast_is_made() {
    let plan = trained(|_| ());
    let times = ForecastTimes::MadeIn(Span { from: 10, until: 13 });
    let found = stream(&table(), forecast(&plan, times, &["s3", "s1"])).unwrap();
    assert_eq!(made(&found), [(1, 10), (1, 11), (1, 12), (3, 10), (3, 11), (3, 12)]);
}

/// Counted from the first time that is asked for, a stride would leave the newest forecast out.
#[test]
fn a_stride_leaves_out_no_forecast() {
    let strided = |wanted: &mut NormalizeSettings| wanted.fit.window.stride = size(3);
    let (plan, every) = (trained(strided), trained(|_| ()));
    // 23 windows of four series and 15 of one.
    assert_eq!((plan.windows.train, every.windows.train), (4 * 8 + 5, 4 * 23 + 15));
    let judged = |plan: &Plan| (plan.windows.validation, plan.windows.test);
    assert_eq!(judged(&plan), judged(&every));
    let made = |times: ForecastTimes| {
        let mut wanted = forecast(&plan, times, &["s0"]);
        strided(&mut wanted);
        made(&stream(&table(), wanted).unwrap())
    };
    let times = |from: i64, until: i64| (from..until).map(|time| (0, time)).collect::<Vec<_>>();
    assert_eq!(made(ForecastTimes::TestPart), times(33, 40));
    for from in 30..33 {
        let span = Span { from, until: i64::MAX };
        assert_eq!(made(ForecastTimes::MadeIn(span)), times(from, 40));
    }
}

#[test]
fn a_cross_section_is_over_all_series_whichever_are_forecast() {
    let plan = trained(|s| s.fit.scale.cross_section = CrossSection::Rank);
    let inputs = |series: &[&str], code: u32| {
        let found = stream(&table(), forecast(&plan, ForecastTimes::TestPart, series)).unwrap();
        let mut windows = Vec::new();
        for (.., batch) in &found.batches {
            let size = batch.inputs.len() / batch.time.len();
            let all = batch.series.iter().zip(batch.inputs.chunks_exact(size));
            windows.extend(all.filter(|(s, _)| **s == code).map(|(_, inputs)| inputs.to_vec()));
        }
        windows
    };
    assert_eq!(inputs(&["s0"], 0).len(), 7);
    assert_eq!(inputs(&["s0", "s2"], 0), inputs(&[], 0));
    // Had only two series been loaded, each would be first or last.
    let two = Table { series: table().series[..1].to_vec(), ..table() };
    let alone = stream(&two, forecast(&plan, ForecastTimes::TestPart, &[])).unwrap();
    let size = alone.batches[0].3.inputs.len() / alone.batches[0].3.time.len();
    assert_ne!(alone.batches[0].3.inputs[..size], inputs(&[], 0)[0][..]);
}

#[test]
fn series_that_are_not_there_are_named() {
    let plan = trained(|_| ());
    let of = |series: &[&str]| stream(&table(), forecast(&plan, ForecastTimes::TestPart, series));
    let warnings = of(&["s9", "s0", "s8"]).unwrap().plan.unwrap().warnings.clone();
    assert_eq!(warnings, ["no forecast of s9, s8: the data has no such series"]);
    let error = of(&["s9"]).err().unwrap().source.to_string();
    assert_eq!(error, "none of the series s9 is in the data; it has s0, s1, s2, s3, s4");
}

#[test]
fn nothing_to_forecast_is_said_with_the_numbers() {
    let plan = trained(|_| ());
    let times = ForecastTimes::MadeIn(Span { from: 90, until: i64::MAX });
    let error = stream(&table(), forecast(&plan, times, &[])).err().unwrap().source.to_string();
    let expected = "nothing to forecast in the times from 90: no window of 5 rows ends there; the \
                    data goes from 0 to 39, 0 series are too short, 0 windows miss an input or \
                    reference";
    assert_eq!(error, expected);
}

#[test]
fn the_loaded_panel_is_held_against_the_model() {
    let mut plan = trained(|_| ());
    plan.schema.kinds.insert("c1".into(), ColumnKind::Number);
    let refused = |change: fn(&mut Plan)| {
        let mut model = plan.clone();
        change(&mut model);
        let outcome = stream(&table(), forecast(&model, ForecastTimes::TestPart, &[]));
        outcome.err().map(|error| error.source.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(|_| ()), "");
    let dates = refused(|plan| plan.schema.time_kind = TimeKind::Date);
    let expected = "the model was trained on data whose time column \"t\" holds dates, but in this \
                    data it holds whole numbers";
    assert!(dates.starts_with(expected), "{dates}");
    let one = refused(|plan| plan.schema.series_column = None);
    assert!(one.contains("name of the series is missing, as it is one series"), "{one}");
}

#[test]
fn the_kind_of_a_column_is_held_against_the_model() {
    let mut plan = trained(|_| ());
    plan.schema.kinds.insert("c1".into(), ColumnKind::Boolean);
    let mut panel = plan.panel.as_ref().clone();
    panel.kinds = vec![ColumnKind::Number; 2];
    let settings = forecast(&plan, ForecastTimes::TestPart, &[]);
    let error = crate::stream::stream_panel(table().panel_with(panel, &[17]), settings);
    let error = error.err().unwrap().source.to_string();
    let expected = "column \"c1\" holds true and false, but in this data it holds numbers";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn targets_may_be_globs() {
    let targets = |names: &[&str]| {
        let mut wanted = settings(training(None));
        wanted.fit.target.columns = names.iter().map(|&name| name.to_owned()).collect();
        let plan = stream(&table(), wanted).map(|found| found.plan.unwrap().schema.targets.clone());
        plan.map_err(|error| error.source.to_string())
    };
    assert_eq!(targets(&["c*"]).unwrap(), ["c0", "c1"]);
    assert_eq!(targets(&["c1", "c?"]).unwrap(), ["c1", "c0"]);
    assert!(targets(&["d*"]).unwrap_err().contains("target.columns names \"d*\""));
    assert!(targets(&["[c"]).unwrap_err().contains("target.columns: \"[c\""));
    assert!(targets(&["c0", "c0"]).unwrap_err().contains("two columns named \"c0\""));
}

#[test]
fn a_forecast_knows_the_times_it_is_for() {
    let plan = trained(|s| s.fit.window.horizon = size(3));
    let times = ForecastTimes::MadeIn(Span { from: 35, until: 40 });
    let found = stream(&table(), forecast(&plan, times, &["s3"])).unwrap();
    // The series has rows up to 36.
    assert_eq!(made(&found), [(3, 35), (3, 36)]);
    assert_eq!(found.batches[0].3.target_time, [Some(36), None, None, None, None, None]);
    let trained = stream(&table(), settings(training(None))).unwrap();
    assert!(trained.batches.iter().all(|(.., batch)| batch.target_time.is_empty()));
}

/// A model learns changes; beside them a batch says the levels that they count from and lead to, which
/// are the source's own.
#[test]
fn a_difference_is_a_change_beside_its_levels() {
    // Of the first target the row at 35 has no value, and of the second none has one before 36.
    let mut table = table();
    table.series[0][35].1[0] = f32::NAN;
    table.series[0][..36].iter_mut().for_each(|row| row.1[1] = f32::NAN);
    let forecast_of = |columns: &[&str]| {
        let mut wanted = settings(training(None));
        wanted.fit.target.columns = columns.iter().map(|&name| name.to_owned()).collect();
        wanted.fit.target.kind = TargetKind::Difference;
        wanted.fit.window.horizon = size(2);
        let plan = stream(&table, wanted).unwrap().plan.unwrap();
        let times = ForecastTimes::MadeIn(Span { from: 33, until: 40 });
        (stream(&table, forecast(&plan, times, &["s0"])).unwrap(), plan)
    };
    let (found, plan) = forecast_of(&["c0"]);
    assert_eq!(made(&found), (33..40).map(|time| (0, time)).collect::<Vec<_>>());
    let value = |row: usize| table.series[0].get(row).map_or(f32::NAN, |row| row.1[0]);
    let fit = &plan.scaling.targets[0].fit;
    let batch = &found.batches[0].3;
    for (window, row) in (33..40).enumerate() {
        let level = if row == 35 { value(34) } else { value(row) };
        assert_eq!(batch.last_known[window], level);
        for step in 0..2 {
            let (at, later) = (2 * window + step, value(row + 1 + step));
            assert_eq!(batch.outcomes[at].to_bits(), later.to_bits());
            // From a value that is missing no change is known.
            let label = fit.apply_f32(later - value(row));
            assert!(batch.targets[at] == label || label.is_nan() && batch.targets[at].is_nan());
        }
    }
    // A window that counts from nothing is left out, and counted.
    let (found, _) = forecast_of(&["c0", "c1"]);
    assert_eq!(made(&found), (36..40).map(|time| (0, time)).collect::<Vec<_>>());
    assert_eq!(found.plan.unwrap().windows.missing_reference, 3);
}

/// With a delay an outcome is that many rows further, and so are the borders.
#[test]
fn a_delay_moves_outcomes_and_not_windows() {
    let plan = trained(|s| {
        s.fit.target =
            TargetSettings { kind: TargetKind::Return, delay: 2, ..s.fit.target.clone() };
    });
    assert_eq!(plan.schema.delay, 2);
    let found = stream(&table(), forecast(&plan, ForecastTimes::TestPart, &["s0"])).unwrap();
    // Tested from 34 on: what is forecast at 31 is the change from 33 to 34. The last that is known
    // is that from 38 to 39, and three more are still to come.
    assert_eq!(made(&found), (31..40).map(|time| (0, time)).collect::<Vec<_>>());
    let times = found.batches.iter().flat_map(|(.., batch)| batch.target_time.clone());
    let expected = (34..43).map(|time| (time < 40).then_some(time));
    assert_eq!(times.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    // The series that ended at 20 is not forecast, the one that ended at 36 to its end.
    let found = stream(&table(), forecast(&plan, ForecastTimes::TestPart, &["s1", "s3"])).unwrap();
    assert_eq!(made(&found), (31..37).map(|time| (3, time)).collect::<Vec<_>>());
}

#[test]
fn an_empty_part_is_said_with_the_numbers() {
    let warnings = |settings: SplitSettings| {
        let plan = trained(|s| s.purpose = split(settings));
        plan.warnings.into_iter().filter(|line| line.contains("no window")).collect::<Vec<_>>()
    };
    assert_eq!(warnings(SplitSettings::default()), [""; 0]);
    let no_validation = SplitSettings { validation: 0.0, ..SplitSettings::default() };
    let expected = "no window to validate with: that part has 0 of 40 distinct times, and a window \
                    needs 1 in a row; the last epoch counts as the best";
    assert_eq!(warnings(no_validation), [expected]);
    let all = SplitSettings { train: 0.8, validation: 0.2, ..SplitSettings::default() };
    let expected = "no window to test with: that part has 0 of 40 distinct times, and a window \
                    needs 1 in a row; there are no figures of unseen data";
    assert_eq!(warnings(all), [expected]);
}

#[test]
fn an_embargo_that_leaves_nothing_is_refused() {
    let with = |embargo| split(SplitSettings { embargo, ..SplitSettings::default() });
    let plan = trained(|s| s.purpose = with(5));
    // One series has ended by the time of the one test window.
    assert_eq!((plan.windows.validation, plan.windows.test), (4, 3));
    let mut eaten = settings(with(6));
    let error = stream(&table(), eaten.clone()).err().unwrap().source.to_string();
    let expected = "split.embargo is 6, which leaves no window to validate or to test with: between \
                    the borders lie 6 distinct times to validate and 6 to test; set it to 5 or less";
    assert_eq!(error, expected);
    eaten.purpose = with(0);
    assert!(stream(&table(), eaten).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_of_no_part_are_counted_by_reason(case in case()) {
        let panel = case.panel();
        let wanted = NormalizeSettings {
            fit: case.fit.clone(),
            batch_size: size(64),
            ..settings(split(case.split.clone()))
        };
        let Ok(found) = stream(&case.table, wanted) else { return Ok(()) };
        let counts = found.plan.unwrap().windows;
        let expected = Model::new(&case.table, &case.fit)
            .between(&Split::new(&panel, &case.split).unwrap());
        prop_assert_eq!([counts.outside, counts.embargoed, counts.across_border], expected);
    }
}
