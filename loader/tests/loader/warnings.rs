//! What a person is told: symbols that are not there, columns that a glob leaves out, and what
//! happened to the connections.

use crate::support::{
    connect, make_wide, query,
    server::{Options, Server},
    table,
};
use arrow::{
    array::{
        ArrayRef, BooleanArray, Decimal256Array, Float64Array, Int64Array, ListArray, NullArray,
        RecordBatch, StringArray,
    },
    datatypes::{Int32Type, i256},
};
use millstream_data::{ColumnKind, Panel};
use millstream_loader::{LoadError, Loader, SourceKind, SourceSettings, verify};
use millstream_stage::{Source, Warnings};
use parquet::arrow::ArrowWriter;
use std::{fs, net::UdpSocket, path::Path, sync::Arc};

/// Loads without a target; gives the panel and what was said.
fn load_warned(settings: &SourceSettings) -> (Result<Panel, LoadError>, Vec<String>) {
    let warnings = Warnings::default();
    let panel = Loader::new(settings.clone(), Vec::new()).warn_to(warnings.clone()).next();
    (panel.map(|panel| panel.expect("a loader emits one panel")), warnings.all())
}

fn csv(dir: &Path, text: &str) -> SourceSettings {
    let file = dir.join("t.csv");
    fs::write(&file, text).unwrap();
    SourceSettings {
        kind: SourceKind::Csv,
        path: Some(file.to_str().unwrap().to_owned()),
        cache: dir.join("cache").to_str().unwrap().to_owned(),
        ..SourceSettings::default()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn check_said(said: &[String], expected: &[&[&str]]) {
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (line, parts) in said.iter().zip(expected) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}: expected {parts:?}");
        assert!(!line.contains('\n') && !line.ends_with('.'), "{line}");
    }
}

const SYMBOLS: &str = "symbol,trade_date,a\nAAPL,1,1\nMSFT,1,2\nMSFT,9,2\nOLD,1,3\n";

#[test]
fn symbols_that_are_not_there_are_named_also_when_the_panel_is_cached() {
    let dir = tempfile::tempdir().unwrap();
    let settings = SourceSettings {
        symbols: owned(&["MSTF", "AAPL", "OLD", "MSFT", "xyzzy"]),
        from: Some("1".to_owned()),
        ..csv(dir.path(), SYMBOLS)
    };
    let expected: &[&[&str]] = &[&[
        "no rows for some of source.symbols",
        "t.csv has none of \"MSTF\" (did you mean \"MSFT\"?), \"xyzzy\"",
    ]];
    for _ in ["read", "cached"] {
        let (panel, said) = load_warned(&settings);
        assert_eq!(panel.unwrap().schema().series, ["AAPL", "MSFT", "OLD"]);
        check_said(&said, expected);
    }
    let warnings = Warnings::default();
    verify(&settings, &[], &mut |_| std::ops::ControlFlow::Continue(()), &warnings).unwrap();
    check_said(&warnings.all(), expected);

    let required = SourceSettings { symbols_required: true, ..settings.clone() };
    for required in [required.clone(), SourceSettings { cache: String::new(), ..required }] {
        let (panel, _) = load_warned(&required);
        let error = panel.unwrap_err();
        assert!(error.is_setting(), "{error:?}");
        assert!(error.to_string().contains("\"MSTF\" (did you mean \"MSFT\"?)"), "{error}");
    }
    let later = SourceSettings {
        from: Some("5".to_owned()),
        symbols: owned(&["MSFT", "OLD"]),
        ..settings.clone()
    };
    check_said(&load_warned(&later).1, &[&["\"OLD\" (its rows are outside source.from"]]);
    let none = SourceSettings { symbols: owned(&["MSTF"]), ..settings };
    let error = load_warned(&none).0.unwrap_err().to_string();
    assert!(error.contains("none of source.symbols is left") && error.contains("MSFT"), "{error}");
}

#[test]
fn symbols_that_are_all_there_may_be_required() {
    let dir = tempfile::tempdir().unwrap();
    let settings = SourceSettings {
        symbols: owned(&["OLD"]),
        symbols_required: true,
        ..csv(dir.path(), SYMBOLS)
    };
    let (panel, said) = load_warned(&settings);
    assert_eq!((panel.unwrap().row_count(), said.len()), (1, 0));
    let error = load_warned(&SourceSettings { symbols: Vec::new(), ..settings }).0.unwrap_err();
    assert!(error.to_string().contains("source.symbols_required = \"true\""), "{error}");
    let made = SourceSettings {
        symbols: owned(&["S001", "S99"]),
        cache: String::new(),
        ..SourceSettings::default()
    };
    check_said(
        &load_warned(&made).1,
        &[&["the generated table has none of \"S99\" (did you mean"]],
    );
}

