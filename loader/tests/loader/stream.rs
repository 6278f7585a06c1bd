//! Record batches for programs that want no panel: bounded, typed, and read again when they break.

use crate::support::{chain, connect, load, make_wide, rows, server::Server, table};
use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Date32Type, Float32Type},
};
use millstream_loader::{Columns, LoadError, PostgresReader, SourceSettings};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Rows by series and day, as bits.
type Rows = BTreeMap<(String, i64), Vec<u32>>;

fn packed_rows(batches: &[RecordBatch]) -> Rows {
    let mut found = Rows::new();
    for batch in batches {
        let names = batch.column(0).as_string::<i32>();
        let days = batch.column(1).as_primitive::<Date32Type>();
        let features = batch.column(2).as_fixed_size_list();
        for row in 0..batch.num_rows() {
            let name = names.value(row).to_owned();
            let values = features.value(row);
            let values = values.as_primitive::<Float32Type>().values();
            let bits = values.iter().map(|value| value.to_bits()).collect();
            let time = i64::from(days.value(row)) * 86_400_000_000;
            assert!(found.insert((name, time), bits).is_none(), "a row came twice");
        }
    }
    found
}

fn panel_rows(settings: &SourceSettings) -> Rows {
    let panel = load(settings).unwrap();
    let name = |code: u32| panel.schema().series[code as usize].clone();
    rows(&panel).into_iter().map(|(code, time, row)| ((name(code), time), row)).collect()
}

#[test]
fn packed_batches_hold_the_rows_of_the_panel() {
    let server = Server::start();
    make_wide(&mut connect(&server), "millstream_test_stream", 100, 700);
    let source = table(&server, "millstream_test_stream");
    let reader = PostgresReader::open_with(&source, Columns::Packed, 1_000.try_into().unwrap());
    let reader = reader.unwrap();
    let schema = reader.schema();
    assert_eq!(schema.metadata()["features"].lines().count(), 41);
    assert!(schema.metadata()["features"].starts_with("close_pct\nf01\nf02"));
    assert!(reader.expected_rows().unwrap().abs_diff(70_000) < 7_000);
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert!(batches.iter().all(|b| b.num_rows() <= 1_000 && b.schema() == schema));
    assert!(packed_rows(&batches) == panel_rows(&source));
}

#[test]
fn wide_batches_have_a_column_per_column() {
    let server = Server::start();
    make_wide(&mut connect(&server), "millstream_test_columns", 100, 700);
    let source = SourceSettings {
        features: vec!["f02".to_owned(), "f01".to_owned()],
        ..table(&server, "millstream_test_columns")
    };
    let reader = PostgresReader::open(&source, Columns::Wide).unwrap();
    let schema = reader.schema();
    let fields: Vec<_> =
        schema.fields().iter().map(|f| (f.name().as_str(), f.data_type())).collect();
    let expected = [
        ("symbol", &DataType::Utf8),
        ("trade_date", &DataType::Date32),
        ("f02", &DataType::Float32),
        ("f01", &DataType::Float32),
    ];
    assert_eq!(fields, expected);
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 70_000);
    let nulls: usize = batches.iter().map(|batch| batch.column(3).null_count()).sum();
    let expected: i64 = connect(&server)
        .query_one("SELECT count(*) - count(f01) FROM millstream_test_columns", &[])
        .unwrap()
        .get(0);
    assert_eq!(i64::try_from(nulls).unwrap(), expected);
}

/// A reader that nobody reads from stops, and holds no more than it may.
#[test]
fn batches_wait_for_whoever_takes_them() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_patient", 300, 700);
    let source = table(&server, "millstream_test_patient");
    let mut reader =
        PostgresReader::open_with(&source, Columns::Packed, 500.try_into().unwrap()).unwrap();
    let first = reader.next().unwrap().unwrap();
    assert_eq!(first.num_rows(), 500);
    // The server has nothing to do once both connections wait for us.
    let waits = "SELECT count(*) = 2 AND bool_and(wait_event_type = 'Client') FROM pg_stat_activity
        WHERE application_name = 'millstream'";
    let since = Instant::now();
    while !client.query_one(waits, &[]).unwrap().get::<_, bool>(0) {
        assert!(since.elapsed() < Duration::from_secs(60), "somebody is still being served");
        std::thread::yield_now();
    }
    let mut all = vec![first];
    all.extend(reader.map(Result::unwrap));
    assert_eq!(packed_rows(&all).len(), 210_000);
}

#[test]
fn a_killed_backend_costs_no_row_and_a_lost_snapshot_is_said() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_broken", 300, 700);
    let source = table(&server, "millstream_test_broken");
    let small = 500.try_into().unwrap();
    let kill = |limit: &str| {
        format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
             WHERE application_name = 'millstream' ORDER BY backend_start {limit}) AS victims"
        )
    };
    let mut reader = PostgresReader::open_with(&source, Columns::Packed, small).unwrap();
    let mut all = vec![reader.next().unwrap().unwrap()];
    client.execute(&kill("LIMIT 1"), &[]).unwrap();
    all.extend(reader.map(Result::unwrap));
    assert!(packed_rows(&all) == panel_rows(&source));

    let mut reader = PostgresReader::open_with(&source, Columns::Packed, small).unwrap();
    reader.next().unwrap().unwrap();
    client.execute(&kill(""), &[]).unwrap();
    let error = reader.find_map(Result::err).expect("the snapshot is gone");
    assert!(matches!(error, LoadError::SnapshotLost { .. }), "{}", chain(&error));
    assert!(error.to_string().contains("read it again from the start"), "{error}");
}
