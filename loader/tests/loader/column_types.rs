//! Every type of PostgreSQL that can be a key, a time or a feature, and the refusal of the rest.

use crate::support::{chain, connect, load, query, rows, server::Server, table};
use millstream_data::{Panel, TimeKind};
use millstream_loader::{LoadError, Loader, SourceSettings};
use millstream_stage::Source;

/// Loads without asking for a target.
fn read(settings: &SourceSettings) -> Result<Panel, LoadError> {
    Ok(Loader::new(settings.clone(), Vec::new()).next()?.expect("a loader emits one panel"))
}

fn values(panel: &Panel) -> Vec<Vec<f32>> {
    rows(panel).into_iter().map(|(.., row)| row.into_iter().map(f32::from_bits).collect()).collect()
}

/// Equal, with NaN equal to NaN.
fn check(found: &[Vec<f32>], expected: &[&[f32]]) {
    let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let found_bits: Vec<_> = found.iter().map(|row| bits(row)).collect();
    let expected_bits: Vec<_> = expected.iter().map(|row| bits(row)).collect();
    assert_eq!(found_bits, expected_bits, "{found:?} is not {expected:?}");
}

#[test]
fn series_of_every_type_have_their_own_names() {
    let server = Server::start();
    connect(&server)
        .batch_execute(
            "DROP DOMAIN IF EXISTS millstream_test_ticker; DROP TYPE IF EXISTS millstream_test_mood;
             CREATE TYPE millstream_test_mood AS ENUM ('sad', 'it''s ok');
             CREATE DOMAIN millstream_test_ticker AS varchar(8) CHECK (value <> '')",
        )
        .unwrap();
    let cases = [
        ("'b'::text", "b"),
        ("'b'::varchar(5)", "b"),
        ("'b'::char(5)", "b"),
        ("'b'::name", "b"),
        ("'b'::\"char\"", "b"),
        ("'it''s ok'::millstream_test_mood", "it's ok"),
        ("'TSLA'::millstream_test_ticker", "TSLA"),
        ("'01234567-89AB-cdef-0011-223344556677'::uuid", "01234567-89ab-cdef-0011-223344556677"),
        ("(-32768)::int2", "-32768"),
        ("5::int4", "5"),
        ("9223372036854775807::int8", "9223372036854775807"),
        ("'übel \\ \"x\"'", "übel \\ \"x\""),
    ];
    for (key, name) in cases {
        let select = format!("select {key} as symbol, 1 as trade_date, 2 as v");
        let panel = read(&query(&server, &select)).unwrap();
        assert_eq!(panel.schema().series, [name]);
        // And the same when it is asked for by name.
        let asked = SourceSettings { symbols: vec![name.to_owned()], ..query(&server, &select) };
        assert_eq!(read(&asked).unwrap().schema().series, [name]);
    }
}

#[test]
fn times_of_every_type_are_understood() {
    let server = Server::start();
    let cases = [
        ("date '2020-02-29'", TimeKind::Date, "2020-02-29"),
        ("date '0044-03-15 BC'", TimeKind::Date, "-0043-03-15"),
        (
            "timestamp '1969-12-31 23:59:59.999999'",
            TimeKind::Timestamp,
            "1969-12-31 23:59:59.999999",
        ),
        ("timestamptz '2020-01-01 00:00:00+02'", TimeKind::Timestamp, "2019-12-31 22:00:00"),
        ("time '23:59:59.5'", TimeKind::Timestamp, "1970-01-01 23:59:59.500"),
        ("'2020-01-02'::text", TimeKind::Date, "2020-01-02"),
        ("'2020-01-02T03:04:05Z'::varchar", TimeKind::Timestamp, "2020-01-02 03:04:05"),
        ("5::int2", TimeKind::Integer, "5"),
        ("(-9223372036854775808)::int8", TimeKind::Integer, "-9223372036854775808"),
    ];
    for (time, kind, expected) in cases {
        let select = format!("select 'a' as symbol, {time} as trade_date, 2 as v");
        let panel = read(&query(&server, &select)).unwrap();
        assert_eq!(panel.schema().time_kind, kind, "{time}");
        assert_eq!(panel.schema().format_time(panel.shards()[0].times()[0]), expected);
    }
}

