//! One snapshot: what all connections see, whoever writes, and whichever connections break.

use crate::support::{
    chain, connect, in_time, load, make_wide,
    proxy::{Proxy, Route},
    rows,
    server::{Options, Server},
    table,
};
use millstream_data::Panel;
use millstream_loader::{LoadError, LoadProgress, Loader, SourceSettings, copy_commands};
use millstream_stage::{Source, Warnings};
use postgres::{Client, NoTls};
use std::{
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The sum of the first value of all rows. Values are whole numbers, so it is exact.
fn total(panel: &Panel) -> f64 {
    let width = panel.schema().width();
    let firsts = panel.shards().iter().flat_map(|shard| shard.values().iter().step_by(width));
    firsts.map(|value| f64::from(*value)).sum()
}

/// Moves amounts between rows until told to stop: the sum of all rows never changes.
fn move_amounts(url: &str, seed: u64, stop: &AtomicBool) -> u64 {
    let mut client = Client::connect(url, NoTls).unwrap();
    let mut moves = 0_u64;
    let pick = |n: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed) % 45_000;
    let change = |row: u64, amount: i32| {
        let (series, day) = (row / 300 + 1, row % 300 + 1);
        format!(
            "UPDATE millstream_test_bank SET close_pct = close_pct + {amount}
             WHERE symbol = 'S{series:04}' AND trade_date = date '2015-01-01' + {day};"
        )
    };
    while !stop.load(Ordering::Relaxed) {
        let (one, other) = (pick(2 * moves), pick(2 * moves + 1));
        // The lower row first, so that two writers never wait for each other.
        let (first, second) = (change(one.min(other), -1), change(one.max(other), 1));
        client.batch_execute(&format!("BEGIN; {first} {second} COMMIT")).unwrap();
        moves += 1;
    }
    moves
}

/// The total of the same commands, each in a snapshot of its own.
fn torn_total(client: &mut Client, source: &SourceSettings) -> f64 {
    let commands = copy_commands(source, &["close_pct".to_owned()]).unwrap();
    assert!(commands.len() > 1, "{commands:?}");
    let sum = |command: &String| -> f64 {
        let select = command.strip_prefix("COPY (").and_then(|c| c.split_once(") TO STDOUT"));
        let sum = format!("SELECT sum(close_pct)::float8 FROM ({}) AS part", select.unwrap().0);
        client.query_one(&sum, &[]).unwrap().get::<_, Option<f64>>(0).unwrap_or_default()
    };
    commands.iter().map(sum).sum()
}

#[test]
fn a_writer_never_shows_in_the_total() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_bank", 150, 300);
    let index = "CREATE UNIQUE INDEX ON millstream_test_bank (symbol, trade_date)";
    client.batch_execute(index).unwrap();
    let source = table(&server, "millstream_test_bank");
    let expected = total(&load(&source).unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [1, 2].map(|seed| {
            let (url, stop) = (server.url(), &stop);
            scope.spawn(move || move_amounts(url, seed, stop))
        });
        let wrong = (0..100).filter(|_| total(&load(&source).unwrap()) != expected).count();
        // The same commands without a shared snapshot: this is what would happen.
        let torn = (0..400).any(|_| torn_total(&mut client, &source) != expected);
        stop.store(true, Ordering::Relaxed);
        let moves: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert!(moves > 100, "{moves} moves");
        assert_eq!(wrong, 0, "of 100 loads");
        assert!(torn, "even without a shared snapshot the total was right: this shows nothing");
    });
}

/// A table that takes seconds to read, since the server dawdles over every row.
fn slow(server: &Server) -> SourceSettings {
    let url = format!("{} application_name=victim", server.url());
    SourceSettings {
        url: Some(url),
        filter: Some("extract(day from trade_date) <> 1 or pg_sleep(0.001) is not null".to_owned()),
        ..table(server, "millstream_test_slow")
    }
}

/// Loads, and does something when the first rows have come.
fn load_disturbed(
    settings: &SourceSettings,
    disturb: impl FnMut(LoadProgress) -> ControlFlow<()> + Send + 'static,
) -> Result<Panel, LoadError> {
    load_warned(settings, &Warnings::default(), disturb)
}

