//! Forecasts in a table of a real server: all of them or none, whatever the table is like and whoever else
//! writes.

mod lost_commit;
mod place;
mod refused;
mod together;

use crate::sample::{batches, checkpoint, contract, plan, predictor};
use arrow::array::{
    ArrayRef, Date32Array, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use millstream_data::TimeKind;
use millstream_stage::{Ending, Sink};
use place::{Place, forecasts, written};
use std::sync::Arc;

#[test]
fn rows_are_merged_by_their_key() {
    let place = Place::start();
    let warned = place.write(&forecasts(0..100, 1.0)).unwrap();
    assert_eq!(warned, Vec::<String>::new());
    let all =
        "SELECT count(*), count(DISTINCT created_at), sum(y_forecast), min(model), min(run) FROM f";
    assert_eq!(place.text(all), "100 1 100 lstm first");
    // The same run once more, with some that are new: no word about it.
    assert_eq!(place.write(&forecasts(50..150, 2.0)).unwrap(), Vec::<String>::new());
    assert_eq!(place.text(all), "150 2 250 lstm first");
    // Another run replaces what the first had to say, and that is said.
    let warned = place.write_as("second", "", &forecasts(140..160, 3.0)).unwrap();
    assert_eq!(warned.len(), 1);
    let expected =
        "10 forecasts of run first by the name of model \"lstm\" were replaced in table \"f\"";
    assert!(warned[0].starts_with(expected), "{warned:?}");
    assert_eq!(place.text(all), "160 3 290 lstm first");
    // By another name it keeps its own.
    let warned = place.write_as("second", "&model=mine", &forecasts(0..100, 4.0)).unwrap();
    assert_eq!(warned, Vec::<String>::new());
    assert_eq!(
        place.text("SELECT count(*), sum(y_forecast) FROM f WHERE model = 'mine'"),
        "100 400"
    );
    assert_eq!(place.text("SELECT sum(y_forecast) FROM f WHERE model = 'lstm'"), "290");
}

/// Else an interval of one run would stand beside the forecast of another.
#[test]
fn what_is_replaced_leaves_nothing_of_another_forecast_behind() {
    let place = Place::start();
    place.write(&forecasts(0..4, 1.0)).unwrap();
    place.run(r#"ALTER TABLE f ADD "y_lower_0.9" real, ADD a_forecast real, ADD note text"#);
    place.run("UPDATE f SET \"y_lower_0.9\" = 0.5, a_forecast = 7, note = 'mine'");
    place.write_as("second", "", &forecasts(0..3, 2.0)).unwrap();
    let found = "SELECT count(*), count(\"y_lower_0.9\"), count(a_forecast), count(note) FROM f";
    assert_eq!(place.text(found), "4 1 1 4");
}

#[test]
fn the_table_that_is_made_has_these_columns() {
    let place = Place::start();
    place.write(&forecasts(0..3, 1.0)).unwrap();
    let columns = place.text(
        "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) \
         FROM pg_attribute WHERE attrelid = 'f'::regclass AND attnum > 0",
    );
    assert_eq!(
        columns,
        "series text, time date, step integer, target_time date, y_forecast real, y_q0.1 real, \
         y real, model text, run text, created_at timestamp with time zone"
    );
    let key = place.text(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint \
         WHERE conrelid = 'f'::regclass AND contype = 'p'",
    );
    assert_eq!(key, "PRIMARY KEY (series, \"time\", step, model)");
}

/// Every type, with what is missing, no number or far away.
#[test]
fn values_are_what_they_were() {
    let place = Place::start();
    let at = [0i64, 1_600_000_000_123_456, -62_135_596_800_000_000];
    let y = [Some(f32::MIN_POSITIVE), Some(f32::NAN), None];
    let columns: [(&str, ArrayRef); 5] = [
        ("at", Arc::new(TimestampMicrosecondArray::from(at.to_vec()))),
        ("step", Arc::new(Int32Array::from(vec![1, i32::MAX, 3]))),
        ("target_time", Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(20_000)]))),
        ("y_forecast", Arc::new(Float32Array::from(y.to_vec()))),
        ("n", Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]))),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, column)| (name, column, true)),
    );
    place.write(&rows.unwrap()).unwrap();
    // No series is a series without a name.
    let text = place.text(
        "SELECT string_agg(concat_ws(' ', '<' || series || '>', time, step, target_time, y_forecast, n), ', ' \
         ORDER BY step) FROM f",
    );
    assert_eq!(
        text,
        "<> 1970-01-01 00:00:00 1 0001-01-01 1.1754944e-38 -9223372036854775808, \
         <> 0001-01-01 00:00:00 3 2024-10-04 9223372036854775807, \
         <> 2020-09-13 12:26:40.123456 2147483647 NaN 0"
    );
}

