//! Rows from PostgreSQL: several connections, one snapshot, binary COPY.
//!
//! A load is a [`ReadPlan`] of many small COPY commands and a [`WorkerPool`] that reads them. The
//! rows come in whatever order the server finds them; the panel's order is made here, in place. When
//! the snapshot is lost, everything read in it is thrown away and the load starts again in a new one,
//! a few times. What a connection is, is [`millstream_postgres`]'s business.

pub(crate) mod copy;
mod freshness;
mod interruptible;
mod key_ranges;
mod packed_batch;
mod read_plan;
mod read_task;
mod reader;
mod select;
mod series_names;
mod task_board;
mod tasks;
mod where_condition;
mod worker;
mod worker_pool;

pub use reader::{Columns, PostgresReader};

use crate::{
    LoadError, SourceSettings,
    error::chain,
    progress::{ProgressReporter, TICK},
    refresh::{Freshness, ReadRows},
    request::Request,
    rows::RowStore,
    sources::ReadSource,
    table::Table,
};
use interruptible::interruptible;
use millstream_data::TimeKind;
use millstream_postgres::{PostgresError, Server, Session, server_identity};
use millstream_stage::Warnings;
use read_plan::ReadPlan;
use read_task::{Layout, TaskRows};
use std::sync::Arc;
use worker_pool::{Event, ReadJob, WorkerPool};

/// How often a load starts again from a new snapshot before it fails.
const RESTARTS: u32 = 5;

/// More connections would only be in each other's way.
const MOST_CONNECTIONS: usize = 256;

/// Why one attempt at a load failed.
enum AttemptError {
    /// Its snapshot is gone.
    SnapshotLost(PostgresError),
    Failed(LoadError),
}

impl From<LoadError> for AttemptError {
    fn from(error: LoadError) -> Self {
        AttemptError::Failed(error)
    }
}

/// The connection string that the settings name.
fn url(settings: &SourceSettings) -> Result<&str, LoadError> {
    settings.url.as_deref().ok_or(LoadError::MissingSetting {
        kind: settings.kind.name(),
        key: "url",
        expected: "postgres://user@host:5432/database",
    })
}

/// The server that the settings name. What a person should know about the way there, now and later,
/// goes to `warnings`.
fn server(settings: &SourceSettings, warnings: &Warnings) -> Result<Server, LoadError> {
    let warnings = warnings.clone();
    Ok(Server::new(url(settings)?, Arc::new(move |line: String| warnings.warn(line)))?)
}

/// A table or query of a PostgreSQL database.
pub(crate) struct Postgres;

impl ReadSource for Postgres {
    fn keys(&self) -> &'static [&'static str] {
        &["url", "table", "query", "where", "connections"]
    }

    fn check(&self, settings: &SourceSettings) -> Result<(), LoadError> {
        if let Some(condition) = &settings.filter {
            where_condition::check(condition)?;
        }
        if settings.connections.get() > MOST_CONNECTIONS {
            return Err(LoadError::Setting {
                key: "connections",
                value: settings.connections.to_string(),
                expected: "at most 256; no server is faster for more",
            });
        }
        Ok(())
    }

    fn canonicalize(&self, settings: &mut SourceSettings) -> Result<(), LoadError> {
        settings.url = Some(server_identity(url(settings)?)?);
        settings.connections = SourceSettings::default().connections;
        Ok(())
    }

    fn server_version(
        &self,
        settings: &SourceSettings,
        warnings: &Warnings,
    ) -> Result<Option<String>, LoadError> {
        let server = server(settings, warnings)?;
        let mut session = Session::begin(&server, server.connect()?, None, None)?;
        let rows = session.text_rows("SELECT version()", "say its version")?;
        Ok(Some(rows.into_iter().flatten().flatten().next().unwrap_or_default()))
    }

    fn freshness(
        &self,
        request: &Request<'_>,
        read: &ReadRows,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Freshness, LoadError> {
        freshness::freshness(request, read, reporter)
    }

    fn read(
        &self,
        request: &Request<'_>,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Table, LoadError> {
        let server = server(request.settings, request.warnings)?;
        let mut restarts = 0;
        loop {
            match attempt(&server, request, restarts > 0, reporter) {
                Ok(table) => return Ok(table),
                Err(AttemptError::Failed(error)) => return Err(error),
                Err(AttemptError::SnapshotLost(error)) if restarts < RESTARTS => {
                    restarts += 1;
                    request.warnings.warn(format!(
                        "the connections to {} broke and their snapshot is gone, so the load started again in a new one (time {restarts} of at most {RESTARTS}): {}",
                        server.name(),
                        chain(&error)
                    ));
                }
                Err(AttemptError::SnapshotLost(error @ PostgresError::Snapshot { .. })) => {
                    return Err(error.into());
                }
                // A limit of the server's is what to read about, not what became of the snapshot.
                Err(AttemptError::SnapshotLost(error)) if error.is_cancelled() => {
                    return Err(error.into());
                }
                Err(AttemptError::SnapshotLost(error)) => {
                    let (server, source) = (server.name().to_owned(), Some(Box::new(error)));
                    return Err(PostgresError::Snapshot { server, source }.into());
                }
            }
        }
    }
}