/// The same, with a list for what is said.
fn load_warned(
    settings: &SourceSettings,
    warnings: &Warnings,
    mut disturb: impl FnMut(LoadProgress) -> ControlFlow<()> + Send + 'static,
) -> Result<Panel, LoadError> {
    let loader = Loader::new(settings.clone(), vec!["close_pct".to_owned()]);
    let loader = loader.warn_to(warnings.clone());
    let panel = loader.on_progress(Box::new(move |progress| {
        if progress.rows > 1_000 { disturb(progress) } else { ControlFlow::Continue(()) }
    }));
    let mut panel = panel;
    panel.next().map(|panel| panel.expect("a loader emits one panel"))
}

const VICTIMS: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'";

/// Ends a backend, and says whether there was one.
fn kill(client: &mut Client, which: &str) -> u64 {
    let kill = format!("SELECT pg_terminate_backend(pid) FROM ({VICTIMS} {which}) AS victim");
    client.execute(&kill, &[]).unwrap()
}

#[test]
fn twenty_killed_backends_change_nothing() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let expected = load(&table(&server, "millstream_test_slow")).unwrap();
    // Slow enough that no load is done before all are killed.
    let filter = "extract(day from trade_date) > 5 or pg_sleep(0.001) is not null".to_owned();
    let source = SourceSettings { filter: Some(filter), ..slow(&server) };
    for connections in [2, 4] {
        let source =
            SourceSettings { connections: connections.try_into().unwrap(), ..source.clone() };
        let mut killer = connect(&server);
        let (sender, kills) = std::sync::mpsc::channel();
        let (mut killed, mut last) = (0, Instant::now());
        let panel = load_disturbed(&source, move |_| {
            // The oldest is the one that took the snapshot; then anyone, while another one is
            // there to hold it: to kill the last would be another test.
            let which = if killed == 0 { "backend_start" } else { "random()" };
            let reading = "AND (query LIKE 'COPY%' OR state = 'idle in transaction')";
            let mut reading = || killer.query(&format!("{VICTIMS} {reading}"), &[]).unwrap().len();
            if killed < 20 && last.elapsed() > Duration::from_millis(30) && reading() >= 2 {
                killed += kill(&mut killer, &format!("ORDER BY {which} LIMIT 1"));
                last = Instant::now();
                sender.send(killed).unwrap();
            }
            ControlFlow::Continue(())
        });
        let panel = panel.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert_eq!(kills.iter().last(), Some(20), "with {connections} connections");
        assert_eq!(panel.schema(), expected.schema());
        assert_eq!(rows(&panel), rows(&expected));
    }
}

/// Rows written after the snapshot are not seen, also by those who come back into it.
#[test]
fn a_connection_comes_back_into_the_same_snapshot() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let expected = load(&table(&server, "millstream_test_slow")).unwrap();
    let mut killed = 0;
    let panel = load_disturbed(&slow(&server), move |_| {
        // One at a time, when both are there, so that one of them always holds the snapshot.
        if killed < 4 && client.query(VICTIMS, &[]).unwrap().len() == 2 {
            let more = "INSERT INTO millstream_test_slow (symbol, trade_date, close_pct)
                SELECT 'ZZ', date '2020-01-01' + n, 5 FROM generate_series(1, 100) n
                ON CONFLICT DO NOTHING";
            client.execute(more, &[]).unwrap();
            let oldest = "AND state = 'active' ORDER BY backend_start LIMIT 1";
            killed += kill(&mut client, oldest);
        }
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(panel.schema(), expected.schema());
    assert_eq!(rows(&panel), rows(&expected));
}

/// Somebody wants to change the table, waits for the readers to end, and makes every reader wait
/// that comes after. Those that are in must be able to end.
#[test]
fn a_change_of_the_table_that_waits_for_us_does_not_stop_us() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let changer = connect(&server);
    let mut changing = Some(changer);
    let (sender, changed) = mpsc::channel();
    let source = slow(&server);
    let disturb = move |_| {
        if let Some(mut changer) = changing.take() {
            let change = "ALTER TABLE millstream_test_slow ADD COLUMN later int";
            sender.send(thread::spawn(move || changer.batch_execute(change))).unwrap();
            let waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'";
            while client.query(waits, &[]).unwrap().is_empty() {
                thread::yield_now();
            }
            // Whoever comes back now queues behind the change, which waits for the other one.
            assert_eq!(kill(&mut client, "AND state = 'active' LIMIT 1"), 1);
        }
        ControlFlow::Continue(())
    };
    let load = move || load_disturbed(&source, disturb);
    let panel = in_time("a load behind a change of its table", load).unwrap();
    assert_eq!((panel.row_count(), panel.schema().width()), (45_000, 41));
    changed.recv().unwrap().join().unwrap().unwrap();
}

