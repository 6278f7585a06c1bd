//! What cannot be done is refused with the numbers and the nearest choice that works, and that
//! choice does work.

use crate::{
    cases::size,
    stream::{settings, stream, table, training},
    support::Table,
};
use millstream_data::{CrossSection, Reference, TargetKind};
use millstream_normalize::{
    NormalizeError, NormalizeSettings, PredictPurpose, Purpose, Rank, ScaleGroup, ScaleMethod,
    SplitBy, SplitSettings, WindowOrder,
};

fn refusal(table: &Table, settings: NormalizeSettings) -> String {
    let Err(error) = stream(table, settings) else { panic!("accepted") };
    assert_eq!(error.stage, "normalize");
    assert!(error.source.is::<NormalizeError>());
    error.source.to_string()
}

fn changed(change: impl FnOnce(&mut NormalizeSettings)) -> NormalizeSettings {
    let mut settings = settings(training(None));
    change(&mut settings);
    settings
}

/// Each of the texts is in the message.
fn check_refused(change: impl FnOnce(&mut NormalizeSettings), expected: &[&str]) {
    let text = refusal(&table(), changed(change));
    for expected in expected {
        assert!(text.contains(expected), "{expected:?} is not in {text:?}");
    }
}

fn check_accepted(change: impl FnOnce(&mut NormalizeSettings)) {
    stream(&table(), changed(change)).unwrap();
}

fn split(settings: &mut NormalizeSettings) -> &mut SplitSettings {
    let Purpose::Train(train) = &mut settings.purpose else { panic!("not for training") };
    &mut train.split
}

#[test]
fn a_delay_that_no_series_has_the_rows_for_or_that_does_nothing() {
    let delayed = |kind: TargetKind, delay: usize| {
        move |s: &mut NormalizeSettings| (s.fit.target.kind, s.fit.target.delay) = (kind, delay)
    };
    check_refused(
        delayed(TargetKind::Value, 1),
        &["target.delay = 1", "target.kind = \"value\"", "set target.kind = \"return\""],
    );
    check_refused(
        delayed(TargetKind::Return, 35),
        &[
            "window.lookback 5, target.delay 35 and window.horizon 1 need 41 rows, the longest has 40",
        ],
    );
    let below = "set window.horizon and target.delay below 28 together";
    check_refused(delayed(TargetKind::Return, usize::MAX), &[below]);
    check_accepted(delayed(TargetKind::Direction, 3));
    check_refused(
        delayed(TargetKind::Difference, 1),
        &["target.delay = 1", "target.kind = \"difference\"", "no level can be given back"],
    );
    check_refused(
        |s| {
            s.fit.target.kind = TargetKind::Difference;
            s.fit.target.cross_section = CrossSection::Rank;
        },
        &["target.cross_section", "target.kind = \"difference\"", "set target.kind = \"return\""],
    );
}

#[test]
fn windows_longer_than_every_series() {
    check_refused(
        |s| s.fit.window.lookback = size(40),
        &["need 41 rows, the longest has 40; set window.lookback to 27 or less"],
    );
    check_accepted(|s| s.fit.window.lookback = size(27));
    check_refused(|s| s.fit.window.horizon = size(50), &["set window.horizon below 28"]);
    // Whatever is made as large as these would not fit, so nothing is.
    let most = size(i64::MAX as usize);
    for kind in [TargetKind::Value, TargetKind::Return, TargetKind::Direction] {
        check_refused(
            |s| {
                s.fit.target.kind = kind;
                s.fit.window.horizon = most;
                s.fit.window.lookback = most;
            },
            &["window.lookback 9223372036854775807", "the longest has 40"],
        );
    }
    check_refused(|s| split(s).embargo = most.get(), &["split.embargo is 9223372036854775807"]);
}

/// One series of so many rows.
fn short_table(rows: i64) -> Table {
    let mut table = table();
    table.series = vec![table.series[0][..rows as usize].to_vec()];
    table
}