/// The COPY commands that a load with these settings would send just now, for those who want to
/// know, and for measuring what the bare transfer costs.
///
/// # Errors
/// Whatever keeps the table from being read, as far as it is known before the first row.
pub fn copy_commands(
    settings: &SourceSettings,
    required: &[String],
) -> Result<Vec<String>, LoadError> {
    settings.check()?;
    // Whoever loads hears what there is to say.
    let server = server(settings, &Warnings::default())?;
    let mut session = Session::begin(&server, server.connect()?, None, None)?;
    let plan = ReadPlan::new(&mut session, settings, required)?;
    Ok(plan.tasks.list.into_iter().map(|task| task.copy).collect())
}

/// Everything that was read in one snapshot.
struct Read {
    plan: Arc<ReadPlan>,
    rows: Vec<RowStore>,
    time_kind: Option<TimeKind>,
}

/// Reads everything in one snapshot.
fn attempt(
    server: &Server,
    request: &Request<'_>,
    again: bool,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Table, AttemptError> {
    let Request { settings, required, .. } = *request;
    let mut pool = WorkerPool::start(ReadJob {
        server: server.clone(),
        settings: settings.clone(),
        required: required.to_vec(),
        layout: Layout::Panel,
        wait_for_server: again,
        // To tell later whether it has changed.
        watch: !settings.cache.is_empty(),
    });
    let read = collect(&mut pool, server, reporter);
    // Whoever asked to stop is not kept waiting for a server that is silent.
    let mut urgent = matches!(read, Err(AttemptError::Failed(LoadError::Interrupted)));
    pool.end(&mut || {
        urgent = urgent || reporter.check_interrupt().is_err();
        urgent
    });
    let Read { plan, rows, time_kind } = read?;
    let place = plan.columns.place.clone();
    let loaded: Vec<String> = rows.iter().flat_map(RowStore::names).cloned().collect();
    let known = match plan.filter.absent(&loaded).is_empty() {
        true => Vec::new(),
        false => interruptible(server.clone(), reporter, |server| {
            Ok(series_names::series_names(server, &plan.columns, settings))
        })?,
    };
    // Without rows it does not matter what their times would have been.
    let time_kind = time_kind.unwrap_or(TimeKind::Integer);
    Ok(Table {
        place,
        series_column: settings.series_column().map(str::to_owned),
        time_column: settings.time.clone(),
        time_kind,
        columns: plan.columns.value_names(),
        kinds: plan.columns.value_kinds(),
        inputs: plan.inputs,
        rows,
        known,
        filter: Arc::clone(&plan.filter),
        times: None,
        left_out: plan.left_out.clone(),
        state: plan.state.as_ref().map(|state| serde_json::json!(state)),
    })
}

/// Takes what the workers read, until all of it is there.
fn collect(
    pool: &mut WorkerPool,
    server: &Server,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Read, AttemptError> {
    let mut plan: Option<Arc<ReadPlan>> = None;
    let mut stores: Vec<Option<RowStore>> = Vec::new();
    let mut time_kind: Option<TimeKind> = None;
    let mut unfinished = usize::MAX;
    while unfinished > 0 {
        match pool.next(TICK) {
            Some(Event::Planned(made)) => {
                tracing::debug!(
                    server = server.name(),
                    tasks = made.tasks.list.len(),
                    connections = made.tasks.connections,
                    "reading"
                );
                pool.complete(&made);
                unfinished = made.tasks.list.len();
                stores.resize_with(unfinished, || None);
                plan = Some(made);
            }
            Some(Event::Rows(task, TaskRows::All(rows, kind))) => {
                if let (Some(kind), Some(plan)) = (kind, &plan) {
                    time_kind = Some(plan.columns.common_kind(time_kind, kind)?);
                }
                stores[task] = Some(rows);
            }
            Some(Event::Rows(_, TaskRows::Batch(_))) => unreachable!("a panel was asked for"),
            Some(Event::TaskDone) => unfinished -= 1,
            Some(Event::SnapshotLost(error)) => return Err(AttemptError::SnapshotLost(error)),
            Some(Event::Failed(error)) => return Err(AttemptError::Failed(error)),
            // Ending the pool raises the panic again.
            Some(Event::Panicked) => return Err(AttemptError::Failed(LoadError::Interrupted)),
            None => {}
        }
        let (rows, bytes) = pool.received();
        let expected = plan.as_ref().and_then(|plan| plan.tasks.rows);
        reporter.progress(rows, expected, Some(bytes))?;
    }
    let plan = plan.expect("tasks are done after the plan is made");
    Ok(Read { plan, rows: stores.into_iter().flatten().collect(), time_kind })
}