#[test]
fn a_lost_snapshot_is_taken_anew() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let expected = load(&table(&server, "millstream_test_slow")).unwrap();
    let mut killer = connect(&server);
    let mut killed = 0;
    let warnings = Warnings::default();
    let panel = load_warned(&slow(&server), &warnings, move |_| {
        if killed == 0 {
            // All of them, and with them the snapshot. What is written now is seen by the next.
            killed = kill(&mut killer, "");
            assert_eq!(killed, 2);
            let more = "INSERT INTO millstream_test_slow (symbol, trade_date, close_pct)
                VALUES ('ZZ', '2020-01-01', 5)";
            killer.execute(more, &[]).unwrap();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(panel.schema().series.last().map(String::as_str), Some("ZZ"));
    assert_eq!(rows(&panel)[..45_000], rows(&expected));
    assert_eq!(panel.row_count(), 45_001);
    let said = warnings.all();
    let restarts = "the load started again in a new one (time 1 of at most 5): ";
    assert!(said.iter().any(|line| line.contains(restarts)), "{said:?}");
}

#[test]
fn a_server_that_restarts_is_waited_for() {
    let server = Server::with(&Options::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let expected = load(&table(&server, "millstream_test_slow")).unwrap();
    drop(client);
    let server = std::sync::Arc::new(server);
    let own = std::sync::Arc::clone(&server);
    let mut restarted = false;
    let panel = load_disturbed(&slow(&server), move |_| {
        if !restarted {
            restarted = true;
            own.restart();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(rows(&panel), rows(&expected));
}

#[test]
fn backends_killed_for_ever_are_an_error_in_the_end() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let mut killer = connect(&server);
    let error = load_disturbed(&slow(&server), move |_| {
        kill(&mut killer, "");
        ControlFlow::Continue(())
    })
    .unwrap_err();
    let error = chain(&error);
    assert!(error.contains("share one snapshot, or ended all of them"), "{error}");
    assert!(error.contains("terminating connection"), "{error}");
}

#[test]
fn a_connection_that_is_reset_is_made_again() {
    let server = Server::with(&Options::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_reset", 150, 300);
    let source = table(&server, "millstream_test_reset");
    let expected = load(&source).unwrap();
    let behind = server.socket().unwrap();
    // The second and every later odd connection breaks, each a little later than the last.
    let proxy = Proxy::start(move |number| Route {
        socket: behind.clone(),
        cut_after: if number % 2 == 1 && number < 12 { 100_000 * number } else { usize::MAX },
    });
    let panel = load(&SourceSettings { url: Some(proxy.url()), ..source }).unwrap();
    assert_eq!(rows(&panel), rows(&expected));
}

#[test]
fn connections_that_cannot_share_a_snapshot_are_refused() {
    let servers = [Server::with(&Options::default()), Server::with(&Options::default())];
    for server in &servers {
        make_wide(&mut connect(server), "millstream_test_two", 150, 300);
    }
    let sockets = [0, 1].map(|n: usize| servers[n].socket().unwrap());
    // As behind a pooler or a list of servers: every other connection ends up elsewhere.
    let proxy = Proxy::start(move |number| Route {
        socket: sockets[number % 2].clone(),
        cut_after: usize::MAX,
    });
    let two =
        SourceSettings { url: Some(proxy.url()), ..table(&servers[0], "millstream_test_two") };
    let error = chain(&load(&two).unwrap_err());
    assert!(error.contains("set source.connections = 1"), "{error}");
    let one = SourceSettings { connections: 1.try_into().unwrap(), ..two };
    assert_eq!(load(&one).unwrap().row_count(), 45_000);
}

#[test]
fn a_statement_timeout_is_lifted_unless_the_user_asked_for_it() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    client
        .batch_execute(
            "DROP ROLE IF EXISTS millstream_test_hasty; CREATE ROLE millstream_test_hasty LOGIN SUPERUSER;
             ALTER ROLE millstream_test_hasty SET statement_timeout = '300ms'",
        )
        .unwrap();
    let url = server.url().replace("user=tester", "user=millstream_test_hasty");
    let hasty = SourceSettings { url: Some(url.clone()), ..slow(&server) };
    assert_eq!(load(&hasty).unwrap().row_count(), 45_000);
    let meant = format!("{} options='-c statement_timeout=50ms'", server.url());
    let meant = SourceSettings { url: Some(meant), ..slow(&server) };
    let one = SourceSettings { connections: 1.try_into().unwrap(), ..meant.clone() };
    for meant in [meant, one] {
        let error = chain(&load(&meant).unwrap_err());
        assert!(error.contains("statement timeout") && !error.contains("snapshot"), "{error}");
    }
}

#[test]
fn a_backend_that_is_killed_before_it_has_a_snapshot_is_replaced() {
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 5, 10);
    let mut writer = connect(&server);
    let mut write = writer.transaction().unwrap();
    write.batch_execute("LOCK TABLE millstream_test_slow IN ACCESS EXCLUSIVE MODE").unwrap();
    let source = SourceSettings { filter: None, ..slow(&server) };
    let warnings = Warnings::default();
    let heard = warnings.clone();
    let loading = thread::spawn(move || {
        load_warned(&source, &heard, |_| ControlFlow::Continue(())).map(|panel| panel.row_count())
    });
    let since = Instant::now();
    while kill(&mut client, "AND wait_event_type = 'Lock'") == 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "nobody waits for the table");
        thread::yield_now();
    }
    write.commit().unwrap();
    assert_eq!(loading.join().unwrap().map_err(|error| chain(&error)), Ok(50));
    let said = warnings.all();
    assert!(said.len() == 1 && said[0].contains("terminating connection due to"), "{said:?}");
}

/// A query that would take ten minutes: whoever drops it must be rid of it at once.
const ENDLESS: &str = "select symbol, trade_date, close_pct, f01 from millstream_test_slow
    cross join (select pg_sleep(600)) as nap";

fn backends(client: &mut Client) -> i64 {
    let sql = format!("SELECT count(*) FROM ({VICTIMS}) AS victims");
    client.query_one(&sql, &[]).unwrap().get(0)
}

/// Drops a reader and waits until the server has forgotten it; gives the time that took.
fn drop_and_wait<R: Send + 'static>(reader: R, client: &mut Client) -> Duration {
    let since = Instant::now();
    in_time("dropping a reader", move || drop(reader));
    while backends(client) > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "backends are still there");
        thread::yield_now();
    }
    since.elapsed()
}