#[test]
fn a_table_names_the_symbols_it_does_not_have() {
    let server = Server::start();
    let rows = "select * from (values ('AAPL', 1, 1.0), ('MSFT', 1, 2.0), ('MSFT', 9, 2.0))
        as t (symbol, trade_date, a)";
    let settings = SourceSettings { symbols: owned(&["AAPL", "MSTF"]), ..query(&server, rows) };
    let (panel, said) = load_warned(&settings);
    assert_eq!(panel.unwrap().schema().series, ["AAPL"]);
    check_said(&said, &[&["the query has none of \"MSTF\" (did you mean \"MSFT\"?)"]]);
    let (panel, _) = load_warned(&SourceSettings { symbols_required: true, ..settings.clone() });
    assert!(matches!(panel, Err(LoadError::AbsentSymbols { .. })));
    let (panel, _) = load_warned(&SourceSettings { symbols: owned(&["MSTF"]), ..settings });
    assert!(panel.unwrap_err().to_string().contains("did you mean \"MSFT\"?"));
}

#[test]
fn csv_columns_that_one_cell_keeps_out_are_named_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = "symbol,trade_date,a,price,share,sparse,blank,name,code\n\
                x,1,1,1,5%,n/a,,Acme,A1\n\
                x,2,2,\"1,234\",3%,n/a,,Bolt,7\n\
                \n\
                x,3,3,n/a,,7,,\"Co\nLtd\",B2\n\
                x,4,4,7,1,n/a,,Dent,C3\n";
    let settings = csv(dir.path(), text);
    let left_out = |column: &str| {
        format!("t.csv: column \"{column}\" is left out of source.features = [\"*\"]: ")
    };
    let lines = ["price", "share", "sparse", "blank"].map(left_out);
    for _ in ["read", "cached"] {
        let (panel, said) = load_warned(&settings);
        assert_eq!(panel.unwrap().schema().columns, ["a"]);
        check_said(
            &said,
            &[
                &[&lines[0], "line 3 of ", "holds \"1,234\", which is no number", "source.na"],
                &[&lines[1], "line 2 of ", "holds \"5%\""],
                &[&lines[2], "line 2 of ", "holds \"n/a\""],
                &[&lines[3], "all of it is missing; name it"],
            ],
        );
    }
    // A column that nobody asked for is not worth a word.
    let named = SourceSettings { features: owned(&["a"]), ..settings.clone() };
    assert!(load_warned(&named).1.is_empty());
    let error = load_warned(&SourceSettings { features: owned(&["price"]), ..settings.clone() }).0;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("\"price\"") && error.contains("holds \"1,234\""), "{error}");

    let na = SourceSettings { na: owned(&["n/a", "1,234"]), ..settings };
    let (panel, said) = load_warned(&na);
    let panel = panel.unwrap();
    assert_eq!(panel.schema().columns, ["a", "price", "sparse"]);
    let values = panel.shards()[0].values();
    assert!(values[2].is_nan() && values[4].is_nan() && values[7].is_nan());
    assert_eq!((values[1], values[8], values[10]), (1.0, 7.0, 7.0));
    check_said(&said, &[&[&lines[1]], &[&lines[3]]]);
}

#[test]
fn truth_values_among_numbers_are_no_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let text = "symbol,trade_date,a,price,flag,sparse\n\
                x,1,1,1.5,TRUE,NaN\n\
                x,2,2,True,false,true\n\
                x,3,3,3,,False\n";
    let settings = csv(dir.path(), text);
    let (panel, said) = load_warned(&settings);
    let panel = panel.unwrap();
    assert_eq!(panel.schema().columns, ["a", "flag", "sparse"]);
    use ColumnKind::{Boolean, Number};
    assert_eq!(panel.schema().kinds, [Number, Boolean, Boolean]);
    let values = panel.shards()[0].values();
    assert_eq!((values[1], values[4], values[5], values[8]), (1.0, 0.0, 1.0, 0.0));
    assert!(values[2].is_nan() && values[7].is_nan());
    check_said(
        &said,
        &[&["column \"price\" is left out", "line 3 of ", "holds \"True\", which is no number"]],
    );
    let named = SourceSettings { features: owned(&["price"]), ..settings.clone() };
    let error = load_warned(&named).0.unwrap_err().to_string();
    assert!(error.contains("\"price\"") && error.contains("holds \"True\""), "{error}");
    let na = SourceSettings { na: owned(&["True"]), ..settings };
    let (panel, said) = load_warned(&na);
    assert_eq!(panel.unwrap().schema().columns, ["a", "price", "flag", "sparse"]);
    check_said(&said, &[]);
}