#[test]
fn a_handful_of_rows_gets_advice_that_works() {
    let told = refusal(&short_table(1), changed(|_| ()));
    assert!(told.contains("the longest has 1 row;") && told.contains("load more rows"), "{told}");
    // Training sees 8 of 11.
    let told = refusal(&short_table(11), changed(|s| s.fit.window.lookback = size(60)));
    assert!(told.contains("set window.lookback to 7 or less"), "{told}");
    stream(&short_table(11), changed(|s| s.fit.window.lookback = size(7))).unwrap();
    let told = refusal(&short_table(11), changed(|s| s.fit.window.lookback = size(10)));
    assert!(!told.contains("train_end later"), "there is nothing later: {told}");
    assert!(told.contains("set window.lookback to 7 or less"), "{told}");
}

#[test]
fn an_empty_training_part_says_where_the_first_window_is_complete() {
    check_refused(
        |s| s.fit.window.lookback = size(35),
        &["no window to learn from: training ends at 28", "36 rows", "complete at 35"],
    );
    check_refused(
        |s| split(s).train = 0.01,
        &["training ends at 0", "complete at 5", "split.train to 0.150 or more"],
    );
    check_accepted(|s| split(s).train = 0.15);
    check_accepted(|s| split(s).train_end = Some("6".into()));
    check_refused(|s| split(s).train_end = Some("5".into()), &["complete at 5"]);
}

#[test]
fn a_held_out_training_part_speaks_of_series_not_of_times() {
    // Two series of four have windows, and one is learned from.
    let mut table = table();
    table.series.push(table.series[2].clone());
    let held_out = |train: f64, seed: u64| {
        let by = SplitBy::Series;
        changed(|s| {
            *split(s) = SplitSettings { by, train, validation: 0.0, seed, ..Default::default() }
        })
    };
    let failures: Vec<String> = (0..20)
        .filter_map(|seed| stream(&table, held_out(0.25, seed)).err())
        .map(|error| error.source.to_string())
        .collect();
    assert!((1..20).contains(&failures.len()), "it depends on the seed: {}", failures.len());
    for expected in [
        "no window to learn from: none of the 1 series that are learned from has 6 rows",
        "of 4 series 2 have such a window",
        "another split.seed, or set split.train to 0.750 or more",
    ] {
        assert!(failures[0].contains(expected), "{expected:?} is not in {:?}", failures[0]);
    }
    for seed in 0..20 {
        stream(&table, held_out(0.75, seed)).unwrap();
    }
}

#[test]
fn an_empty_training_part_of_everything_has_no_end() {
    let mut table = table();
    table.series.iter_mut().flatten().filter(|row| row.0 != 3).for_each(|row| row.1[0] = f32::NAN);
    let text = refusal(&table, changed(|s| (split(s).train, split(s).validation) = (1.0, 0.0)));
    assert!(text.contains("learn from: no series has 6 rows in a row"), "{text}");
    assert!(text.contains("fill what is missing"), "{text}");
}

#[test]
fn columns_that_are_not_there_and_the_nearest_that_is() {
    let mut table = table();
    table.columns = vec!["close".into(), "volume".into()];
    let check = |change: &dyn Fn(&mut NormalizeSettings), expected: &[&str]| {
        let settings = changed(|s| {
            s.fit.target.columns = vec!["close".into()];
            change(s);
        });
        let text = refusal(&table, settings);
        for expected in expected {
            assert!(text.contains(expected), "{expected:?} is not in {text:?}");
        }
    };
    let close = "did you mean \"close\"? It has close, volume";
    check(
        &|s| s.fit.target.columns = vec!["closed".into()],
        &["target.columns names \"closed\"", close],
    );
    check(&|s| s.fit.target.columns = vec!["x".into()], &["it has close, volume"]);
    check(&|s| s.fit.target.columns.clear(), &["target.columns is empty"]);
    check(
        &|s| s.fit.window.segment = Some("volumes".into()),
        &["window.segment is \"volumes\"", "did you mean \"volume\"?"],
    );
    check(
        &|s| s.fit.scale.reference = Reference::Column("cloze".into()),
        &["scale.reference is \"cloze\"", "\"first\", \"last\"", close],
    );
    let group = |glob: &str| ScaleGroup { columns: vec![glob.into()], ..Default::default() };
    check(
        &|s| s.fit.scale.groups = vec![group("clos"), group("volume")],
        &["scale.groups entry 1 names \"clos\", which matches no column", close],
    );
    check(&|s| s.fit.scale.groups = vec![group("v[")], &["scale.groups entry 1", "\"v[\""]);
}

