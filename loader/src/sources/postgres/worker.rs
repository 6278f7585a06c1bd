//! [`Worker`]: one thread of a pool, its connection, and what it does when that breaks.
//!
//! Every worker exports the snapshot, so whichever connection breaks, its worker comes back into
//! the snapshot through any other that is left, and starts its task again. Rows of a task are
//! handed over when the task is done: a task that broke off has left nothing behind. When the last
//! connection that held the snapshot is gone, so is the snapshot, and the worker says so.

use super::{
    freshness::{self, TableState},
    read_plan::ReadPlan,
    read_task, select,
    task_board::{Closed, TaskBoard},
    worker_pool::{Event, ReadJob},
};
use crate::{LoadError, error::chain};
use crossbeam_channel::Sender;
use millstream_postgres::{Connection, PostgresError, Session};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How often a task is tried before its error is final.
const ATTEMPTS: u32 = 24;

/// The same where the server cancelled the statement: it may have a limit that the task is over,
/// and will be over again.
const CANCELLED_ATTEMPTS: u32 = 4;

/// How long a worker tries to get a connection back: a server may take so long to restart.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// One of a pool.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) job: Arc<ReadJob>,
    pub(super) board: Arc<TaskBoard>,
    pub(super) events: Sender<Event>,
}

/// Why a worker's work ended early.
pub(super) enum WorkError {
    /// The pool is being dropped.
    Closed,
    SnapshotLost(PostgresError),
    Failed(LoadError),
}

impl From<Closed> for WorkError {
    fn from(_: Closed) -> Self {
        WorkError::Closed
    }
}

/// Pauses between tries, each twice as long as the one before.
struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    fn next(&mut self) -> Duration {
        let longer = (2 * self.0).min(Backoff::LONGEST);
        std::mem::replace(&mut self.0, longer)
    }
}

impl Worker {
    /// The first worker: takes the snapshot, makes the plan, and works like any other.
    pub(super) fn lead(&self) -> Result<(), WorkError> {
        let (mut session, state) = self.take_snapshot()?;
        let plan = match self.plan(&mut session, state) {
            Ok(plan) => Arc::new(plan),
            Err(error) => {
                self.leave(session);
                // Nobody else holds the snapshot yet.
                return Err(match error {
                    LoadError::Postgres(error) if error.is_transient() => {
                        WorkError::SnapshotLost(error)
                    }
                    error => WorkError::Failed(error),
                });
            }
        };
        self.board.post_tasks(plan.tasks.list.len());
        self.report(Event::Planned(Arc::clone(&plan)))?;
        self.work(&plan, Some(session))
    }

    fn plan(
        &self,
        session: &mut Session,
        state: Option<TableState>,
    ) -> Result<ReadPlan, LoadError> {
        let mut plan = ReadPlan::new(session, &self.job.settings, &self.job.required)?;
        plan.state = state;
        if plan.tasks.connections > 1 {
            self.publish_snapshot(session)?;
        }
        Ok(plan)
    }

    /// Reads tasks until there are no more.
    ///
    /// A worker without a connection holds no task: if it has to wait for one, say behind somebody
    /// who wants to change the table and waits for the others to end, these must be able to.
    pub(super) fn work(
        &self,
        plan: &ReadPlan,
        mut session: Option<Session>,
    ) -> Result<(), WorkError> {
        let mut backoff = Backoff(Backoff::FIRST);
        loop {
            let mut joined = match session.take() {
                Some(session) => session,
                None => match self.join(plan)? {
                    Some(session) => session,
                    None => return Ok(()),
                },
            };
            let Some(task) = self.board.next_task()? else { return Ok(()) };
            let error = match self.read(&mut joined, plan, task) {
                Ok(()) => {
                    self.board.finish_task();
                    self.report(Event::TaskDone)?;
                    (session, backoff) = (Some(joined), Backoff(Backoff::FIRST));
                    continue;
                }
                Err(error) => error,
            };
            self.leave(joined);
            let error = match error {
                Unread::Broken(error) => error,
                Unread::Final(error) => return Err(error),
            };
            let failures = self.board.return_task(task);
            if self.board.is_closed() {
                return Err(WorkError::Closed);
            }
            let most = if error.is_cancelled() { CANCELLED_ATTEMPTS } else { ATTEMPTS };
            if failures >= most {
                return Err(WorkError::Failed(error.into()));
            }
            let server = &self.job.server;
            let (name, why) = (server.name(), chain(&error));
            server.warn(format!(
                "a connection to {name} broke, and what it was reading was read again: {why}"
            ));
            self.board.set_last_break(error);
            self.board.pause(backoff.next())?;
        }
    }

