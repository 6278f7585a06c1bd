//! Tables that change after they were cached, and settings that come to mean something else.

use crate::support::{
    connect,
    server::{Options, Server},
    table,
};
use millstream_data::Panel;
use millstream_loader::{LoadError, Loader, Origin, Refresh, SourceSettings};
use millstream_stage::{Source, Warnings};
use postgres::Client;
use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
};

struct Loaded {
    panel: Panel,
    origin: Origin,
    said: Vec<String>,
}

fn load(settings: &SourceSettings, refresh: Refresh) -> Result<Loaded, LoadError> {
    let (warnings, origin) = (Warnings::default(), Arc::new(Mutex::new(None)));
    // The last: a slow machine tells of the cache too while it looks whether that will do.
    let last = Arc::clone(&origin);
    let mut loader = Loader::new(settings.clone(), Vec::new())
        .refresh(refresh)
        .warn_to(warnings.clone())
        .on_progress(Box::new(move |progress| {
            let is_cached = progress.origin == Origin::Cache;
            let origin = if is_cached { Origin::Cache } else { Origin::Source };
            *last.lock().unwrap() = Some(origin);
            ControlFlow::Continue(())
        }));
    let panel = loader.next()?.expect("a loader emits one panel");
    let origin = origin.lock().unwrap().expect("progress is told");
    Ok(Loaded { panel, origin, said: warnings.all() })
}

fn cached(server: &Server, cache: &Path, name: &str) -> SourceSettings {
    SourceSettings { cache: cache.to_str().unwrap().to_owned(), ..table(server, name) }
}

/// Checks what comes of a load: rows, whence, and the parts of its only warning.
fn check(settings: &SourceSettings, refresh: Refresh, rows: usize, origin: Origin, said: &[&str]) {
    let loaded = load(settings, refresh).unwrap();
    let found = (loaded.panel.row_count(), loaded.origin);
    assert_eq!(found, (rows, origin), "{refresh:?}: {:?}", loaded.said);
    match said {
        [] => assert!(loaded.said.is_empty(), "{:?}", loaded.said),
        parts => {
            assert_eq!(loaded.said.len(), 1, "{:?}", loaded.said);
            assert!(parts.iter().all(|part| loaded.said[0].contains(part)), "{:?}", loaded.said);
        }
    }
}

fn make(client: &mut Client, name: &str) {
    client
        .batch_execute(&format!(
            "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (symbol text, trade_date date, a real);
             INSERT INTO {name} SELECT 'x', date '2020-01-01' + d, d FROM generate_series(0, 9) d"
        ))
        .unwrap();
}

const ALL: [Refresh; 2] = [Refresh::Never, Refresh::IfNewer];

#[test]
fn a_table_with_newer_rows_is_warned_of_or_read_anew() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let mut client = connect(&server);
    make(&mut client, "millstream_test_fresh");
    let settings = cached(&server, dir.path(), "millstream_test_fresh");
    check(&settings, Refresh::Never, 10, Origin::Source, &[]);
    for refresh in ALL {
        check(&settings, refresh, 10, Origin::Cache, &[]);
    }
    let more =
        "INSERT INTO millstream_test_fresh VALUES ('x', '2021-01-01', 5), ('y', '2020-01-01', 5)";
    client.batch_execute(more).unwrap();
    let said = [
        "the cached rows of table millstream_test_fresh were read ",
        "newest is 2021-01-01 beside 2020-01-10 and it has 12 beside 10 rows",
        "--refresh",
    ];
    check(&settings, Refresh::Never, 10, Origin::Cache, &said);
    // What the settings leave out does not matter.
    let before = SourceSettings {
        to: Some("2020-06-01".to_owned()),
        symbols: vec!["x".to_owned()],
        ..settings.clone()
    };
    check(&before, Refresh::Never, 10, Origin::Source, &[]);
    client
        .batch_execute("INSERT INTO millstream_test_fresh VALUES ('x', '2022-01-01', 5)")
        .unwrap();
    check(&before, Refresh::Never, 10, Origin::Cache, &[]);
    check(&settings, Refresh::IfNewer, 13, Origin::Source, &[]);
    check(&settings, Refresh::IfNewer, 13, Origin::Cache, &[]);
    check(&settings, Refresh::Never, 13, Origin::Cache, &[]);
    check(&settings, Refresh::Always, 13, Origin::Source, &[]);
}