#[test]
fn a_target_without_a_value_names_the_columns_that_have_some() {
    let mut table = table();
    table.series.iter_mut().flatten().for_each(|row| row.1[0] = f32::NAN);
    let text = refusal(&table, changed(|_| ()));
    let expected = "target \"c0\" has no value in any of the 83 rows; columns with values: c1";
    assert!(text.contains(expected), "{text}");
    table.series.iter_mut().flatten().for_each(|row| row.1[1] = f32::INFINITY);
    assert!(refusal(&table, changed(|_| ())).contains("no column has one"));
}

#[test]
fn a_target_without_a_value_in_the_training_part_is_counted() {
    let mut table = table();
    let early = table.series.iter_mut().flatten().filter(|row| row.0 < 28);
    early.for_each(|row| row.1[0] = f32::NAN);
    let text = refusal(&table, changed(|_| ()));
    for expected in ["training ends at 28", "46 windows miss their target", "complete at 28"] {
        assert!(text.contains(expected), "{expected:?} is not in {text:?}");
    }
}

#[test]
fn borders_outside_the_data_and_the_nearest_inside() {
    let nearest = |key: &'static str, value: &str, nearest: &str| {
        let set = |s: &mut NormalizeSettings, value: &str| {
            let split = split(s);
            match key {
                "train_end" => split.train_end = Some(value.into()),
                "validation_end" => split.validation_end = Some(value.into()),
                _ => split.test_end = Some(value.into()),
            }
        };
        let expected = format!("the nearest that works is {nearest}");
        check_refused(|s| set(s, value), &[&format!("split.{key} is {value}"), &expected]);
        let accepted = stream(&table(), changed(|s| set(s, nearest)));
        if let Err(error) = accepted {
            // A border may be fine and still leave too little to learn from.
            assert!(error.source.to_string().contains("no window to learn from"), "{error}");
        }
    };
    nearest("train_end", "99", "39");
    nearest("train_end", "0", "1");
    nearest("train_end", "-5", "1");
    nearest("validation_end", "28", "29");
    nearest("validation_end", "40", "39");
    nearest("test_end", "3", "35");
    check_refused(
        |s| split(s).train_end = Some("soon".into()),
        &["split.train_end is \"soon\", which is not a time; write it like \"39\""],
    );
    check_refused(|s| split(s).train = 1.5, &["split.train is 1.5", "a share from 0 to 1"]);
}

#[test]
fn folds_that_are_not_there() {
    check_refused(
        |s| *split(s) = SplitSettings { folds: 9, ..Default::default() },
        &["split.folds is 9", "leave 6 of 40 times", "use at most 6 folds"],
    );
    check_accepted(|s| *split(s) = SplitSettings { folds: 6, ..Default::default() });
    check_refused(
        |s| *split(s) = SplitSettings { folds: 2, fold: size(3), ..Default::default() },
        &["split.fold is 3, but there are 2 folds; use 1 to 2"],
    );
}