#[test]
fn times_without_an_offset_among_times_with_one_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let said = |times: &[&str]| {
        let rows: String = times.iter().map(|time| format!("x,{time},1\n")).collect();
        let settings = csv(dir.path(), &format!("symbol,trade_date,a\n\n{rows}"));
        ["read", "cached"].map(|_| {
            let (panel, said) = load_warned(&settings);
            panel.unwrap();
            said
        })
    };
    let first = "2020-01-01 10:00:00+02:00";
    for plain in ["2020-01-02 10:00:00", "2020-01-02"] {
        for said in said(&[first, plain, "2020-01-03T00:00:00.5Z", "2020-01-04 00:00:00"]) {
            let line = ["column \"trade_date\"", "line 4 of ", "t.csv", plain, "taken as UTC"];
            check_said(&said, &[&line]);
        }
    }
    for all in [[first, "2020-01-02 10:00:00.25-0330"], ["2020-01-01", "2020-01-02 10:00:00"]] {
        assert_eq!(said(&all).concat(), [""; 0]);
    }
}

#[test]
fn parquet_columns_of_types_that_are_not_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("trade_date", Arc::new(Int64Array::from(vec![1, 2]))),
        ("a", Arc::new(Float64Array::from(vec![1.0, 2.0]))),
        ("flag", Arc::new(BooleanArray::from(vec![true, false]))),
        ("name", Arc::new(StringArray::from(vec!["x", "y"]))),
        ("list", Arc::new(list)),
        ("big", Arc::new(Decimal256Array::from(vec![i256::ONE; 2]))),
        ("nothing", Arc::new(NullArray::new(2))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer =
        ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let settings = SourceSettings {
        kind: SourceKind::Parquet,
        path: Some(path.to_str().unwrap().to_owned()),
        series: None,
        cache: String::new(),
        ..SourceSettings::default()
    };
    let (panel, said) = load_warned(&settings);
    let schema = Arc::clone(panel.unwrap().schema());
    assert_eq!(schema.columns, ["a", "flag"]);
    assert_eq!(schema.kinds, [ColumnKind::Number, ColumnKind::Boolean]);
    check_said(
        &said,
        &[
            &["column \"list\"", "its type is List", "every element a column"],
            &["column \"big\"", "its type is Decimal256", "Decimal128"],
            &["column \"nothing\"", "all of it is missing"],
        ],
    );
}

#[test]
fn columns_of_a_table_that_are_not_read_are_named_and_the_others_keep_their_kind() {
    let server = Server::start();
    let rows = "select 'x'::text as symbol, 1 as trade_date, 1 as a, true as flag, 'x' as name,
        '1 day'::interval as pause, 5::money as price, date '2020-01-01' as day, '{1,2}'::int[] as e";
    let (panel, said) = load_warned(&query(&server, rows));
    let schema = Arc::clone(panel.unwrap().schema());
    assert_eq!(schema.columns, ["a", "flag", "e[1]", "e[2]"]);
    use ColumnKind::{Boolean, Number, Time};
    assert_eq!(schema.kinds, [Number, Boolean, Number, Number]);
    check_said(
        &said,
        &[&["column \"pause\"", "interval"], &["column \"price\"", "its type is money"]],
    );
    let named = SourceSettings { features: owned(&["day", "flag"]), ..query(&server, rows) };
    let (panel, said) = load_warned(&named);
    assert_eq!(
        (panel.unwrap().schema().kinds.as_slice(), said.len()),
        ([Time, Boolean].as_slice(), 0)
    );
}

