//! The table of forecasts: what stands in its rows and columns.

use crate::sample::{
    DAY, batches, checkpoint, contract, fitted_by_series, plan, predict, predictor, read_parquet,
};
use arrow::{
    array::{Array, AsArray},
    datatypes::{
        DataType, Date32Type, Float32Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    },
};
use millstream_data::{DeviceBatch, Padding, TargetKind, TimeKind};
use millstream_predictor::Output;
use millstream_stage::{Ending, Sink};
use std::fs;

#[test]
fn forecasts_come_back_in_user_units() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    let contract = contract(Some("symbol"), TimeKind::Date);
    let report = predict(&contract, folder.path(), Output::file(path.clone()).unwrap());
    assert_eq!((report.rows, report.windows, report.series, report.skipped), (6, 3, 2, 1));
    assert_eq!(report.output.as_deref(), Some(path.as_path()));

    let table = read_parquet(&path);
    let columns: Vec<String> = table.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(
        columns,
        ["symbol", "day", "step", "target_time", "y_forecast", "y", "z_forecast", "z"]
    );
    let symbols: Vec<_> = table["symbol"].as_string::<i32>().iter().flatten().collect();
    assert_eq!(symbols, ["AAA", "AAA", "CCC", "CCC", "CCC", "CCC"]);
    assert_eq!(table["day"].as_primitive::<Date32Type>().values(), &[1, 1, 2, 2, 3, 3]);
    assert_eq!(table["step"].as_primitive::<Int32Type>().values(), &[1, 2, 1, 2, 1, 2]);
    let floats = |name: &str| -> Vec<Option<f32>> {
        table[name].as_primitive::<Float32Type>().iter().collect()
    };
    assert_eq!(floats("y_forecast"), [10.0, 10.0, 12.0, 12.0, 14.0, 14.0].map(Some));
    assert_eq!(floats("z_forecast"), [-1.0, -1.0, -1.5, -1.5, -2.0, -2.0].map(Some));
    assert_eq!(floats("y")[..5], [Some(11.0); 5]);
    assert_eq!(floats("z")[..5], [Some(-0.75); 5]);
    assert!(table["y"].is_null(5) && table["z"].is_null(5), "the last outcome is unknown");
}

#[test]
fn forecasts_are_unscaled_by_the_fit_of_their_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    predict(&fitted_by_series(), folder.path(), Output::file(path.clone()).unwrap());
    let table = read_parquet(&path);
    let check = |name: &str, expected: [f64; 6]| {
        let found = table[name].as_primitive::<Float32Type>().values();
        for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
            let close = (f64::from(*found) - expected).abs() < 1e-5;
            assert!(close, "row {row} of {name} is {found} instead of {expected}");
        }
    };
    // Scaled forecasts of y are 0, 1 and 2, those of z 0, -1 and -2.
    let e = std::f64::consts::E;
    check("y_forecast", [e - 1.0, e - 1.0, 12.0, 12.0, 14.0, 14.0]);
    let curve = &fitted_by_series().scaling.targets[1].fit;
    let (one, two) = (curve.invert(-1.0), curve.invert(-2.0));
    assert!(one > two && two > -8.0, "both lie between knots: {one}, {two}");
    check("z_forecast", [100.0, 100.0, one, one, two, two]);
}

#[test]
fn a_difference_is_given_back_as_a_level() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    let mut contract = contract(Some("symbol"), TimeKind::Date);
    contract.schema.target_kind = TargetKind::Difference;
    checkpoint(folder.path(), &contract);
    let levels = |windows: std::ops::Range<usize>| -> Vec<f32> {
        windows.flat_map(|window| [100.0 * window as f32, -0.5]).collect()
    };
    let run = |last_known: [Vec<f32>; 2]| {
        let mut predictor = predictor(folder.path(), Output::file(path.clone()).unwrap());
        for (batch, last_known) in batches(&plan(&contract)).into_iter().zip(last_known) {
            let DeviceBatch::Host(mut slot) = batch else { panic!("made on the host") };
            slot.meta.last_known = last_known;
            let _flow = predictor.accept(DeviceBatch::Host(slot))?;
        }
        predictor.finish(Ending::Drained)
    };
    run([levels(0..2), levels(2..3)]).unwrap();
    let table = read_parquet(&path);
    let floats = |name: &str| table[name].as_primitive::<Float32Type>().values().to_vec();
    // The changes are those of the values that this model forecasts elsewhere.
    assert_eq!(floats("y_forecast"), [10.0, 10.0, 112.0, 112.0, 214.0, 214.0]);
    assert_eq!(floats("z_forecast"), [-1.5, -1.5, -2.0, -2.0, -2.5, -2.5]);
    assert_eq!(floats("y")[..5], [11.0; 5], "what came is a level already");
    // Without what a change counts from there is no level.
    for broken in [Vec::new(), vec![1.0; 3], vec![f32::NAN, 1.0, 1.0, 1.0]] {
        let error = run([broken, levels(2..3)]).unwrap_err().to_string();
        assert!(error.starts_with("batch 0 does not say from which level"), "{error}");
    }
}

#[test]
fn windows_padded_on_the_right_are_forecast_from_their_last_real_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    let mut contract = contract(Some("symbol"), TimeKind::Date);
    (contract.schema.padding, contract.schema.min_rows) = (Padding::Right, 1);
    predict(&contract, folder.path(), Output::file(path.clone()).unwrap());
    let table = read_parquet(&path);
    let found = table["y_forecast"].as_primitive::<Float32Type>();
    assert_eq!(found.values(), &[10.0, 10.0, 12.0, 12.0, 14.0, 14.0]);
}

#[test]
fn times_keep_their_kind_and_one_series_needs_no_column() {
    for (kind, expected) in [
        (TimeKind::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, None)),
        (TimeKind::Integer, DataType::Int64),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("forecasts.parquet");
        predict(&contract(None, kind), folder.path(), Output::file(path.clone()).unwrap());
        let table = read_parquet(&path);
        assert_eq!(table.num_columns(), 7);
        assert_eq!(table["target_time"].data_type(), &expected);
        assert_eq!(table["day"].data_type(), &expected);
        let first = match kind {
            TimeKind::Integer => table["day"].as_primitive::<Int64Type>().value(0),
            _ => table["day"].as_primitive::<TimestampMicrosecondType>().value(0),
        };
        assert_eq!(first, DAY);
    }
}

#[test]
fn csv_has_a_header_and_leaves_the_unknown_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.csv");
    predict(
        &contract(Some("symbol"), TimeKind::Date),
        folder.path(),
        Output::file(path.clone()).unwrap(),
    );
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "symbol,day,step,target_time,y_forecast,y,z_forecast,z");
    assert_eq!(lines[1], "AAA,1970-01-02,1,1970-01-03,10.0,11.0,-1.0,-0.75");
    assert_eq!(lines[6], "CCC,1970-01-04,2,,14.0,,-2.0,");
}
