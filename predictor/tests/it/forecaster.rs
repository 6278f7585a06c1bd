//! Forecasts within a program: of windows in user units and of batches, with intervals around them.

use crate::sample::{batches, checkpoint, contract, find, fitted_by_series, plan, read_parquet};
use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Float32Type,
};
use millstream_data::{CrossSection, DeviceBatch, Missing, Phase, Tag, TargetKind, TimeKind};
use millstream_predictor::{Contract, Forecaster, Output, Predictor, Windows};
use millstream_stage::{Ending, Sink};
use std::num::NonZeroUsize;

fn forecaster(contract: &Contract) -> Forecaster {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), contract);
    Forecaster::load_with_models(folder.path(), find).unwrap()
}

fn column(rows: &RecordBatch, name: &str) -> Vec<f32> {
    rows[name].as_primitive::<Float32Type>().values().to_vec()
}

/// Windows of three rows, of which the last has these values.
fn windows(last: &[(&str, [f32; 2])]) -> Windows {
    let mut windows = Windows::default();
    for (at, (series, last)) in last.iter().enumerate() {
        windows.push(*series, at as i64, &[5.0, 6.0, 7.0, 8.0, last[0], last[1]]);
    }
    windows
}

/// The batches of the sample as those of a validation pass.
fn as_validation(batches: Vec<DeviceBatch>) -> impl Iterator<Item = DeviceBatch> {
    batches.into_iter().map(|mut batch| {
        let DeviceBatch::Host(slot) = &mut batch else { unreachable!("it is on the host") };
        let index = slot.meta.tag.unwrap().index;
        slot.meta.tag = Some(Tag { epoch: 0, phase: Phase::Validation, index });
        batch
    })
}

#[test]
fn windows_in_user_units_give_the_table_of_a_file() {
    let mut contract = contract(Some("symbol"), TimeKind::Integer);
    (contract.scaling.features[1].fit.offset, contract.scaling.features[1].fit.scale) = (1.0, 0.5);
    let mut forecaster = forecaster(&contract).batch_size(NonZeroUsize::new(2).unwrap());
    let three = windows(&[("A", [1.0, 2.0]), ("B", [2.0, 0.0]), ("A", [f32::NAN, 1.0])]);
    let rows = forecaster.forecast(&three).unwrap();
    assert_eq!(rows.schema(), *forecaster.schema());
    let symbols: Vec<_> = rows["symbol"].as_string::<i32>().iter().flatten().collect();
    assert_eq!(symbols, ["A", "A", "B", "B", "A", "A"]);
    // The model says the last row: 1, 2 and nothing of the first column, 2, -2 and 0 of the second.
    assert_eq!(column(&rows, "y_forecast"), [12.0, 12.0, 14.0, 14.0, 10.0, 10.0]);
    assert_eq!(column(&rows, "z_forecast"), [0.0, 0.0, -2.0, -2.0, -1.0, -1.0]);
    assert_eq!((rows["y"].null_count(), rows["target_time"].null_count()), (6, 6));
    // Once more, and of none.
    assert_eq!(forecaster.forecast(&three).unwrap(), rows);
    assert_eq!(forecaster.forecast(&Windows::default()).unwrap().num_rows(), 0);
}

#[test]
fn a_difference_needs_the_level_that_it_counts_from() {
    let mut contract = contract(Some("symbol"), TimeKind::Integer);
    contract.schema.target_kind = TargetKind::Difference;
    contract.schema.targets = vec!["b".into()];
    contract.scaling.targets.truncate(1);
    (contract.scaling.targets[0].name, contract.scaling.targets[0].fit.offset) = ("b".into(), 0.0);
    contract.schema.features = vec!["a".into(), "b".into()];
    let refused = |change: fn(&mut Contract)| {
        let mut contract = contract.clone();
        change(&mut contract);
        let last = windows(&[("A", [1.0, f32::NAN])]);
        forecaster(&contract).forecast(&last).unwrap_err().to_string()
    };
    let level = refused(|contract| {
        contract.schema.targets = vec!["c".into()];
        contract.scaling.targets[0].name = "c".into();
    });
    assert!(level.contains("\"c\" needs its level, which is none of the features"), "{level}");
}