#[test]
fn features_of_every_type_are_the_nearest_floats() {
    let server = Server::start();
    let hundred = "1".repeat(60) + "." + &"2".repeat(40);
    let columns = [
        ("numeric 'NaN'", f32::NAN),
        ("numeric 'Infinity'", f32::INFINITY),
        ("numeric '-Infinity'", f32::NEG_INFINITY),
        (&format!("numeric '{hundred}'"), f32::INFINITY),
        ("numeric '0.12345678901234567890123456789'", 0.123_456_79),
        ("numeric '-1e-30'", -1e-30),
        ("numeric '16777217'", 16_777_216.0),
        ("float8 '1e39'", f32::INFINITY),
        ("float8 '16777217'", 16_777_216.0),
        ("float4 '-0'", -0.0),
        ("true", 1.0),
        ("date '1970-01-11'", 10.0),
        ("date 'infinity'", f32::NAN),
        ("time '00:00:01.25'", 1.25),
        ("timestamp '1970-01-01 00:01:00'", 60.0),
        ("timestamptz '-infinity'", f32::NAN),
        ("null::int4", f32::NAN),
        ("null::bool", f32::NAN),
    ];
    let names: Vec<String> = (0..columns.len()).map(|n| format!("v{n:02}")).collect();
    let list: Vec<String> =
        columns.iter().zip(&names).map(|((sql, _), name)| format!("{sql} as {name}")).collect();
    let select = format!("select 'a' as symbol, 1 as trade_date, {}", list.join(", "));
    let named = SourceSettings { features: names.clone(), ..query(&server, &select) };
    let expected: Vec<f32> = columns.iter().map(|(_, value)| *value).collect();
    check(&values(&read(&named).unwrap()), &[&expected]);
    // Without being named, times are no features.
    let all = read(&query(&server, &select)).unwrap();
    assert_eq!(all.schema().width(), columns.len() - 5);
}

#[test]
fn arrays_are_blocks_of_features() {
    let server = Server::start();
    let select = "select * from (values
        ('a', 1, 0.5::float8, array[1, 2, 3]::float4[], array[7, 8]::int2[]),
        ('a', 2, 1.5, null, array[null, 9]),
        ('b', 1, 2.5, array[null, 'NaN', 'Infinity']::float4[], null)
        ) as t (symbol, trade_date, close_pct, emb, counts)";
    let panel = load(&query(&server, select)).unwrap();
    let schema = panel.schema();
    let names = ["close_pct", "emb[1]", "emb[2]", "emb[3]", "counts[1]", "counts[2]"];
    assert_eq!((schema.columns.as_slice(), schema.inputs), (names.map(String::from).as_slice(), 6));
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    check(
        &values(&panel),
        &[
            &[0.5, 1.0, 2.0, 3.0, 7.0, 8.0],
            &[1.5, nan, nan, nan, nan, 9.0],
            &[2.5, nan, nan, inf, nan, nan],
        ],
    );
    let bounded =
        "select 'a' as symbol, 1 as trade_date, 1 as close_pct, '[5:6]={1,2}'::int[] as emb";
    assert_eq!(load(&query(&server, bounded)).unwrap().schema().width(), 3);
}

