//! What is forecast: a market of 500 series on 250 days, by the default model, which was shown some batches.

use crate::{harness::Failure, support::server::Server};
use millstream::{Settings, Training, Trial, Watch};
use postgres::{Client, NoTls};
use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Rows that a forecast is made from, as by default.
pub(crate) const LOOKBACK: usize = 60;

/// Columns besides the target.
const FEATURES: usize = 104;

/// Where forecasts go, and where the rows are.
pub(crate) const FORECASTS: &str = "forecasts";
pub(crate) const ROWS: &str = "features";

/// A server with the rows, and a run that forecasts.
pub(crate) struct Work {
    pub(crate) url: String,
    connection: String,
    folder: TempDir,
    run: PathBuf,
    pub(crate) series: usize,
    pub(crate) days: usize,
}

impl Work {
    pub(crate) fn new(server: &Server, quick: bool) -> Result<Self, Failure> {
        let socket = server.socket().ok_or("the server is one of our own")?;
        let host = socket.parent().ok_or("a socket is in a folder")?.display().to_string();
        let url = format!("postgres://tester@/postgres?host={host}");
        let (series, days) = if quick { (100, 250) } else { (500, 250) };
        let connection = server.url().to_owned();
        let folder = tempfile::tempdir()?;
        let mut work = Work { url, connection, folder, run: PathBuf::new(), series, days };
        eprintln!("making a table of {series} series with {} rows each", work.rows_of_series());
        work.make()?;
        work.run = work.train()?;
        Ok(work)
    }

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.connection, NoTls)?)
    }

    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    pub(crate) fn forecasts(&self) -> usize {
        self.series * self.days
    }

    fn rows_of_series(&self) -> usize {
        self.days + LOOKBACK - 1
    }

    pub(crate) fn symbol(series: usize) -> String {
        format!("{series:06}")
    }

    /// The names of the columns, the target first.
    pub(crate) fn columns() -> Vec<String> {
        let features = (1..=FEATURES).map(|number| format!("f{number:03}"));
        std::iter::once("close_pct".to_owned()).chain(features).collect()
    }

    fn make(&self) -> Result<(), Failure> {
        let columns = Work::columns();
        let kinds: Vec<String> = columns.iter().map(|name| format!("{name} real")).collect();
        let values: Vec<String> = (0..columns.len())
            .map(|column| format!("sin(s * 0.7 + t * {}.3)", column % 7))
            .collect();
        let mut client = self.client()?;
        client.batch_execute(&format!(
            "CREATE TABLE {ROWS} (symbol text COLLATE \"C\", trade_date date, {}); \
             INSERT INTO {ROWS} SELECT lpad(s::text, 6, '0'), date '2025-01-01' + t, {} \
             FROM generate_series(0, {}) s, generate_series(0, {}) t ORDER BY 1, 2; \
             ALTER TABLE {ROWS} ADD PRIMARY KEY (symbol, trade_date)",
            kinds.join(", "),
            values.join(", "),
            self.series - 1,
            self.rows_of_series() - 1,
        ))?;
        client.batch_execute(&format!("VACUUM ANALYZE {ROWS}"))?;
        Ok(())
    }

    /// Two batches are enough for weights; what they forecast does not matter.
    fn train(&self) -> Result<PathBuf, Failure> {
        let mut settings = Settings::from_toml(&format!(
            "source = {{ kind = 'postgres', url = '{}', table = '{ROWS}', cache = '' }}",
            self.url
        ))?;
        settings.run.dir = self.folder.path().join("runs");
        let mut trial = Trial::default();
        trial.limit = millstream::Limit::Batches(NonZeroU64::MIN);
        let training = Training::new(settings)?.trying(trial)?;
        let report = training.start()?.train(&Watch::default())?.into_report();
        Ok(report.run)
    }

    /// An empty table, as it is made for forecasts.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        self.client()?.batch_execute(&format!(
            "DROP TABLE IF EXISTS {FORECASTS}; CREATE TABLE {FORECASTS} (\
             series text COLLATE \"C\", time date, step int, target_time date, \
             close_pct_forecast real, close_pct real, model text COLLATE \"C\", \
             run text COLLATE \"C\" NOT NULL, created_at timestamptz NOT NULL, \
             PRIMARY KEY (series, time, step, model)); CHECKPOINT"
        ))?;
        Ok(())
    }
}
