//! [`PostgresReader`]: a table as bounded Arrow record batches, for programs that want no panel.

use super::{
    copy::typed,
    packed_batch,
    read_plan::ReadPlan,
    read_task::{Layout, TaskRows},
    server,
    worker_pool::{Event, ReadJob, WorkerPool},
};
use crate::{LoadError, SourceSettings};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millstream_stage::Warnings;
use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

/// The columns of record batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The series, the time, and all values of a row packed into one list of `Float32` called
    /// `features`, in which a missing value is NaN. The names of the values are in the schema's
    /// metadata, under `features`, one a line.
    Packed,
    /// A column per column of the table: integers stay integers, dates dates, NULL is null.
    Wide,
}

/// Reads a table or query of PostgreSQL as record batches: in parallel, in one snapshot, with
/// bounded memory.
///
/// Batches come as tasks are done, so their order is that of no column. Rows of a task that broke
/// off are read again and never come twice. Dropping the reader cancels what the server is doing
/// for it and closes the connections.
///
/// ```no_run
/// use millstream_loader::{Columns, PostgresReader, SourceKind, SourceSettings};
///
/// let settings = SourceSettings {
///     kind: SourceKind::Postgres,
///     url: Some("postgres://ann@localhost/market".to_owned()),
///     table: Some("features".to_owned()),
///     ..SourceSettings::default()
/// };
/// for batch in PostgresReader::open(&settings, Columns::Wide)? {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok::<(), millstream_loader::LoadError>(())
/// ```
pub struct PostgresReader {
    /// `None` when there is nothing more to read.
    pool: Option<WorkerPool>,
    plan: Arc<ReadPlan>,
    schema: SchemaRef,
    unfinished: usize,
    rows: u64,
    warnings: Warnings,
}

impl PostgresReader {
    /// Rows in a batch, unless [`open_with`](Self::open_with) says otherwise.
    pub const BATCH_ROWS: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

    /// Connects, looks at the table and starts reading.
    ///
    /// # Errors
    /// Whatever keeps the table from being read, as far as it is known before the first row.
    pub fn open(settings: &SourceSettings, columns: Columns) -> Result<Self, LoadError> {
        PostgresReader::open_with(settings, columns, PostgresReader::BATCH_ROWS)
    }

    /// As [`open`](Self::open), with at most `rows` rows in a batch.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        settings: &SourceSettings,
        columns: Columns,
        rows: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        settings.check()?;
        let warnings = Warnings::default();
        let server = server(settings, &warnings)?;
        let layout = match columns {
            Columns::Packed => Layout::Packed { rows: rows.get() },
            Columns::Wide => Layout::Wide { rows: rows.get() },
        };
        let mut pool = WorkerPool::start(ReadJob {
            server,
            settings: settings.clone(),
            required: Vec::new(),
            layout,
            wait_for_server: false,
            watch: false,
        });
        let plan = loop {
            match pool.next(Duration::MAX) {
                Some(Event::Planned(plan)) => break plan,
                Some(Event::SnapshotLost(error)) => return Err(error.into()),
                Some(Event::Failed(error)) => return Err(error),
                Some(Event::Panicked) => {
                    drop(pool);
                    unreachable!("dropping the pool raises the panic again");
                }
                Some(Event::Rows(..) | Event::TaskDone) | None => {}
            }
        };
        pool.complete(&plan);
        let schema = match columns {
            Columns::Packed => packed_batch::schema(&plan.columns),
            Columns::Wide => typed::schema(&plan.columns),
        };
        let unfinished = plan.tasks.list.len();
        Ok(PostgresReader { pool: Some(pool), plan, schema, unfinished, rows: 0, warnings })
    }

    /// The columns of every batch.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// About how many rows there will be: counted where that was needed, otherwise what the
    /// server believes.
    #[must_use]
    pub fn expected_rows(&self) -> Option<u64> {
        self.plan.tasks.rows
    }

    /// What a person should know about the connections so far.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.all()
    }

    /// Lets go of the connections.
    fn end(&mut self, error: Option<LoadError>) -> Option<Result<RecordBatch, LoadError>> {
        self.pool = None;
        error.map(Err)
    }
}

impl Iterator for PostgresReader {
    type Item = Result<RecordBatch, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(pool) = &self.pool {
            if self.unfinished == 0 {
                return self.end(None);
            }
            match pool.next(Duration::MAX) {
                Some(Event::Rows(_, TaskRows::Batch(batch))) => {
                    self.rows += batch.num_rows() as u64;
                    return Some(Ok(batch));
                }
                Some(Event::TaskDone) => self.unfinished -= 1,
                Some(Event::Failed(error)) => return self.end(Some(error)),
                Some(Event::SnapshotLost(source)) => {
                    let error = LoadError::SnapshotLost {
                        place: self.plan.columns.place.clone(),
                        rows: self.rows,
                        source,
                    };
                    return self.end(Some(error));
                }
                Some(Event::Panicked) => {
                    self.pool = None;
                    unreachable!("dropping the pool raises the panic again");
                }
                Some(Event::Rows(_, TaskRows::All(..)) | Event::Planned(_)) => {
                    unreachable!("record batches were asked for, and the plan was made")
                }
                None => unreachable!("the pool itself holds a sender, and the wait has no end"),
            }
        }
        None
    }
}

impl fmt::Debug for PostgresReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresReader")
            .field("place", &self.plan.columns.place)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