#[test]
fn rows_that_are_changed_in_place_or_replaced_are_noticed() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let mut client = connect(&server);
    make(&mut client, "millstream_test_fresh");
    let settings = cached(&server, dir.path(), "millstream_test_fresh");
    let read = || check(&settings, Refresh::Always, 10, Origin::Source, &[]);
    let changes = [
        "UPDATE millstream_test_fresh SET a = 99 WHERE a = 3",
        "TRUNCATE millstream_test_fresh; INSERT INTO millstream_test_fresh
            SELECT 'x', date '2020-01-01' + d, -d FROM generate_series(0, 9) d",
        "ALTER TABLE millstream_test_fresh ADD b real",
    ];
    for change in changes {
        // Statistics are written down when a connection ends.
        connect(&server).batch_execute("SELECT 1").unwrap();
        read();
        connect(&server).batch_execute(change).unwrap();
        let stale = |said: &[String]| said.iter().any(|line| line.contains("--refresh"));
        // The end of a connection is not waited for: ask until the server has noticed.
        let asked = (0..1000).find(|_| stale(&load(&settings, Refresh::Never).unwrap().said));
        assert!(asked.is_some(), "{change}");
        check(&settings, Refresh::IfNewer, 10, Origin::Source, &[]);
    }
}

#[test]
fn a_query_is_asked_too_and_one_that_takes_too_long_is_said() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let mut client = connect(&server);
    make(&mut client, "millstream_test_fresh");
    let query = |query: &str| SourceSettings {
        table: None,
        query: Some(query.to_owned()),
        ..cached(&server, dir.path(), "")
    };
    let plain =
        query("select symbol, trade_date::timestamptz as trade_date, a from millstream_test_fresh");
    check(&plain, Refresh::Never, 10, Origin::Source, &[]);
    // Nobody can tell whether rows of a query were changed in place.
    let said = ["as many now", "changed in place is not known", "--refresh"];
    check(&plain, Refresh::Never, 10, Origin::Cache, &said);
    check(&plain, Refresh::IfNewer, 10, Origin::Source, &[]);
    let slow = query("select * from millstream_test_fresh where pg_sleep(0.5) is not null");
    check(&slow, Refresh::Never, 10, Origin::Source, &[]);
    let said = ["were read ", "would take too long", "--refresh"];
    check(&slow, Refresh::IfNewer, 10, Origin::Cache, &said);
    client.batch_execute("DELETE FROM millstream_test_fresh WHERE a = 9").unwrap();
    check(&plain, Refresh::Never, 10, Origin::Cache, &["newest is 2020-01-09", "9 beside 10 rows"]);
}

#[test]
fn cached_rows_are_used_while_the_server_is_down_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(&Options::default());
    make(&mut connect(&server), "millstream_test_fresh");
    let settings = cached(&server, dir.path(), "millstream_test_fresh");
    check(&settings, Refresh::Never, 10, Origin::Source, &[]);
    drop(server);
    let said = ["were read ", "ago, and whether there are newer ones is not known", "be asked"];
    for refresh in ALL {
        check(&settings, refresh, 10, Origin::Cache, &said);
    }
    load(&settings, Refresh::Always).err().expect("there is nothing to read anew");
}

#[test]
fn rows_of_another_search_path_role_or_database_are_not_those_that_are_cached() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(&Options::default());
    let mut client = connect(&server);
    client
        .batch_execute(
            "CREATE SCHEMA one; CREATE SCHEMA two;
             CREATE TABLE one.t AS SELECT 'x' AS symbol, 1 AS trade_date, 1 AS a;
             CREATE TABLE two.t AS SELECT 'x' AS symbol, 1 AS trade_date, 2 AS a;
             ALTER ROLE tester SET search_path = one",
        )
        .unwrap();
    let settings = cached(&server, dir.path(), "t");
    let value = |settings: &SourceSettings| {
        let loaded = load(settings, Refresh::Never).unwrap();
        (loaded.panel.shards()[0].values()[0], loaded.origin, loaded.said)
    };
    assert_eq!(value(&settings), (1.0, Origin::Source, vec![]));
    assert_eq!(value(&settings), (1.0, Origin::Cache, vec![]));
    // What the connection string says is in the key …
    let two = SourceSettings {
        url: Some(format!("{} options='-c search_path=two'", server.url())),
        ..settings.clone()
    };
    assert_eq!(value(&two), (2.0, Origin::Source, vec![]));
    assert_eq!(value(&settings), (1.0, Origin::Cache, vec![]));
    // … and what only the server knows is asked for.
    client.batch_execute("ALTER ROLE tester SET search_path = two").unwrap();
    let (found, origin, said) = value(&settings);
    assert_eq!((found, origin, said.len()), (2.0, Origin::Source, 1));
    assert!(said[0].contains("the search path is another one now; they are read anew"), "{said:?}");

    let other = SourceSettings {
        url: Some(server.url().replace("dbname=postgres", "dbname=other")),
        ..settings
    };
    for number in [3, 4] {
        client.batch_execute("DROP DATABASE IF EXISTS other").unwrap();
        client.batch_execute("CREATE DATABASE other").unwrap();
        let url = other.url.as_deref().unwrap();
        let mut inside = Client::connect(url, postgres::NoTls).unwrap();
        let make = format!(
            "CREATE SCHEMA two; CREATE TABLE two.t AS SELECT 'x' AS symbol, 1 AS trade_date, {number} AS a"
        );
        inside.batch_execute(&make).unwrap();
        assert_eq!(value(&other).0, number as f32);
        assert_eq!(value(&other).1, Origin::Cache);
    }
}