#[test]
fn the_kind_of_a_column_is_in_the_fingerprint_and_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let truths = csv(dir.path(), "symbol,trade_date,a,b\nx,1,true,1\nx,2,false,1\n");
    let panels = ["read", "cached"].map(|_| load_warned(&truths).0.unwrap());
    for panel in &panels {
        assert_eq!(panel.schema().kinds, [ColumnKind::Boolean, ColumnKind::Number]);
    }
    let numbers = csv(dir.path(), "symbol,trade_date,a,b\nx,1,1,1\nx,2,0,1\n");
    let numbers = load_warned(&numbers).0.unwrap();
    assert_eq!(numbers.schema().kinds, [ColumnKind::Number; 2]);
    assert_eq!(numbers.shards()[0].values(), panels[0].shards()[0].values());
    assert_ne!(numbers.schema().fingerprint, panels[0].schema().fingerprint);
}

#[test]
fn fewer_connections_than_asked_for_are_said() {
    let server = Server::with(&Options::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_few", 150, 300);
    client
        .batch_execute(
            "CREATE ROLE few LOGIN CONNECTION LIMIT 1; GRANT SELECT ON millstream_test_few TO few",
        )
        .unwrap();
    let settings = SourceSettings {
        url: Some(server.url().replace("user=tester", "user=few")),
        connections: 2.try_into().unwrap(),
        ..table(&server, "millstream_test_few")
    };
    let (panel, said) = load_warned(&settings);
    assert_eq!(panel.unwrap().row_count(), 45_000);
    check_said(&said, &[&["did not let in all 2 connections", "too many connections for role"]]);
}

/// An address of this machine that is not a loopback, without sending anything anywhere.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn a_connection_that_leaves_the_machine_unencrypted_is_said() {
    let Some(address) = own_address() else {
        eprintln!("SKIPPED: this machine has no address besides its loopback");
        return;
    };
    let rule = format!("host all all {address}/32 trust");
    let server = Server::with(&Options {
        tcp: &[&rule, "host all all 127.0.0.1/32 trust"],
        settings: &["listen_addresses=*"],
        ..Options::default()
    });
    let url = |host: &str, mode: &str| {
        format!("host={host} port={} user=tester dbname=postgres {mode}", server.port())
    };
    let said = |url: String| {
        let rows = "select 'x' as symbol, 1 as trade_date, 1 as a";
        let (panel, said) = load_warned(&SourceSettings { url: Some(url), ..query(&server, rows) });
        panel.unwrap();
        said
    };
    check_said(&said(url(&address, "")), &[&["is not encrypted", &address, "sslmode=disable"]]);
    check_said(&said(url("127.0.0.1", "")), &[]);
    check_said(&said(url(&address, "sslmode=disable")), &[]);
}

#[test]
fn wrong_settings_are_told_from_wrong_data() {
    let dir = tempfile::tempdir().unwrap();
    let good = csv(dir.path(), SYMBOLS);
    let is_setting = |settings: SourceSettings| load_warned(&settings).0.unwrap_err().is_setting();
    let some = |text: &str| Some(text.to_owned());
    assert!(is_setting(SourceSettings { path: None, ..good.clone() }));
    assert!(is_setting(SourceSettings { path: some("/no/such/file.csv"), ..good.clone() }));
    assert!(is_setting(SourceSettings { from: some("yesterday"), ..good.clone() }));
    assert!(is_setting(SourceSettings { features: owned(&["[x"]), ..good.clone() }));
    let postgres = SourceSettings { kind: SourceKind::Postgres, ..good.clone() };
    assert!(is_setting(SourceSettings { url: some("hush"), ..postgres }));
    assert!(!is_setting(SourceSettings { features: owned(&["nope"]), ..good.clone() }));
    assert!(!is_setting(SourceSettings { from: some("99"), ..good.clone() }));
    assert!(!is_setting(csv(dir.path(), "symbol,trade_date,a\n,1,1\n")));
}

#[test]
fn values_beyond_32_bits_are_counted_by_column() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        csv(dir.path(), "symbol,trade_date,a,b,c\nx,1,1,1e39,1\nx,2,inf,-1e300,2\nx,3,3,3,3\n");
    for _ in ["read", "cached"] {
        let (panel, said) = load_warned(&settings);
        panel.unwrap();
        check_said(
            &said,
            &[&["column \"a\": 1 value is infinite"], &["column \"b\": 2 values are", "3.4e38"]],
        );
    }
}

#[test]
fn a_glob_that_means_no_column_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = SourceSettings {
        features: owned(&["a", "zz*"]),
        ..csv(dir.path(), "symbol,trade_date,a\nx,1,1\n")
    };
    let error = load_warned(&settings).0.unwrap_err().to_string();
    assert!(error.contains("\"zz*\"") && error.contains("source.features"), "{error}");
}
