//! However a table is cut into tasks, and whatever kind of table it is: every row, once.

use crate::support::{chain, connect, load, make_wide, query, rows, server::Server, table};
use millstream_loader::{Columns, PostgresReader, SourceSettings, copy_commands};

fn commands(settings: &SourceSettings) -> Vec<String> {
    copy_commands(settings, &["close_pct".to_owned()]).unwrap()
}

/// How often each command of a plan contains a text.
fn count(commands: &[String], text: &str) -> usize {
    commands.iter().filter(|command| command.contains(text)).count()
}

#[test]
fn every_kind_of_table_gives_the_same_panel() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_wide", 300, 250);
    client
        .batch_execute(
            "DROP TABLE IF EXISTS millstream_test_parts, millstream_test_parent CASCADE;
             CREATE VIEW millstream_test_view AS SELECT * FROM millstream_test_wide;
             CREATE MATERIALIZED VIEW millstream_test_mat AS SELECT * FROM millstream_test_wide;
             CREATE TABLE millstream_test_parts (LIKE millstream_test_wide) PARTITION BY RANGE (trade_date);
             CREATE TABLE millstream_test_parts_1 PARTITION OF millstream_test_parts
                FOR VALUES FROM (MINVALUE) TO ('2015-04-01');
             CREATE TABLE millstream_test_parts_2 PARTITION OF millstream_test_parts DEFAULT;
             INSERT INTO millstream_test_parts SELECT * FROM millstream_test_wide;
             CREATE TABLE millstream_test_parent (LIKE millstream_test_wide);
             CREATE TABLE millstream_test_child () INHERITS (millstream_test_parent);
             INSERT INTO millstream_test_parent SELECT * FROM millstream_test_wide WHERE symbol < 'S0100';
             INSERT INTO millstream_test_child SELECT * FROM millstream_test_wide WHERE symbol >= 'S0100';
             ANALYZE",
        )
        .unwrap();
    let plain = table(&server, "millstream_test_wide");
    let expected = load(&SourceSettings { connections: 1.try_into().unwrap(), ..plain.clone() });
    let expected = expected.unwrap();
    assert_eq!(expected.row_count(), 300 * 250);
    let sum: f64 = rows(&expected).iter().map(|(.., row)| f64::from(f32::from_bits(row[0]))).sum();
    let counted: f64 = client
        .query_one("SELECT sum(close_pct)::float8 FROM millstream_test_wide", &[])
        .unwrap()
        .get(0);
    assert_eq!(sum, counted);

    let found = commands(&plain);
    assert!(found.len() > 2 && count(&found, "ctid") == found.len(), "{found:?}");
    let by_query = query(
        &server,
        "select *, trade_date + interval '1 hour' as at from millstream_test_wide -- all of it",
    );
    let sources = [
        (plain, ""),
        (table(&server, "millstream_test_view"), "symbol"),
        (table(&server, "millstream_test_mat"), "ctid"),
        (table(&server, "millstream_test_parts"), "symbol"),
        (table(&server, "millstream_test_parent"), "symbol"),
        (by_query, "symbol"),
    ];
    for (source, key) in sources {
        let found = commands(&source);
        assert!(found.len() > 1 && count(&found, key) > 1, "{found:?}");
        for connections in [1, 2, 5] {
            let connections = connections.try_into().unwrap();
            let panel = load(&SourceSettings { connections, ..source.clone() }).unwrap();
            assert_eq!(panel.schema().series, expected.schema().series);
            assert_eq!(rows(&panel), rows(&expected), "{source:?}");
        }
    }
}

/// Cuts a table by one key, which is the series or, when there is but one series, the time.
fn check_ranges(server: &Server, series: &str, time: &str, key: &str) {
    let features: Vec<String> = (1..=40).map(|n| format!("f{n:02}")).collect();
    let select = format!(
        "select {series} as symbol, {time} as trade_date, close_pct, {} from millstream_test_keys",
        features.join(", ")
    );
    let source = query(server, &select);
    let found = commands(&source);
    let cut = format!("\"{key}\" <= ");
    assert!(count(&found, &cut) > 0, "{series} and {time}: {found:?}");
    assert_eq!(count(&found, &format!("\"{key}\" IS NULL")), 1, "{found:?}");
    let panel = load(&source).unwrap_or_else(|error| panic!("{series}: {}", chain(&error)));
    assert_eq!(panel.row_count(), 70_000, "{series} and {time}");
}