#[test]
fn batches_that_cannot_be_made() {
    check_refused(
        |s| {
            s.fit.window.order = WindowOrder::ByTime;
            s.batch_size = size(1);
        },
        &["has 2 windows; set train.batch_size to 2 or more, now 1"],
    );
    for order in [WindowOrder::Global, WindowOrder::ByTime] {
        check_refused(
            |s| {
                s.fit.window.order = order;
                s.rank = Rank { rank: 0, ranks: 3 };
            },
            &["a batch of 8 windows", "3 ranks; use a multiple of 3"],
        );
        check_refused(
            |s| {
                s.fit.window.order = order;
                s.rank = Rank { rank: 2, ranks: 2 };
            },
            &["a rank below 2 (now 2)"],
        );
    }
}

#[test]
fn settings_that_exclude_each_other() {
    let held_out = SplitSettings { by: SplitBy::Series, ..Default::default() };
    for of_label in [false, true] {
        check_refused(
            |s| {
                *split(s) = held_out.clone();
                if of_label {
                    s.fit.target.cross_section = CrossSection::Rank;
                } else {
                    s.fit.scale.cross_section = CrossSection::Zscore;
                }
            },
            &["a cross_section does not go with split.by = \"series\"", "split by time"],
        );
    }
    check_refused(
        |s| *split(s) = SplitSettings { folds: 2, ..held_out.clone() },
        &["split.folds = 2", "split.by = \"series\"", "set split.by = \"time\""],
    );
    check_refused(
        |s| {
            let train_end = Some("9".into());
            *split(s) = SplitSettings { train_end, folds: 2, ..Default::default() };
        },
        &["split.train_end does not go with split.folds"],
    );
    check_refused(
        |s| {
            s.fit.target.kind = TargetKind::Direction;
            s.fit.target.cross_section = CrossSection::Rank;
        },
        &["target.cross_section", "set target.kind = \"return\""],
    );
    check_refused(
        |s| {
            s.fit.scale.reference = Reference::Last;
            s.fit.scale.method = ScaleMethod::Log1p;
        },
        &["column \"c0\"", "method \"log1p\"", "by \"zscore\", \"robust\", \"minmax\""],
    );
    check_refused(
        |s| {
            s.fit.scale.reference = Reference::Last;
            s.fit.scale.cross_section = CrossSection::Rank;
        },
        &["scale.reference of column \"c0\" does not go with its scale.cross_section"],
    );
    check_refused(|s| s.fit.scale.clip = -3.0, &["scale.clip is -3"]);
    check_refused(|s| s.fit.target.dead_band = -0.5, &["target.dead_band is -0.5"]);
}

#[test]
fn segments_that_are_no_small_integers() {
    let mut table = table();
    let with_segment = || changed(|s| s.fit.window.segment = Some("c1".into()));
    stream(&table, with_segment()).unwrap();
    for bad in [0.5, -1.0, 65_536.0, f32::NAN] {
        table.series[1][7].1[1] = bad;
        let text = refusal(&table, with_segment());
        let expected = format!("column \"c1\" is {bad} for series \"s1\" at 7");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn a_panel_without_what_the_model_was_trained_on() {
    let trained =
        stream(&table(), changed(|s| s.fit.scale.reference = Reference::Column("c1".into())));
    let plan = trained.unwrap().plan.unwrap();
    let predict = |table: &Table| {
        let purpose = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone());
        refusal(table, settings(purpose.into()))
    };
    let mut renamed = table();
    renamed.columns[0] = "c9".into();
    assert!(predict(&renamed).contains("trained on column \"c0\", which the data does not have"));

    // What values are relative to need not be an input.
    let mut plan = (*plan).clone();
    plan.scaling.features.truncate(1);
    plan.schema.features.truncate(1);
    let purpose = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone());
    let mut renamed = table();
    renamed.columns[1] = "c9".into();
    let text = refusal(&renamed, settings(purpose.into()));
    assert!(text.contains("trained on column \"c1\", which the data does not have"), "{text}");
}
