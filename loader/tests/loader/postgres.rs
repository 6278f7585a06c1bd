//! The PostgreSQL reader against a real server.

use crate::support::{chain, connect, load, rows, server::Server, table};
use millstream_data::{Panel, TimeKind};
use millstream_loader::{GenerateSettings, SourceKind, SourceSettings};
use std::{fmt::Write as _, io::Write as _};

fn generated() -> SourceSettings {
    let size = |n: usize| n.try_into().unwrap();
    SourceSettings {
        cache: String::new(),
        generate: GenerateSettings {
            series: size(20),
            rows: size(60),
            features: size(5),
            missing: 0.05,
            ..GenerateSettings::default()
        },
        ..SourceSettings::default()
    }
}

/// The rows of a panel as COPY text, in an order that has nothing to do with theirs.
fn shuffled_text(panel: &Panel) -> String {
    let schema = panel.schema();
    let mut lines: Vec<String> = rows(panel)
        .iter()
        .map(|(code, time, values)| {
            let mut line =
                format!("{}\t{}", schema.series[*code as usize], schema.format_time(*time));
            for value in values.iter().map(|bits| f32::from_bits(*bits)) {
                if value.is_nan() {
                    line.push_str("\t\\N");
                } else {
                    write!(line, "\t{value}").unwrap();
                }
            }
            line
        })
        .collect();
    lines.sort_by_key(|line| xxhash_rust::xxh3::xxh3_64(line.as_bytes()));
    lines.join("\n") + "\n"
}

#[test]
fn a_table_gives_the_panel_that_was_written_into_it() {
    let server = Server::start();
    let expected = load(&generated()).unwrap();
    let mut client = connect(&server);
    client
        .batch_execute(
            "DROP TABLE IF EXISTS millstream_test_panel;
             CREATE TABLE millstream_test_panel (symbol varchar(8), trade_date date, close_pct numeric,
                f001 real, f002 double precision, f003 numeric(30, 15), f004 double precision, f005 real)",
        )
        .unwrap();
    let mut copy = client.copy_in("COPY millstream_test_panel FROM STDIN").unwrap();
    copy.write_all(shuffled_text(&expected).as_bytes()).unwrap();
    copy.finish().unwrap();

    let settings = table(&server, "public.millstream_test_panel");
    let found = load(&settings).unwrap();
    assert_eq!(found.schema(), expected.schema());
    assert_eq!(rows(&found), rows(&expected));

    let some = SourceSettings {
        symbols: vec!["S003".to_owned(), "S007".to_owned()],
        from: Some("2015-02-02".to_owned()),
        to: Some("2015-03-02".to_owned()),
        ..settings
    };
    let here = SourceSettings {
        kind: SourceKind::Generate,
        generate: generated().generate,
        ..some.clone()
    };
    assert_eq!(load(&some).unwrap().schema(), load(&here).unwrap().schema());
    let filtered = SourceSettings {
        filter: Some("symbol in ('S003', 'S007') and trade_date >= '2015-02-02'".to_owned()),
        symbols: Vec::new(),
        from: None,
        ..some
    };
    assert_eq!(load(&filtered).unwrap().schema(), load(&here).unwrap().schema());
}

#[test]
fn a_condition_does_not_reach_beyond_itself() {
    let server = Server::start();
    let rows =
        "select * from (values ('a', 1, 1.0), ('b', 1, 2.0)) as t (symbol, trade_date, close_pct)";
    let filtered = |filter: &str| SourceSettings {
        filter: Some(filter.to_owned()),
        symbols: vec!["a".to_owned()],
        ..crate::support::query(&server, rows)
    };
    for filter in ["close_pct > 1) or (true", "(close_pct > 0", "true --", "true /*", "'", " "] {
        let found = load(&filtered(filter)).map(|panel| panel.schema().series.clone());
        let error = found.expect_err(filter);
        assert!(error.is_setting(), "{filter}: {error}");
        assert!(error.to_string().contains("source.where = "), "{error}");
    }
    let kept = filtered("(symbol <> ')' and \"symbol\" <> $x$)'--$x$) or symbol = E'\\')'");
    assert_eq!(load(&kept).unwrap().schema().series, ["a"]);
}

