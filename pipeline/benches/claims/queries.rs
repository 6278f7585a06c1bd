//! Batches from PostgreSQL: a query for each, or the table loaded once and cut in memory.

use crate::{
    finding::Finding,
    harness::Failure,
    support::server::{Options, Server},
    turns::Turns,
    workload::{self, BATCH, FEATURES, Size, TARGET, Windows, threads},
};
use millstream_data::{BatchSlot, PanelSchema};
use millstream_loader::{SourceKind, SourceSettings};
use millstream_normalize::{Batches, Window};
use millstream_stage::thread_pool;
use postgres::{Client, NoTls, Statement, fallible_iterator::FallibleIterator as _};
use std::{
    fmt::Write as _,
    process::exit,
    sync::{Arc, Mutex, PoisonError},
};

/// The table stays in memory, and nothing but the readers is at work.
const SERVER: [&str; 4] = ["shared_buffers=1GB", "autovacuum=off", "jit=off", "max_wal_size=8GB"];

const TABLE: &str = "millstream_bench_claims";

/// Days of a series.
const DAYS: usize = 1000;

/// Batches that a round of queries gets: an epoch of them would take minutes.
const QUERIES: u64 = 4;

const NAMES: [&str; 2] = ["a query per batch", "loaded, prepared, and an epoch filled"];

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let server = Server::with(&Options { settings: &SERVER, ..Options::default() });
    let url = server.url().to_owned();
    let server = Arc::new(Mutex::new(Some(server)));
    // The server is in a session of its own, so nobody else would stop it.
    let interrupted = Arc::clone(&server);
    let stop = |server: &Mutex<Option<Server>>| {
        drop(server.lock().unwrap_or_else(PoisonError::into_inner).take());
    };
    ctrlc::set_handler(move || {
        stop(&interrupted);
        exit(130);
    })?;
    let finding = compare(size, &url);
    stop(&server);
    finding
}

fn compare(size: &Size, url: &str) -> Result<Finding, Failure> {
    make_table(url, size.table_rows)?;
    let pool = thread_pool("queries", threads(2));
    let source = SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(url.to_owned()),
        table: Some(TABLE.to_owned()),
        cache: String::new(),
        ..SourceSettings::default()
    };
    let panel = workload::load(source.clone())?;
    let schema = Arc::clone(panel.schema());
    let windows = Windows::new(&panel, &workload::learn_from_all(), &workload::settings())?;
    drop(panel);
    let epoch = windows.epoch()?;
    let mut filler = windows.filler();
    let mut slot = BatchSlot::on_heap(filler.layout());
    let mut queries = Queries::new(url, &windows, &epoch, &schema)?;

    filler.fill(&mut slot, &windows.rows, &windows.train, &epoch, 0);
    queries.batch(0)?;
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    if !queries.values.iter().zip(&*slot.parts_mut().0.inputs).all(near) {
        return Err("a query gives other values than the panel".into());
    }

    let mut next = 0;
    let turns = Turns::take(&NAMES, size.rounds.min(5), |way| {
        if way == 0 {
            for _ in 0..QUERIES {
                queries.batch(next)?;
                next = (next + 1) % epoch.len();
            }
            return Ok(());
        }
        let panel = workload::load(source.clone())?;
        let (split, settings) = (workload::learn_from_all(), workload::settings());
        let windows = pool.install(|| Windows::new(&panel, &split, &settings))?;
        let (mut filler, epoch) = (windows.filler(), windows.epoch()?);
        for batch in 0..epoch.len() {
            pool.install(|| {
                filler.fill(&mut slot, &windows.rows, &windows.train, &epoch, batch);
            });
        }
        Ok(())
    })?;
    let scale = epoch.len() as f64 / QUERIES as f64;
    let (query_ms, ours_s) = (turns.median(0) / QUERIES as f64 * 1e3, turns.median(1));
    Ok(Finding {
        measured: Some(turns.gain(0, 1).median * scale),
        losses: None,
        how: format!(
            "the data of an epoch of {} batches [256, 60, 105] from a table of {} rows in \
             PostgreSQL: one prepared query per batch over the index (symbol, trade_date), binary \
             rows decoded into a reused buffer, {query_ms:.0} ms each; ours loads the table, \
             scales it and fills all batches in {ours_s:.2} s, load included; same values; \
             training itself is not counted",
            epoch.len(),
            size.table_rows
        ),
        reason: None,
    })
}