fn check_refused(server: &Server, select: &str, expected: &str) {
    let error = chain(&load(&query(server, select)).unwrap_err());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_has_no_number_is_refused_with_its_row() {
    let server = Server::start();
    let row = |emb: &str| {
        format!(
            "select 'a' as symbol, 1 as trade_date, 1.0::float8 as close_pct, array[1, 2] as emb
            union all select 'b', 7, 1, {emb}"
        )
    };
    check_refused(
        &server,
        &row("array[1, 2, 3]"),
        "the row of series \"b\" at 7: the array in column \"emb\" has 3 elements and others have 2",
    );
    check_refused(&server, &row("'{}'"), "at 7: the array in column \"emb\" has 0 elements");
    check_refused(
        &server,
        &row("array[[1, 2], [3, 4]]"),
        "the row of series \"b\" at 7: column \"emb\" is not a valid one-dimensional array",
    );
    check_refused(
        &server,
        "select 'a' as symbol, 1 as trade_date, 1 as close_pct, null::int[] as emb",
        "column \"emb\" holds no array with elements",
    );
    check_refused(
        &server,
        "select 'a' as symbol, 1 as trade_date, array[1] as close_pct",
        "column \"close_pct\", which target.columns (or window.segment, or a scale.reference) names, has type _int4",
    );
    let interval = SourceSettings {
        features: vec!["wait".to_owned()],
        ..query(
            &server,
            "select 'a' as symbol, 1 as trade_date, 1 as close_pct, interval '1 day' as wait",
        )
    };
    let error = load(&interval).unwrap_err().to_string();
    assert!(error.contains("\"wait\", which source.features names, has type interval"), "{error}");
    check_refused(
        &server,
        "select 'x' as symbol, null::date as trade_date, 1 as close_pct",
        "the row of series \"x\": column \"trade_date\" is empty",
    );
}

#[test]
fn times_beyond_64_bits_of_nanoseconds_are_read() {
    let server = Server::start();
    let dates = ["0001-01-01", "1500-01-01", "2263-01-01", "9999-12-31"];
    for kind in ["date", "timestamp", "timestamptz", "text"] {
        let zone = if kind == "timestamptz" { " 00:00:00+00" } else { "" };
        let row = |date: &&str| {
            format!("select 'x' as symbol, '{date}{zone}'::{kind} as trade_date, 1 as a")
        };
        let select = dates.iter().map(row).collect::<Vec<_>>().join(" union all ");
        let all = SourceSettings {
            from: Some("0001-01-01".to_owned()),
            to: Some("9999-12-31 00:00:01".to_owned()),
            ..query(&server, &select)
        };
        let panel = read(&all).unwrap();
        let found = panel.shards()[0].times().iter().map(|time| panel.schema().format_time(*time));
        let found: Vec<String> = found.map(|time| time[..10].to_owned()).collect();
        assert_eq!(found, dates, "{kind}");
    }
}

/// Names that a `citext` takes for the same are one series.
#[test]
fn citext_names_series_whatever_their_case() {
    let server = Server::start();
    let mut client = connect(&server);
    if let Err(error) = client.batch_execute("CREATE EXTENSION IF NOT EXISTS citext") {
        eprintln!("SKIPPED: this server has no citext: {error}");
        return;
    }
    client
        .batch_execute(
            "DROP TABLE IF EXISTS millstream_test_citext;
             CREATE TABLE millstream_test_citext (symbol citext, trade_date date, a real);
             INSERT INTO millstream_test_citext VALUES ('MSFT', '2020-01-01', 1),
                ('aapl', '2020-01-02', 3), ('AAPL', '2020-01-01', 2), ('ibm', '2020-01-01', 4)",
        )
        .unwrap();
    let all = table(&server, "millstream_test_citext");
    let panel = read(&all).unwrap();
    assert_eq!(panel.schema().series, ["AAPL", "MSFT", "ibm"]);
    check(&values(&panel), &[&[2.0], &[3.0], &[1.0], &[4.0]]);
    let symbols = vec!["Aapl".to_owned(), "IBM".to_owned()];
    let some = SourceSettings { symbols, symbols_required: true, ..all.clone() };
    let panel = read(&some).unwrap();
    assert_eq!(panel.schema().series, ["AAPL", "ibm"]);
    let twice = "INSERT INTO millstream_test_citext VALUES ('Msft', '2020-01-01', 5)";
    client.batch_execute(twice).unwrap();
    let error = chain(&read(&all).unwrap_err());
    assert!(error.contains("series \"MSFT\" has two rows at 2020-01-01"), "{error}");
}
