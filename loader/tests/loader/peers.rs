//! The wrong answers of other readers, each with the right one.

use crate::support::{chain, connect, load, make_wide, query, rows, server::Server};
use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Date32Type, Float64Type, Int32Type},
};
use millstream_loader::{Columns, PostgresReader, SourceKind, SourceSettings, copy_commands};
use std::process::Command;

fn wide(settings: &SourceSettings) -> Vec<RecordBatch> {
    PostgresReader::open(settings, Columns::Wide).unwrap().map(Result::unwrap).collect()
}

/// ConnectorX loses rows when it partitions on a column of floats, drops rows whose key is NULL,
/// and refuses to partition on text and dates.
#[test]
fn cutting_by_a_key_loses_no_row() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_lossy", 100, 700);
    let features: Vec<String> = (1..=40).map(|n| format!("f{n:02}")).collect();
    // Series that are floats as text, which sort unlike numbers; some of them are not numbers.
    let text = "(array['-1e30', '-0.5', 'NaN', '0.1', '1e30', 'Infinity', '-Infinity', '7.25'])
        [1 + substr(symbol, 2)::int % 8] || symbol";
    for (series, time) in [(text, "trade_date"), ("symbol", "trade_date::timestamp")] {
        let select = format!(
            "select {series} as symbol, {time} as trade_date, close_pct, {} from millstream_test_lossy",
            features.join(", ")
        );
        let source = query(&server, &select);
        assert!(copy_commands(&source, &[]).unwrap().len() > 1);
        assert_eq!(load(&source).unwrap().row_count(), 70_000);
    }
    client
        .batch_execute("UPDATE millstream_test_lossy SET symbol = NULL WHERE symbol > 'S0090'")
        .unwrap();
    let nulls = query(&server, "select * from millstream_test_lossy");
    assert!(copy_commands(&nulls, &[]).unwrap().len() > 1);
    assert_eq!(wide(&nulls).iter().map(RecordBatch::num_rows).sum::<usize>(), 70_000);
    let error = load(&nulls).unwrap_err().to_string();
    assert!(error.contains("the row without a series at "), "{error}");
}

/// ConnectorX raises on a scale above 10, on mixed scales and on NaN; DuckDB makes NaN 0; ADBC
/// gives numerics as opaque strings.
#[test]
fn numerics_of_every_scale_are_numbers() {
    let server = Server::start();
    let source = query(
        &server,
        "select 'a' as symbol, n as trade_date, v as close_pct from (values
         (1, 0.1234567890123::numeric), (2, 5), (3, 'NaN'), (4, 1e-20), (5, 12345678901234567890.5), (6, null),
         (7, 'Infinity')) as t (n, v)",
    );
    let expected = [0.123_456_789_012_3, 5.0, f64::NAN, 1e-20, 12_345_678_901_234_567_890.5];
    let batches = wide(&source);
    let column = batches[0].column_by_name("close_pct").unwrap().as_primitive::<Float64Type>();
    for (row, value) in expected.iter().enumerate() {
        assert_eq!(column.value(row).to_bits(), value.to_bits(), "row {row}");
    }
    assert!(column.is_null(5) && !column.is_null(2));
    assert_eq!(column.value(6), f64::INFINITY);
    let panel = load(&source).unwrap();
    let found: Vec<f32> = panel.shards()[0].values().to_vec();
    assert!(found[2].is_nan() && found[5].is_nan() && found[2] != 0.0);
    assert_eq!((found[0], found[4]), (0.123_456_79, 1.234_567_9e19));
}

/// ADBC makes a date of `infinity` a day far in the past.
#[test]
fn an_infinite_date_is_no_day() {
    let server = Server::start();
    let time = "select 'a' as symbol, 'infinity'::date as trade_date, 1 as close_pct";
    for error in [
        chain(&load(&query(&server, time)).unwrap_err()),
        chain(
            &PostgresReader::open(&query(&server, time), Columns::Wide)
                .unwrap()
                .next()
                .unwrap()
                .unwrap_err(),
        ),
    ] {
        assert!(error.contains("series \"a\": column \"trade_date\" holds infinity"), "{error}");
    }
    let feature = SourceSettings {
        features: vec!["expires".to_owned()],
        ..query(
            &server,
            "select 'a' as symbol, d as trade_date, 1 as close_pct,
             case d when 1 then 'infinity' when 2 then '-infinity' else '1970-01-03' end::date as expires
             from generate_series(1, 3) d",
        )
    };
    let panel = load(&feature).unwrap();
    let found: Vec<u32> = rows(&panel).iter().map(|(.., row)| row[0]).collect();
    assert_eq!(found, [f32::NAN, f32::NAN, 2.0].map(f32::to_bits));
    let batches = wide(&feature);
    let column = batches[0].column_by_name("expires").unwrap().as_primitive::<Date32Type>();
    assert_eq!(column.iter().collect::<Vec<_>>(), [None, None, Some(2)]);
}

/// pandas merges NULL and NaN, makes integers with NULLs floats, and dates Python objects.
#[test]
fn null_is_not_nan_and_integers_stay_integers() {
    let server = Server::start();
    let source = query(
        &server,
        "select 'a' as symbol, date '2020-01-01' + d as trade_date,
         case d when 1 then null when 2 then 'NaN' else 1.5 end::float8 as close_pct,
         case d when 1 then null else 16777217 + d end::int4 as size from generate_series(1, 3) d",
    );
    let batches = wide(&source);
    let batch = &batches[0];
    let types: Vec<&DataType> = batch.schema_ref().fields().iter().map(|f| f.data_type()).collect();
    assert_eq!(types, [&DataType::Utf8, &DataType::Date32, &DataType::Float64, &DataType::Int32]);
    let close = batch.column(2).as_primitive::<Float64Type>();
    assert!(close.is_null(0) && close.is_valid(1) && close.value(1).is_nan());
    let size = batch.column(3).as_primitive::<Int32Type>();
    assert_eq!(size.iter().collect::<Vec<_>>(), [None, Some(16_777_219), Some(16_777_220)]);
}

/// polars needs 2.2 times the data at its peak, others up to 3.1. The peak of a process counts
/// everything it did, so the load runs in one of its own.
#[test]
fn the_panel_is_in_memory_once() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_peak", 500, 700);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peers::load_and_tell_the_peak", "--ignored", "--nocapture"])
        .env("MILLSTREAM_TEST_PEAK_URL", server.url())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let line =
        said.lines().find(|line| line.starts_with("peak ")).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [before, peak, panel] = numbers[..] else { panic!("{line}") };
    assert!(panel > 50e6, "{line}");
    assert!(peak - before <= 1.15 * panel, "{line}");
}

#[test]
#[ignore = "run by the_panel_is_in_memory_once, in a process of its own"]
fn load_and_tell_the_peak() {
    let status = |key: &str| -> f64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
    };
    let before = status("VmRSS");
    let source = SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(std::env::var("MILLSTREAM_TEST_PEAK_URL").unwrap()),
        table: Some("millstream_test_peak".to_owned()),
        cache: String::new(),
        ..SourceSettings::default()
    };
    let panel = load(&source).unwrap();
    // The rows came in no order, so they were permuted.
    assert!(panel.row_count() == 350_000);
    println!("peak {before} {} {}", status("VmHWM"), millstream_stage::Item::bytes(&panel));
}
