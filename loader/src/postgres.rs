//! Rows from PostgreSQL: several connections, one snapshot, binary COPY.
//!
//! A load is a [`Plan`](plan::Plan) of many small COPY commands and a [`Crew`](crew::Crew) that
//! reads them. The rows come in whatever order the server finds them; the panel's order is made
//! here, in place. When the snapshot is lost, everything read in it is thrown away and the load
//! starts again in a new one, a few times.

mod batch;
mod condition;
mod crew;
mod freshness;
mod member;
mod plan;
mod ranges;
mod reader;
mod roster;
mod series;
mod share;
mod sql;
mod stoppable;
mod tasks;

pub(crate) use condition::check as check_condition;
pub(crate) use freshness::{Freshness, Look, ReadRows, freshness};
pub use reader::{Columns, PostgresReader};

use crate::{
    LoadError, SourceSettings,
    assemble::Table,
    causes::chain,
    copy::packed::common_kind,
    progress::{TICK, Tell},
    request::Request,
    rows::RowStore,
};
use crew::{Crew, Event, Order};
use millstream_data::TimeKind;
use millstream_postgres::{PostgresError, Server, Session};
use millstream_stage::Warnings;
use plan::Plan;
use share::{Layout, Part};
use std::sync::Arc;
use stoppable::stoppable;

/// How often a load starts again from a new snapshot before it fails.
const RESTARTS: u32 = 5;

/// Why one attempt at a load failed.
enum Broken {
    /// Its snapshot is gone.
    Lost(PostgresError),
    Failed(LoadError),
}

impl From<LoadError> for Broken {
    fn from(error: LoadError) -> Self {
        Broken::Failed(error)
    }
}

/// The connection string that the settings name.
pub(crate) fn url(settings: &SourceSettings) -> Result<&str, LoadError> {
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
    Ok(Server::new(url(settings)?, Arc::new(move |line| warnings.warn(line)))?)
}

/// Reads the table or query.
pub(crate) fn read(request: &Request<'_>, tell: &mut Tell<'_>) -> Result<Table, LoadError> {
    let server = server(request.settings, request.warnings)?;
    let mut restarts = 0;
    loop {
        match attempt(&server, request, restarts > 0, tell) {
            Ok(table) => return Ok(table),
            Err(Broken::Failed(error)) => return Err(error),
            Err(Broken::Lost(error)) if restarts < RESTARTS => {
                restarts += 1;
                request.warnings.warn(format!(
                    "the connections to {} broke and their snapshot is gone, so the load started again in a new one (time {restarts} of at most {RESTARTS}): {}",
                    server.name(),
                    chain(&error)
                ));
            }
            Err(Broken::Lost(error @ PostgresError::Snapshot { .. })) => return Err(error.into()),
            // A limit of the server's is what to read about, not what became of the snapshot.
            Err(Broken::Lost(error)) if error.is_cancelled() => return Err(error.into()),
            Err(Broken::Lost(error)) => {
                let (server, source) = (server.name().to_owned(), Some(Box::new(error)));
                return Err(PostgresError::Snapshot { server, source }.into());
            }
        }
    }
}

/// What the server that `source.url` names says it is: a way to find out whether it can be reached,
/// and what is to be said about the way there.
///
/// # Errors
/// Whatever keeps it from being reached.
pub fn server_version(settings: &SourceSettings, warnings: &Warnings) -> Result<String, LoadError> {
    let server = server(settings, warnings)?;
    let mut session = Session::begin(&server, server.connect()?, None, None)?;
    let rows = session.text_rows("SELECT version()", "say its version")?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
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
    let plan = Plan::new(&mut session, settings, required)?;
    Ok(plan.tasks.list.into_iter().map(|task| task.copy).collect())
}

/// Everything that was read in one snapshot.
struct Read {
    plan: Arc<Plan>,
    rows: Vec<RowStore>,
    time_kind: Option<TimeKind>,
}

/// Reads everything in one snapshot.
fn attempt(
    server: &Server,
    request: &Request<'_>,
    again: bool,
    tell: &mut Tell<'_>,
) -> Result<Table, Broken> {
    let Request { settings, required, .. } = *request;
    let mut crew = Crew::start(Order {
        server: server.clone(),
        settings: settings.clone(),
        required: required.to_vec(),
        layout: Layout::Panel,
        patience: again,
        watch: request.watch,
    });
    let read = collect(&mut crew, server, tell);
    // Whoever asked to stop is not kept waiting for a server that is silent.
    let mut urgent = matches!(read, Err(Broken::Failed(LoadError::Interrupted)));
    crew.end(&mut || {
        urgent = urgent || tell.ask().is_err();
        urgent
    });
    let Read { plan, rows, time_kind } = read?;
    let place = plan.columns.place.clone();
    let loaded: Vec<String> = rows.iter().flat_map(RowStore::names).cloned().collect();
    let known = match plan.filter.absent(&loaded).is_empty() {
        true => Vec::new(),
        false => stoppable(server.clone(), tell, |server| {
            Ok(series::names(server, &plan.columns, settings))
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
        look: plan.look.clone(),
    })
}

/// Takes what the members read, until all of it is there.
fn collect(crew: &mut Crew, server: &Server, tell: &mut Tell<'_>) -> Result<Read, Broken> {
    let mut plan: Option<Arc<Plan>> = None;
    let mut parts: Vec<Option<RowStore>> = Vec::new();
    let mut time_kind: Option<TimeKind> = None;
    let mut unfinished = usize::MAX;
    while unfinished > 0 {
        match crew.next(TICK) {
            Some(Event::Planned(made)) => {
                tracing::debug!(
                    server = server.name(),
                    tasks = made.tasks.list.len(),
                    connections = made.tasks.connections,
                    "reading"
                );
                crew.complete(&made);
                unfinished = made.tasks.list.len();
                parts.resize_with(unfinished, || None);
                plan = Some(made);
            }
            Some(Event::Part(task, Part::Rows(rows, kind))) => {
                if let (Some(kind), Some(plan)) = (kind, &plan) {
                    time_kind = Some(common_kind(time_kind, kind, &plan.columns)?);
                }
                parts[task] = Some(rows);
            }
            Some(Event::Part(_, Part::Batch(_))) => unreachable!("a panel was asked for"),
            Some(Event::Done) => unfinished -= 1,
            Some(Event::Lost(error)) => return Err(Broken::Lost(error)),
            Some(Event::Failed(error)) => return Err(Broken::Failed(error)),
            // Ending the crew raises the panic again.
            Some(Event::Panicked) => return Err(Broken::Failed(LoadError::Interrupted)),
            None => {}
        }
        let (rows, bytes) = crew.received();
        let expected = plan.as_ref().and_then(|plan| plan.tasks.rows);
        tell.progress(rows, expected, Some(bytes))?;
    }
    let plan = plan.expect("tasks are done after the plan is made");
    Ok(Read { plan, rows: parts.into_iter().flatten().collect(), time_kind })
}
