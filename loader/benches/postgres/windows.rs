//! The data of a training epoch: every window of a table once, in batches. Ours loads the table
//! and copies windows from the panel; a data set backed by the database asks it for each batch.
//!
//! Windows are neither scaled nor shuffled as normalize does it, which this crate does not know:
//! what is compared is where the values come from.

use crate::{
    content::{Content, Sample},
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    workload::{BenchTable, DAYS},
};
use millstream_data::Panel;
use millstream_loader::{Loader, SourceSettings};
use millstream_stage::Source;
use postgres::{Client, NoTls};
use std::hint::black_box;

/// Rows of a window.
const LOOKBACK: u64 = 60;

/// Windows of a batch.
const BATCH: u64 = 256;

/// Batches whose values are compared.
const CHECKED: u64 = 4;

/// Windows follow one another in steps of this prime: no two of a batch are neighbours.
const STEP: u64 = 104_729;

/// More would only make the table larger.
const MOST_SERIES: u64 = 100;

/// An epoch over whole series, each of `DAYS` rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    series: u64,
}

impl Epoch {
    /// Of a table with so many rows.
    pub(crate) fn of(rows: u64) -> Self {
        Epoch { series: (rows / DAYS).min(MOST_SERIES) }
    }

    fn windows(self) -> u64 {
        self.series * (DAYS - LOOKBACK + 1)
    }

    /// Full ones.
    pub(crate) fn batches(self) -> u64 {
        self.windows() / BATCH
    }

    /// The first row of a window, of the series laid end to end.
    fn first_row(self, window: u64) -> u64 {
        let at = window * STEP % self.windows();
        let per_series = DAYS - LOOKBACK + 1;
        at / per_series * DAYS + at % per_series
    }
}

/// What a data set is told.
pub(crate) fn shape() -> serde_json::Value {
    serde_json::json!({ "lookback": LOOKBACK, "batch": BATCH, "step": STEP, "checked": CHECKED })
}

/// Makes the table, with the index that a query for windows needs, from the sorted one. Says what
/// is in the batches that are compared.
pub(crate) fn make(url: &str, epoch: Epoch) -> Result<Content, Failure> {
    let (table, sorted) = (BenchTable::Indexed.name(), BenchTable::Sorted.name());
    let mut client = Client::connect(url, NoTls)?;
    client.batch_execute(&format!(
        "CREATE TABLE {table} AS SELECT * FROM {sorted} \
         WHERE symbol < lpad('{}', 6, '0') ORDER BY symbol, trade_date; \
         ALTER TABLE {table} ADD PRIMARY KEY (symbol, trade_date)",
        epoch.series
    ))?;
    client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    let first_rows: Vec<i64> = (0..CHECKED * BATCH)
        .map(|window| i64::try_from(epoch.first_row(window)))
        .collect::<Result<_, _>>()?;
    let row = client.query_one(
        &format!(
            "WITH numbered AS (SELECT row_number() OVER (ORDER BY symbol, trade_date) - 1 AS n, \
             close_pct, f001 FROM {table}) \
             SELECT count(*), sum(close_pct), count(*) - count(f001) FROM unnest($1::int8[]) AS w \
             JOIN numbered ON n >= w AND n < w + {LOOKBACK}"
        ),
        &[&first_rows],
    )?;
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).ok();
    Ok(Content { rows: count(0), sum_close_pct: row.get(1), nulls_f001: count(2) })
}

/// Loads the panel, and copies an epoch's batches from it.
pub(crate) fn run(settings: SourceSettings, required: Vec<String>) -> Result<Sample, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let panel = Loader::new(settings, required).next()?.ok_or("a loader emits one panel")?;
    let epoch = Epoch { series: panel.schema().series.len() as u64 };
    let mut values = Vec::new();
    for batch in 0..epoch.batches() {
        copy(&panel, epoch, batch, &mut values);
        black_box(&mut values);
    }
    let sample = clock.stop()?;
    let mut checked = Vec::new();
    for batch in 0..CHECKED {
        copy(&panel, epoch, batch, &mut values);
        checked.extend_from_slice(&values);
    }
    let columns = &panel.schema().columns;
    let content = Content::of(columns, || checked.chunks_exact(columns.len()))?;
    Ok(Sample { content, ..sample })
}

fn copy(panel: &Panel, epoch: Epoch, batch: u64, values: &mut Vec<f32>) {
    let width = panel.schema().columns.len();
    values.clear();
    for window in batch * BATCH..(batch + 1) * BATCH {
        let (mut first, mut left) = (epoch.first_row(window) as usize, LOOKBACK as usize);
        for shard in panel.shards() {
            let here = shard.rows().saturating_sub(first).min(left);
            if here > 0 {
                values.extend_from_slice(&shard.values()[first * width..][..here * width]);
            }
            (first, left) = (first.saturating_sub(shard.rows()), left - here);
        }
    }
}