#[test]
fn what_a_window_by_itself_cannot_tell_is_refused() {
    let refused = |change: fn(&mut Contract), windows: Windows| {
        let mut contract = contract(Some("symbol"), TimeKind::Integer);
        change(&mut contract);
        forecaster(&contract).forecast(&windows).unwrap_err().to_string()
    };
    let one = || windows(&[("A", [1.0, f32::NAN])]);
    let ranks = |contract: &mut Contract| {
        contract.scaling.features[1].cross_section = CrossSection::Rank;
    };
    assert!(refused(ranks, one()).contains("\"b\" needs the other series at its time"));
    let relative = |contract: &mut Contract| {
        contract.scaling.features[0].reference = millstream_data::Reference::Last;
    };
    assert!(refused(relative, one()).contains("\"a\" needs another row of its window"));
    let dropped = |contract: &mut Contract| contract.scaling.missing = Missing::Drop;
    assert!(refused(dropped, one()).contains("a window of \"A\" misses \"b\""));
    let mut short = one();
    short.push("A", 1, &[1.0; 5]);
    let size = "2 windows of 3 rows with 2 features are 12 values, but there are 11";
    assert!(refused(|_| (), short).contains(size));
}

#[test]
fn scales_of_a_series_are_its_own() {
    let mut contract = fitted_by_series();
    contract.scaling.by_series.get_mut("AAA").unwrap().features[0].offset = -3.0;
    let mut forecaster = forecaster(&contract);
    let rows = forecaster.forecast(&windows(&[("AAA", [1.0, 0.0]), ("CCC", [1.0, 0.0])])).unwrap();
    // 4 by the curve and fit of its own, 1 by those of the column.
    let own = (4.0f64 * 0.5 + 1.0).exp_m1() as f32;
    assert_eq!(column(&rows, "y_forecast"), [own, own, 12.0, 12.0]);
}

#[test]
fn intervals_are_calibrated_by_the_validation_pass_alone() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let path = folder.path().join("forecasts.parquet");
    let loaded = Forecaster::load_with_models(folder.path(), find).unwrap();
    let loaded = loaded.with_intervals(&[0.5]).unwrap();
    let output = Output::file(path.clone()).unwrap();
    let mut predictor = Predictor::of(loaded, output, Box::new(|_| {})).unwrap();
    let plan = plan(&contract);
    for batch in as_validation(batches(&plan)).chain(batches(&plan)) {
        let _flow = predictor.accept(batch).unwrap();
    }
    let report = predictor.finish(Ending::Drained).unwrap();
    assert_eq!((report.rows, report.windows, report.series), (6, 3, 2));
    let rows = read_parquet(&path);
    // Forecasts of y are 10, 12 and 14, its outcomes 11: the second smallest of 1, 1, 3 and of 1, 1.
    assert_eq!(column(&rows, "y_forecast"), [10.0, 10.0, 12.0, 12.0, 14.0, 14.0]);
    assert_eq!(column(&rows, "y_lower_0.5"), [9.0, 9.0, 11.0, 11.0, 13.0, 13.0]);
    assert_eq!(column(&rows, "y_upper_0.5"), [11.0, 11.0, 13.0, 13.0, 15.0, 15.0]);
}

#[test]
fn without_enough_to_calibrate_by_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let path = folder.path().join("forecasts.csv");
    let loaded = Forecaster::load_with_models(folder.path(), find).unwrap();
    let loaded = loaded.with_intervals(&[0.9]).unwrap();
    let output = Output::file(path.clone()).unwrap();
    let mut predictor = Predictor::of(loaded, output, Box::new(|_| {})).unwrap();
    let plan = plan(&contract);
    for batch in as_validation(batches(&plan)) {
        let _flow = predictor.accept(batch).unwrap();
    }
    let error = predictor.accept(batches(&plan).swap_remove(0)).unwrap_err().to_string();
    let expected =
        "an interval of 0.9 needs 9 validation windows with a known outcome, and y, step 1 has 3";
    assert!(error.starts_with(expected), "{error}");
    drop(predictor);
    assert!(!path.exists());
}
