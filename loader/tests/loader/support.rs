//! What several test files need: panels to compare, and a real PostgreSQL.

pub(crate) mod authority;
pub(crate) mod proxy;
pub(crate) mod server;

use millstream_data::Panel;
use millstream_loader::{LoadError, Loader, SourceKind, SourceSettings};
use millstream_stage::Source;
use postgres::{Client, NoTls};
use server::Server;
use std::{sync::mpsc, thread, time::Duration};

/// Loads the panel, asking for `close_pct` as target.
pub(crate) fn load(settings: &SourceSettings) -> Result<Panel, LoadError> {
    let panel = Loader::new(settings.clone(), vec!["close_pct".to_owned()]).next()?;
    Ok(panel.expect("a loader emits one panel"))
}

/// All rows: series code, time, bits of the values.
pub(crate) fn rows(panel: &Panel) -> Vec<(u32, i64, Vec<u32>)> {
    let width = panel.schema().width();
    let of_shard = |shard: &millstream_data::Shard| -> Vec<_> {
        let values = shard.values().chunks(width);
        let keys = shard.codes().iter().copied().zip(shard.times().iter().copied());
        keys.zip(values)
            .map(|((code, time), row)| (code, time, row.iter().map(|v| v.to_bits()).collect()))
            .collect()
    };
    panel.shards().iter().flat_map(of_shard).collect()
}

/// An error and its causes, as a user sees them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Settings that read a table of the server, uncached.
pub(crate) fn table(server: &Server, name: &str) -> SourceSettings {
    SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(server.url().to_owned()),
        table: Some(name.to_owned()),
        cache: String::new(),
        ..SourceSettings::default()
    }
}

/// Settings that read a query, uncached.
pub(crate) fn query(server: &Server, query: &str) -> SourceSettings {
    SourceSettings { table: None, query: Some(query.to_owned()), ..table(server, "") }
}

pub(crate) fn connect(server: &Server) -> Client {
    Client::connect(server.url(), NoTls).unwrap()
}

/// What `work` gives. Fails when it takes so long that it must be stuck, whatever else goes on.
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, done) = mpsc::channel();
    // Not joined: what is stuck goes with the test's server.
    thread::spawn(move || sender.send(work()));
    match done.recv_timeout(Duration::from_secs(60)) {
        Ok(given) => given,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not done after a minute"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: panicked, see above"),
    }
}

/// Makes a table that takes several tasks to read: `series` series of `days` days and 40 features,
/// in an order that has nothing to do with either. Its values are whole numbers, so that sums are
/// exact, and some are NULL.
pub(crate) fn make_wide(client: &mut Client, name: &str, series: u32, days: u32) {
    let columns: Vec<String> = (1..=40).map(|n| format!("f{n:02} real")).collect();
    let values: Vec<String> =
        (1..=40).map(|n| format!("nullif((s * 7 + d * 13 + {n} * 31) % 1009, {n})")).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    client
        .batch_execute(&format!(
            "DROP TABLE IF EXISTS {name} CASCADE;
             CREATE TABLE {name} (symbol text, trade_date date, close_pct real, {columns});
             INSERT INTO {name} SELECT 'S' || lpad(s::text, 4, '0'), date '2015-01-01' + d, s % 17, {values}
             FROM generate_series(1, {series}) s, generate_series(1, {days}) d
             ORDER BY hashint4(s * 100000 + d);
             ANALYZE {name}"
        ))
        .unwrap();
}