/// Every type, its edge values, and what the panel makes of them.
#[test]
fn every_type_is_decoded() {
    let server = Server::start();
    let query = "select * from (values
        ('b'::char(3), '2020-01-02 00:00:00+01'::timestamptz, 1::int2, -2::int4, 3::int8, 1.5::float4, 'NaN'::float8, 'Infinity'::numeric, true),
        ('a', '1999-12-31 23:59:59.5+00', null, 2147483647, 9223372036854775807, 'Infinity', 1e300, 'NaN', false),
        ('a', '2020-01-01 00:00:00+00', -32768, 0, null, null, 1e-300, 0.1000000000000000000000000000000000000000001, null),
        ('a', '2020-01-03 00:00:00+00', 0, 0, 0, 0, 0, -123456789012345678901234567890.5, null)
        ) as t(symbol, trade_date, i2, i4, i8, f4, f8, n, b); ";
    let settings =
        SourceSettings { table: None, query: Some(query.to_owned()), ..table(&server, "") };
    let panel =
        millstream_stage::Source::next(&mut millstream_loader::Loader::new(settings, vec![]))
            .unwrap()
            .unwrap();
    let schema = panel.schema();
    assert_eq!(
        (schema.series.as_slice(), schema.time_kind),
        (["a", "b"].map(String::from).as_slice(), TimeKind::Timestamp)
    );
    let found: Vec<(u32, String, Vec<f32>)> = rows(&panel)
        .into_iter()
        .map(|(code, time, bits)| {
            (code, schema.format_time(time), bits.into_iter().map(f32::from_bits).collect())
        })
        .collect();
    let inf = f32::INFINITY;
    let nan = f32::NAN;
    let expected = [
        (
            0,
            "1999-12-31 23:59:59.500",
            vec![nan, 2_147_483_647.0, 9.223_372e18, inf, inf, nan, 0.0],
        ),
        (0, "2020-01-01 00:00:00", vec![-32_768.0, 0.0, nan, nan, 0.0, 0.1, nan]),
        (0, "2020-01-03 00:00:00", vec![0.0, 0.0, 0.0, 0.0, 0.0, -1.234_567_9e29, nan]),
        (1, "2020-01-01 23:00:00", vec![1.0, -2.0, 3.0, 1.5, nan, inf, 1.0]),
    ];
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for ((code, time, values), (expected_code, expected_time, expected_values)) in
        found.iter().zip(&expected)
    {
        assert_eq!((code, time.as_str()), (expected_code, *expected_time));
        assert_eq!(bits(values), bits(expected_values), "{time}: {values:?}");
    }
    assert_eq!(found.len(), expected.len());
}

fn check_query(server: &Server, query: &str, expected: &str) {
    let settings =
        SourceSettings { table: None, query: Some(query.to_owned()), ..table(server, "") };
    let error = chain(&load(&settings).unwrap_err());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_cannot_be_a_panel_is_refused_with_its_place() {
    let server = Server::start();
    let value = "1.0::float8 as close_pct";
    check_query(
        &server,
        &format!("select 'a' as symbol, 'infinity'::date as trade_date, {value}"),
        "the row of series \"a\": column \"trade_date\" holds infinity",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, '-infinity'::timestamp as trade_date, {value}"),
        "holds -infinity; expected a finite time; leave such rows out with source.where",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, '294276-12-31'::timestamp as trade_date, {value}"),
        "holds a time in the year 294276; expected a year from -290307 to 294246",
    );
    check_query(
        &server,
        &format!("select null::text as symbol, 5 as trade_date, {value}"),
        "the row without a series at 5: column \"symbol\" is empty",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, null::date as trade_date, {value}"),
        "the row of series \"a\": column \"trade_date\" is empty",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, 1.5::float8 as trade_date, {value}"),
        "column \"trade_date\" has type float8; source.time needs a date",
    );
    check_query(
        &server,
        &format!("select point(1, 2) as symbol, 5 as trade_date, {value}"),
        "column \"symbol\" has type point; source.series needs text",
    );
    check_query(
        &server,
        "select 'a' as symbol, 5 as trade_date, 'x' as close_pct, 1 as f",
        "column \"close_pct\", which target.columns (or window.segment, or a scale.reference) names, has type text",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, 5 as trade_date, {value} from generate_series(1, 2)"),
        "series \"a\" has two rows at 5",
    );
    check_query(
        &server,
        &format!("select 'a' as symbol, 5 as trade_date, {value} where false"),
        "the query gave no rows",
    );
    check_query(&server, "select nonsense", "could not describe the query: ");
    check_query(
        &server,
        &format!(
            "select 'a' as symbol, 1/(3-trade_date) as trade_date, {value} from generate_series(1, 9) t(trade_date)"
        ),
        "division by zero",
    );
}

#[test]
fn series_come_out_in_byte_order_whatever_the_servers_collation() {
    let server = Server::start();
    let query = "select symbol, day as trade_date, day::float8 as close_pct
        from unnest(array['B', 'a', 'A', '10', '9']) symbol, generate_series(1, 3) day";
    let settings =
        SourceSettings { table: None, query: Some(query.to_owned()), ..table(&server, "") };
    let panel = load(&settings).unwrap();
    assert_eq!(panel.schema().series, ["10", "9", "A", "B", "a"]);
    assert_eq!(panel.shards()[0].times(), [1, 2, 3].repeat(5));
}

#[test]
fn bounds_of_the_wrong_kind_are_refused_before_reading() {
    let server = Server::start();
    let settings = SourceSettings {
        table: None,
        query: Some("select 'a' as symbol, 5 as trade_date, 1 as close_pct".to_owned()),
        from: Some("2020-01-01".to_owned()),
        ..table(&server, "")
    };
    let error = load(&settings).unwrap_err().to_string();
    assert!(error.contains("source.from = \"2020-01-01\" cannot be used"), "{error}");
}

#[test]
fn a_table_that_is_not_there_is_named() {
    let server = Server::start();
    let error = chain(&load(&table(&server, "no_such_table")).unwrap_err());
    assert!(error.contains("could not describe table no_such_table"), "{error}");
    assert!(error.contains("\"no_such_table\" does not exist"), "{error}");
}