/// A market's daily features in the order of (symbol, date), with the index that makes windows
/// cheap to find.
fn make_table(url: &str, rows: usize) -> Result<(), Failure> {
    let (mut columns, mut values) = (String::new(), String::new());
    for feature in 1..FEATURES {
        write!(columns, ", f{feature:03} float4")?;
        values += ", CASE WHEN random() < 0.005 THEN NULL ELSE (random() * 2 - 1)::float4 END";
    }
    let mut client = Client::connect(url, NoTls)?;
    client.batch_execute(&format!(
        "CREATE TABLE {TABLE} (symbol text, trade_date date, {TARGET} float4{columns}); \
         INSERT INTO {TABLE} SELECT lpad((i / {DAYS})::text, 6, '0') || '.SZ', \
         date '2015-01-01' + (i % {DAYS})::int, ((random() - 0.5) / 5)::float4{values} \
         FROM generate_series(0, {rows} - 1) AS i; \
         ALTER TABLE {TABLE} ADD PRIMARY KEY (symbol, trade_date)"
    ))?;
    Ok(client.batch_execute(&format!("VACUUM ANALYZE {TABLE}"))?)
}

/// What a database-backed data set does.
struct Queries<'a> {
    client: Client,
    statement: Statement,
    windows: &'a Windows,
    epoch: &'a Batches,
    schema: &'a PanelSchema,
    /// The inputs of a batch, scaled.
    values: Vec<f32>,
}

impl<'a> Queries<'a> {
    fn new(
        url: &str,
        windows: &'a Windows,
        epoch: &'a Batches,
        schema: &'a PanelSchema,
    ) -> Result<Self, Failure> {
        let mut client = Client::connect(url, NoTls)?;
        let columns: Vec<String> =
            schema.columns.iter().map(|column| format!("f.{column}")).collect();
        let columns = columns.join(", ");
        let statement = client.prepare(&format!(
            "SELECT {columns} FROM unnest($1::text[], $2::text[]::date[], $3::text[]::date[]) \
             WITH ORDINALITY AS w(symbol, first, last, place) \
             JOIN {TABLE} f ON f.symbol = w.symbol AND f.trade_date BETWEEN w.first AND w.last \
             ORDER BY w.place, f.trade_date"
        ))?;
        Ok(Queries { client, statement, windows, epoch, schema, values: Vec::new() })
    }

    fn batch(&mut self, batch: u64) -> Result<(), Failure> {
        let Queries { windows, epoch, schema, .. } = *self;
        let times = windows.rows.times();
        let (mut symbols, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for place in epoch.places(batch) {
            let window: Window = windows.train.at(epoch.position(place));
            symbols.push(schema.series[window.series as usize].as_str());
            first.push(schema.format_time(times[window.first]));
            last.push(schema.format_time(times[window.row]));
        }
        self.values.clear();
        let parameters: [&(dyn postgres::types::ToSql + Sync); 3] = [&symbols, &first, &last];
        let mut rows = self.client.query_raw(&self.statement, parameters)?;
        while let Some(row) = rows.next()? {
            for (at, column) in windows.scaling.features.iter().enumerate() {
                let scaled = row.try_get::<_, Option<f32>>(at)?.map(|value| {
                    ((f64::from(value) - column.fit.offset) / column.fit.scale) as f32
                });
                self.values.push(scaled.unwrap_or(0.0));
            }
        }
        let expected = BATCH * windows.schema.lookback * FEATURES;
        if self.values.len() == expected {
            Ok(())
        } else {
            Err(format!("{} values instead of {expected}", self.values.len()).into())
        }
    }
}
