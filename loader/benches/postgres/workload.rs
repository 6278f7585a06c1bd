//! The tables that everybody reads: a market's daily features, once in the order of (symbol,
//! date) and once in random physical order.

use crate::{content::Content, harness::Failure, kept::Kept};
use postgres::{Client, Config, NoTls, config::Host};
use std::fmt::Write as _;

/// One of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchTable {
    /// Rows lie in the order of the panel.
    Sorted,
    /// Rows lie anywhere, so the panel has to permute them.
    Shuffled,
    /// Some series of the sorted one, with an index; made only for those who look up windows.
    Indexed,
}

impl BenchTable {
    pub(crate) const ALL: [BenchTable; 3] =
        [BenchTable::Sorted, BenchTable::Shuffled, BenchTable::Indexed];

    /// Its name in the database, which may be one that somebody lent us.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BenchTable::Sorted => "millstream_bench_sorted",
            BenchTable::Shuffled => "millstream_bench_shuffled",
            BenchTable::Indexed => "millstream_bench_indexed",
        }
    }
}

/// Feature columns besides the target.
const FEATURES: usize = 104;

/// Days of a series: 1,000,147 rows are 541 series.
pub(crate) const DAYS: u64 = 1852;

/// The connection string in the one form that every reader takes: a URL, with a socket's folder
/// percent-encoded in place of the host.
pub(crate) fn url(connection: &str) -> Result<String, Failure> {
    let config: Config = connection.parse()?;
    let [host] = config.get_hosts() else { return Err("expected one host".into()) };
    let host = match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string().replace('/', "%2F"),
    };
    let user = config.get_user().ok_or("expected a user")?;
    let password = config
        .get_password()
        .map_or_else(String::new, |password| format!(":{}", String::from_utf8_lossy(password)));
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().unwrap_or(user);
    Ok(format!("postgresql://{user}{password}@{host}:{port}/{database}"))
}

/// Makes the tables that are read whole, or takes them from an earlier run, and says what is in
/// them.
pub(crate) fn make(url: &str, rows: u64) -> Result<Content, Failure> {
    const TABLES: [BenchTable; 2] = [BenchTable::Sorted, BenchTable::Shuffled];
    clear(url)?;
    let mut client = Client::connect(url, NoTls)?;
    let [sorted, shuffled] = TABLES.map(BenchTable::name);
    let mut columns = String::new();
    let mut values = String::new();
    for feature in 1..=FEATURES {
        write!(columns, ", f{feature:03} float4")?;
        values += ", CASE WHEN random() < 0.005 THEN NULL ELSE (random() * 2 - 1)::float4 END";
    }
    let create = TABLES.map(|table| {
        let name = table.name();
        format!("CREATE TABLE {name} (symbol text, trade_date date, close_pct float8{columns})")
    });
    // The target has no more digits than a panel keeps, so that sums can be compared.
    let fill = [
        "SELECT setseed(0.5)".to_owned(),
        format!(
            "INSERT INTO {sorted} SELECT lpad((i / {DAYS})::text, 6, '0') || '.SZ', \
             date '2015-01-01' + (i % {DAYS})::int, ((random() - 0.5) / 5)::float4{values} \
             FROM generate_series(0, {rows} - 1) AS i"
        ),
        "SET LOCAL work_mem = '1GB'".to_owned(),
        format!("INSERT INTO {shuffled} SELECT * FROM {sorted} ORDER BY random()"),
    ];
    let kept = Kept::of(&[&create[..], &fill].concat());
    // One transaction, so that the server writes no log.
    let mut transaction = client.transaction()?;
    transaction.batch_execute(&create.join("; "))?;
    if kept.has(&TABLES) {
        TABLES.iter().try_for_each(|table| kept.restore(&mut transaction, *table))?;
    } else {
        transaction.batch_execute(&fill.join("; "))?;
        TABLES.iter().try_for_each(|table| kept.keep(&mut transaction, *table))?;
    }
    transaction.commit()?;
    for table in [sorted, shuffled] {
        client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    }
    let row = client.query_one(
        &format!("SELECT count(*), sum(close_pct), count(*) - count(f001) FROM {sorted}"),
        &[],
    )?;
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).ok();
    Ok(Content { rows: count(0), sum_close_pct: row.get(1), nulls_f001: count(2) })
}

/// Drops the tables: they may be in a database that somebody lent us.
pub(crate) fn clear(url: &str) -> Result<(), Failure> {
    let mut client = Client::connect(url, NoTls)?;
    for table in BenchTable::ALL {
        client.batch_execute(&format!(
            "SET client_min_messages = warning; DROP TABLE IF EXISTS {}",
            table.name()
        ))?;
    }
    Ok(())
}

/// The page in the middle of a table, for readers that want to be told where to cut it.
pub(crate) fn middle_page(url: &str, table: BenchTable) -> Result<i64, Failure> {
    let sql = "SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::int8 / 2";
    Ok(Client::connect(url, NoTls)?.query_one(sql, &[&table.name()])?.get(0))
}