#[test]
fn ranges_of_every_key_hold_every_row() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_keys", 100, 700);
    client
        .batch_execute(
            "DROP TYPE IF EXISTS millstream_test_colour;
             CREATE TYPE millstream_test_colour AS ENUM ('red', 'green', 'it''s \\ blue', 'x', 'y', 'z')",
        )
        .unwrap();
    let series = [
        "symbol",
        "symbol collate \"und-x-icu\"",
        "symbol::char(20)",
        "symbol::name",
        "substr(symbol, 2)::int",
        "substr(symbol, 2)::int8",
        "('00000000-0000-0000-0000-00000000' || substr(symbol, 2))::uuid",
        "symbol || 'it''s \\ \"x\"'",
    ];
    for series in series {
        check_ranges(&server, series, "trade_date", "symbol");
    }
    let number = "(trade_date - date '1999-01-01' + substr(symbol, 2)::int * 1000)";
    let day = "(trade_date + substr(symbol, 2)::int * 1000)";
    let times = [
        day,
        &format!("{day}::timestamp"),
        &format!("({day} + time '01:02:03.456789')::timestamptz"),
        &format!("{day}::text"),
        number,
        &format!("{number}::int8"),
        &format!("(time '00:00' + {number} * interval '0.1 seconds')"),
    ];
    for time in times {
        check_ranges(&server, "'one'::text", time, "trade_date");
    }
    let colour = "(enum_range(null::millstream_test_colour))[1 + substr(symbol, 2)::int % 6]";
    check_ranges(&server, colour, day, "symbol");
}

#[test]
fn null_keys_are_never_dropped() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_nulls", 100, 700);
    client
        .batch_execute(
            "UPDATE millstream_test_nulls SET symbol = NULL WHERE symbol IN ('S0003', 'S0050');
             UPDATE millstream_test_nulls SET trade_date = NULL WHERE symbol = 'S0007' AND trade_date < '2015-02-01';
             DROP VIEW IF EXISTS millstream_test_nulls_view;
             CREATE VIEW millstream_test_nulls_view AS SELECT * FROM millstream_test_nulls;
             ANALYZE millstream_test_nulls",
        )
        .unwrap();
    for name in ["millstream_test_nulls", "millstream_test_nulls_view"] {
        let source = table(&server, name);
        assert!(commands(&source).len() > 1);
        let error = load(&source).unwrap_err().to_string();
        assert!(error.contains("is empty; every row needs its series and time"), "{error}");
        let whole = PostgresReader::open(&source, Columns::Wide).unwrap();
        let batches: Vec<_> = whole.map(Result::unwrap).collect();
        let rows: usize = batches.iter().map(arrow::array::RecordBatch::num_rows).sum();
        let nulls = |column: usize| -> usize {
            batches.iter().map(|batch| batch.column(column).null_count()).sum()
        };
        assert_eq!((rows, nulls(0), nulls(1)), (70_000, 1_400, 31 - 1), "{name}");
    }
}

#[test]
fn a_filter_goes_through_an_index_where_that_is_cheaper() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_index", 300, 250);
    let some = SourceSettings {
        symbols: vec!["S0007".to_owned(), "S0011".to_owned(), "it's not there".to_owned()],
        from: Some("2015-03-01".to_owned()),
        ..table(&server, "millstream_test_index")
    };
    let scanned = load(&some).unwrap();
    let by_scan = commands(&some);
    assert!(by_scan.len() > 1 && count(&by_scan, "ctid") == by_scan.len(), "{by_scan:?}");
    client
        .batch_execute(
            "CREATE INDEX ON millstream_test_index (symbol, trade_date); ANALYZE millstream_test_index",
        )
        .unwrap();
    let by_index = commands(&some);
    assert_eq!((by_index.len(), count(&by_index, "ctid")), (1, 0), "{by_index:?}");
    assert_eq!(rows(&load(&some).unwrap()), rows(&scanned));
    assert_eq!(scanned.row_count(), 2 * (250 - 58));
}