#[test]
fn dropping_a_reader_ends_what_the_server_does_for_it() {
    use millstream_loader::{Columns, PostgresReader};
    let server = Server::start();
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_slow", 150, 300);
    let source = slow(&server);
    for batches in [0, 1] {
        let mut reader = PostgresReader::open(&source, Columns::Packed).unwrap();
        for batch in reader.by_ref().take(batches) {
            batch.unwrap();
        }
        assert!(backends(&mut client) > 0);
        println!("gone after {:?}", drop_and_wait(reader, &mut client));
    }
    // A statement that sends nothing can only be ended from outside.
    let endless =
        SourceSettings { table: None, query: Some(ENDLESS.to_owned()), filter: None, ..source };
    let reader = PostgresReader::open(&endless, Columns::Wide).unwrap();
    assert!(backends(&mut client) > 0);
    println!("gone after {:?}", drop_and_wait(reader, &mut client));
    let interrupted = in_time("interrupting a load", || {
        Loader::new(endless, vec!["close_pct".to_owned()])
            .on_progress(Box::new(|_| ControlFlow::Break(())))
            .next()
    });
    assert!(matches!(interrupted, Err(LoadError::Interrupted)));
    drop_and_wait((), &mut client);
}

/// An error in the first row ends the load at once, though the server had more to send.
#[test]
fn a_bad_row_ends_the_load_at_once() {
    let server = Server::start();
    let bad = crate::support::query(
        &server,
        "select 'a' as symbol, d as trade_date, 'NaN'::float8 as close_pct,
         1 as f from generate_series(1, 3) d
         union all select null, 5, 1, 1
         union all select 'z', 6 + generate_series(1, 1000000000), 1, 1",
    );
    let one = SourceSettings { connections: 1.try_into().unwrap(), ..bad };
    let limited = one.query.clone().unwrap() + " limit 2000000000";
    let error = load(&SourceSettings { query: Some(limited), ..one }).unwrap_err().to_string();
    assert!(error.contains("the row without a series at 5"), "{error}");
}