    fn read(&self, session: &mut Session, plan: &ReadPlan, task: usize) -> Result<(), Unread> {
        let mut handed_over = false;
        let deliver = |rows| {
            handed_over = true;
            self.events.send(Event::Rows(task, rows)).is_ok()
        };
        let layout = self.job.layout;
        match read_task::read(session, plan, task, layout, &self.board, deliver) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unread::Final(WorkError::Closed)),
            Err(LoadError::Postgres(error)) if error.is_transient() && !handed_over => {
                Err(Unread::Broken(error))
            }
            Err(error) => Err(Unread::Final(WorkError::Failed(error))),
        }
    }

    /// Takes the snapshot; and before that, if it is to be known, looks at what the table is.
    fn take_snapshot(&self) -> Result<(Session, Option<TableState>), WorkError> {
        let ReadJob { server, settings, wait_for_server, watch, .. } = &*self.job;
        let lock = select::table_to_lock(settings).map_err(WorkError::Failed)?;
        let patience = if *wait_for_server { CONNECT_TIMEOUT } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        let mut backoff = Backoff(Backoff::FIRST);
        loop {
            let mut connected = false;
            let mut begin = || -> Result<_, LoadError> {
                let connection = self.connect()?;
                connected = true;
                let mut session = Session::new(server, connection);
                let state = match watch {
                    true => Some(freshness::table_state(&mut session, settings)?),
                    false => None,
                };
                session.start(lock.as_deref(), None)?;
                Ok((session, state))
            };
            let error = match begin() {
                Ok(begun) => return Ok(begun),
                Err(LoadError::Postgres(error)) if error.is_transient() => error,
                Err(error) => return Err(WorkError::Failed(error)),
            };
            if Instant::now() < deadline {
                self.board.pause(backoff.next())?;
                continue;
            }
            // A server that lets nobody in is told of at once; one that did and then broke the
            // connection may let the next one live. A limit that was reached will be again.
            return Err(match connected && !error.is_cancelled() {
                true => WorkError::SnapshotLost(error),
                false => WorkError::Failed(error.into()),
            });
        }
    }

    /// Comes (back) into the snapshot through any worker that holds it. When the server does not
    /// let this one in, those that are in do without: the answer is `None`.
    fn join(&self, plan: &ReadPlan) -> Result<Option<Session>, WorkError> {
        let server = &self.job.server;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut backoff = Backoff(Backoff::FIRST);
        let mut last = None;
        loop {
            let Some(snapshot) = self.board.snapshot_of_others(self.number) else {
                // Why the last one broke says more than that its snapshot is gone.
                let known = self.board.take_last_break().or(last);
                let server = server.name().to_owned();
                let gone = known.unwrap_or(PostgresError::Snapshot { server, source: None });
                return Err(WorkError::SnapshotLost(gone));
            };
            let error = match self.try_join(plan, &snapshot) {
                Ok(session) => return Ok(Some(session)),
                Err(error) => error,
            };
            self.board.clear_connection(self.number);
            if self.board.is_closed() {
                return Err(WorkError::Closed);
            }
            if matches!(error, PostgresError::Snapshot { .. }) {
                self.board.forget_snapshot(&snapshot);
                last = Some(error);
                continue;
            }
            server.warn(format!(
                "{} did not let in all {} connections: {}",
                server.name(),
                plan.tasks.connections,
                chain(&error)
            ));
            if !error.is_transient() || Instant::now() >= deadline {
                return Ok(None);
            }
            self.board.pause(backoff.next())?;
            last = Some(error);
        }
    }

    fn try_join(&self, plan: &ReadPlan, snapshot: &str) -> Result<Session, PostgresError> {
        let (server, lock) = (&self.job.server, plan.lock.as_deref());
        let mut session = Session::begin(server, self.connect()?, lock, Some(snapshot))?;
        session.run(&plan.hold, &format!("look at {}", plan.columns.place))?;
        self.publish_snapshot(&mut session)?;
        Ok(session)
    }

    /// Connects, and lets the pool's drop know whom to cancel.
    fn connect(&self) -> Result<Connection, PostgresError> {
        let connection = self.job.server.connect()?;
        self.board.set_connection(self.number, connection.cancel_token());
        Ok(connection)
    }

    fn publish_snapshot(&self, session: &mut Session) -> Result<(), PostgresError> {
        let snapshot = session.export()?;
        self.board.set_snapshot(self.number, snapshot);
        Ok(())
    }

    /// Drops a session that may be in the middle of a copy, whose rest would have to be read.
    fn leave(&self, session: Session) {
        if !session.is_closed() {
            // Without the request the rest is read and thrown away: slow, not wrong.
            self.job.server.cancel(&session.cancel_token());
        }
        drop(session);
        self.board.clear_connection(self.number);
    }

    fn report(&self, event: Event) -> Result<(), WorkError> {
        self.events.send(event).map_err(|_| WorkError::Closed)
    }
}

/// Why a task was not read.
enum Unread {
    /// The connection broke before anybody saw a row of it, so it may be read again.
    Broken(PostgresError),
    Final(WorkError),
}