#[test]
fn a_series_that_holds_most_rows_is_cut_by_time() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_skew", 20, 4_000);
    let skewed = query(
        &server,
        "select case when symbol < 'S0019' then 'most' else symbol end as symbol,
         trade_date + (substr(symbol, 2)::int * 5000) as trade_date, close_pct, f01, f02, f03, f04, f05,
         f06, f07, f08, f09, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24,
         f25, f26, f27, f28, f29, f30 from millstream_test_skew",
    );
    let found = commands(&skewed);
    assert!(found.len() > 1 && count(&found, "\"trade_date\" <=") > 0, "{found:?}");
    let panel = load(&skewed).unwrap();
    assert_eq!((panel.row_count(), panel.schema().series.len()), (80_000, 3));
}

#[test]
fn what_gives_other_rows_each_time_runs_once_or_is_refused() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_random", 300, 250);
    let limited = query(&server, "select * from millstream_test_random limit 70000");
    assert_eq!(commands(&limited).len(), 1);
    assert_eq!(load(&limited).unwrap().row_count(), 70_000);
    let ties = "select distinct on (symbol, trade_date) * from millstream_test_random";
    assert_eq!(commands(&query(&server, ties)).len(), 1);
    // A snapshot does not hold the time, and a condition may run what gives others each time.
    let source = table(&server, "millstream_test_random");
    assert!(commands(&source).len() > 1);
    for (filter, tasks) in [
        ("trade_date < now()", false),
        ("trade_date < current_date", false),
        ("close_pct < (select random() * 17)", false),
        ("symbol not in (select symbol from millstream_test_random limit 3)", false),
        ("close_pct < 17", true),
    ] {
        let filtered = SourceSettings { filter: Some(filter.to_owned()), ..source.clone() };
        assert_eq!(commands(&filtered).len() > 1, tasks, "{filter}");
    }
    let plain = query(&server, "select * from millstream_test_random where random() < 0.9");
    assert!(load(&plain).unwrap().row_count() > 50_000);
    // What is hidden in a function is found out when rows do not add up.
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION millstream_test_coin() RETURNS float8 LANGUAGE plpgsql
             AS 'BEGIN RETURN random(); END'",
        )
        .unwrap();
    let hidden = "select * from millstream_test_random where millstream_test_coin() < 0.9";
    let random = query(&server, hidden);
    assert!(commands(&random).len() > 1);
    let error = load(&random).unwrap_err().to_string();
    assert!(error.contains("it gives other rows each time it is read"), "{error}");
    let once = SourceSettings { connections: 1.try_into().unwrap(), ..random };
    assert!(load(&once).unwrap().row_count() > 50_000);
}

#[test]
fn a_foreign_table_is_read_over_one_connection() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_far", 300, 250);
    let Some(dir) = server.socket() else {
        // Somebody's own server: where it listens, and whether it may connect to itself, is not
        // for a test to guess.
        return;
    };
    client
        .batch_execute(&format!(
            "CREATE EXTENSION postgres_fdw;
             CREATE SCHEMA far;
             CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw
                OPTIONS (host '{}', dbname 'postgres');
             CREATE USER MAPPING FOR tester SERVER there OPTIONS (user 'tester');
             IMPORT FOREIGN SCHEMA public LIMIT TO (millstream_test_far) FROM SERVER there INTO far;
             ANALYZE far.millstream_test_far",
            dir.parent().unwrap().display()
        ))
        .unwrap();
    let far = table(&server, "far.millstream_test_far");
    assert_eq!(commands(&far).len(), 1);
    let panel = load(&far).unwrap();
    assert_eq!(rows(&panel), rows(&load(&table(&server, "millstream_test_far")).unwrap()));
}
