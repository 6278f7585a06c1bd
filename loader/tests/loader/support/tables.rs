//! Tables of a real PostgreSQL, and settings that read them.

use super::server::Server;
use millstream_loader::{SourceKind, SourceSettings};
use postgres::{Client, NoTls};

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