#[test]
fn names_and_texts_are_what_they_say() {
    let place = Place::start();
    place.run("CREATE SCHEMA \"a b\"");
    let odd = ["it's", "a\\b", "\"", "ä 漢", "x\ny"];
    let columns: [(&str, ArrayRef); 4] = [
        ("symbol", Arc::new(StringArray::from(odd.to_vec()))),
        ("day", Arc::new(Date32Array::from(vec![1; 5]))),
        ("step", Arc::new(Int32Array::from(vec![1; 5]))),
        ("close \"x\"_forecast", Arc::new(Float32Array::from(vec![0.5; 5]))),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let table = place.table("\"a b\".\"It's; DROP TABLE x\"", "run's \\ \"name\"", "&model=m'%5C");
    written(table, &[&rows]).unwrap();
    let count = place.text(
        "SELECT count(*), sum(\"close \"\"x\"\"_forecast\"), min(model), min(run) \
         FROM \"a b\".\"It's; DROP TABLE x\"",
    );
    assert_eq!(count, "5 2.5 m'\\ run's \\ \"name\"");
    for name in odd {
        let found = place.text(&format!(
            "SELECT count(*) FROM \"a b\".\"It's; DROP TABLE x\" WHERE series = $x${name}$x$"
        ));
        assert_eq!(found, "1", "{name}");
    }
}

#[test]
fn what_is_not_finished_was_never_there() {
    let place = Place::start();
    let rows = forecasts(0..5000, 1.0);
    let mut sink = place.table("f", "first", "").open(&rows.schema()).unwrap();
    for _ in 0..20 {
        sink.write(&rows).unwrap();
    }
    drop(sink);
    assert_eq!(place.text("SELECT to_regclass('f')"), "-");
    place.write(&forecasts(0..10, 1.0)).unwrap();
    let mut sink = place.table("f", "first", "").open(&rows.schema()).unwrap();
    sink.write(&rows).unwrap();
    drop(sink);
    assert_eq!(place.text("SELECT count(*) FROM f"), "10");
}

/// As the predictor drives it, to the name of the place that the report gives.
#[test]
fn a_predictor_writes_to_it() {
    let place = Place::start();
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Timestamp);
    checkpoint(folder.path(), &contract);
    for (ending, expected) in [(Ending::Interrupted, "-"), (Ending::Drained, "f")] {
        let table = place.table("f", "first", "");
        let shown = table.shown().to_owned();
        let mut predictor = predictor(folder.path(), table.into_output());
        for batch in batches(&plan(&contract)) {
            let _flow = predictor.accept(batch).unwrap();
        }
        let report = predictor.finish(ending).unwrap();
        assert_eq!(report.output.is_some(), ending == Ending::Drained);
        assert!(report.output.is_none_or(|output| output.to_str() == Some(&shown)));
        assert_eq!(place.text("SELECT to_regclass('f')"), expected);
    }
    let text =
        place.text("SELECT count(*), count(target_time), count(y), min(series), max(step) FROM f");
    assert_eq!(text, "6 5 5 AAA 2");
}