/// A table of two series with the same times, so that neither a count nor the newest time tells which
/// of them is read.
fn make_two(client: &mut Client, name: &str) {
    make(client, name);
    let other = format!("INSERT INTO {name} SELECT 'y', trade_date, -a FROM {name}");
    client.batch_execute(&other).unwrap();
}

/// Checks that rows are not taken for fresh that something besides the table chooses: series `x`
/// until `change`, and then `y`.
fn check_chosen(client: &mut Client, settings: &SourceSettings, change: &str) {
    let series = |refresh| load(settings, refresh).unwrap().panel.schema().series.clone();
    assert_eq!(series(Refresh::Never), ["x"]);
    client.batch_execute(change).unwrap();
    let said = ["as many now", "is not known", "source.where", "row-level security", "--refresh"];
    check(settings, Refresh::Never, 10, Origin::Cache, &said);
    check(settings, Refresh::IfNewer, 10, Origin::Source, &[]);
    assert_eq!(series(Refresh::Never), ["y"], "{change}");
}

#[test]
fn rows_that_a_condition_chooses_by_what_is_elsewhere_are_not_taken_for_fresh() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let mut client = connect(&server);
    make_two(&mut client, "millstream_test_chosen");
    client
        .batch_execute(
            "DROP TABLE IF EXISTS millstream_test_params;
             CREATE TABLE millstream_test_params AS SELECT 'x' AS sym;
             CREATE OR REPLACE FUNCTION millstream_test_choice() RETURNS text LANGUAGE sql AS $$SELECT 'x'$$",
        )
        .unwrap();
    let filtered = |filter: &str| SourceSettings {
        filter: Some(filter.to_owned()),
        ..cached(&server, dir.path(), "millstream_test_chosen")
    };
    check_chosen(
        &mut client,
        &filtered("symbol in (select sym from millstream_test_params)"),
        "UPDATE millstream_test_params SET sym = 'y'",
    );
    check_chosen(
        &mut client,
        &filtered("symbol = millstream_test_choice()"),
        "CREATE OR REPLACE FUNCTION millstream_test_choice() RETURNS text LANGUAGE sql AS $$SELECT 'y'$$",
    );
    let plain = filtered("symbol in ('x', 'select f(1)') and (a between 0 and 1e3 or not (a < 0))");
    check(&plain, Refresh::Never, 10, Origin::Source, &[]);
    for refresh in ALL {
        check(&plain, refresh, 10, Origin::Cache, &[]);
    }
}

#[test]
fn rows_that_a_policy_chooses_are_not_taken_for_fresh() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(&Options::default());
    let mut client = connect(&server);
    make_two(&mut client, "millstream_test_chosen");
    client
        .batch_execute(
            "CREATE ROLE reader LOGIN; GRANT SELECT ON millstream_test_chosen TO reader;
             ALTER TABLE millstream_test_chosen ENABLE ROW LEVEL SECURITY;
             CREATE POLICY choice ON millstream_test_chosen USING (symbol = 'x')",
        )
        .unwrap();
    let all = cached(&server, dir.path(), "millstream_test_chosen");
    let reader = SourceSettings {
        url: Some(server.url().replace("user=tester", "user=reader")),
        ..all.clone()
    };
    let change = "ALTER POLICY choice ON millstream_test_chosen USING (symbol = 'y')";
    check_chosen(&mut client, &reader, change);
    // To a superuser no policy applies.
    check(&all, Refresh::Never, 20, Origin::Source, &[]);
    check(&all, Refresh::Never, 20, Origin::Cache, &[]);
}
