//! [`Member`]: one thread of a crew, its connection, and what it does when that breaks.
//!
//! Every member exports the snapshot, so whichever connection breaks, its member comes back into
//! the snapshot through any other that is left, and starts its task again. Rows of a task are
//! handed over when the task is done: a task that broke off has left nothing behind. When the last
//! connection that held the snapshot is gone, so is the snapshot, and the member says so.

use super::{
    crew::{Event, Order},
    freshness::{self, Look},
    plan::Plan,
    roster::{Closed, Roster},
    share::{self, Part},
    sql,
};
use crate::{LoadError, causes::chain};
use crossbeam_channel::Sender;
use millstream_postgres::{PostgresError, Session, Wire};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How often a task is tried before its error is final.
const ATTEMPTS: u32 = 24;

/// The same where the server cancelled the statement: it may have a limit that the task is over,
/// and will be over again.
const CANCELLED_ATTEMPTS: u32 = 4;

/// How long a member tries to get a connection back: a server may take so long to restart.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first pause before another try; it doubles up to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// One of a crew.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) order: Arc<Order>,
    pub(super) roster: Arc<Roster>,
    pub(super) events: Sender<Event>,
}

/// Why a member's work ended early.
pub(super) enum End {
    /// The crew is being dropped.
    Closed,
    Lost(PostgresError),
    Failed(LoadError),
}

impl From<Closed> for End {
    fn from(_: Closed) -> Self {
        End::Closed
    }
}

impl Member {
    /// The first member: takes the snapshot, makes the plan, and works like any other.
    pub(super) fn lead(&self) -> Result<(), End> {
        let (mut session, look) = self.take_snapshot()?;
        let mut prepare = || -> Result<_, LoadError> {
            let Order { settings, required, .. } = &*self.order;
            let mut plan = Plan::new(&mut session, settings, required)?;
            plan.look = look.clone();
            if plan.tasks.connections > 1 {
                self.publish(&mut session)?;
            }
            Ok(Arc::new(plan))
        };
        let plan = match prepare() {
            Ok(plan) => plan,
            Err(error) => {
                self.leave(session);
                // Nobody else holds the snapshot yet.
                return Err(match error {
                    LoadError::Postgres(error) if error.is_transient() => End::Lost(error),
                    error => End::Failed(error),
                });
            }
        };
        self.roster.put_up(plan.tasks.list.len());
        self.tell(Event::Planned(Arc::clone(&plan)))?;
        self.work(&plan, Some(session))
    }

    /// Reads tasks until there are no more.
    ///
    /// A member without a connection holds no task: if it has to wait for one, say behind somebody
    /// who wants to change the table and waits for the others to end, these must be able to.
    pub(super) fn work(&self, plan: &Plan, mut session: Option<Session>) -> Result<(), End> {
        let mut pause = PAUSES[0];
        loop {
            let mut joined = match session.take() {
                Some(session) => session,
                None => match self.join(plan)? {
                    Some(session) => session,
                    None => return Ok(()),
                },
            };
            let Some(task) = self.roster.next_task()? else { return Ok(()) };
            let error = match self.read(&mut joined, plan, task) {
                Ok(()) => {
                    self.roster.finish_task();
                    self.tell(Event::Done)?;
                    (session, pause) = (Some(joined), PAUSES[0]);
                    continue;
                }
                Err(Unread::Unwanted) => {
                    self.leave(joined);
                    return Err(End::Closed);
                }
                Err(Unread::Final(error)) => {
                    self.leave(joined);
                    return Err(End::Failed(error));
                }
                Err(Unread::Again(error)) => error,
            };
            self.leave(joined);
            let failures = self.roster.give_back(task);
            if self.roster.is_closed() {
                return Err(End::Closed);
            }
            let most = if error.is_cancelled() { CANCELLED_ATTEMPTS } else { ATTEMPTS };
            if failures >= most {
                return Err(End::Failed(error.into()));
            }
            let server = &self.order.server;
            let (name, error_text) = (server.name(), chain(&error));
            server.warn(format!(
                "a connection to {name} broke, and what it was reading was read again: {error_text}"
            ));
            self.roster.broke(error);
            self.roster.pause(&mut pause, PAUSES[1])?;
        }
    }

    fn read(&self, session: &mut Session, plan: &Plan, task: usize) -> Result<(), Unread> {
        let mut handed_over = false;
        let deliver = |part: Part| {
            handed_over = true;
            self.events.send(Event::Part(task, part)).is_ok()
        };
        let cut = &plan.tasks.list[task];
        match share::read_task(session, plan, cut, self.order.layout, &self.roster, deliver) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unread::Unwanted),
            Err(LoadError::Postgres(error)) if error.is_transient() && !handed_over => {
                Err(Unread::Again(error))
            }
            Err(error) => Err(Unread::Final(error)),
        }
    }

    /// Takes the snapshot; and before that, if it is to be known, looks at what the table is.
    fn take_snapshot(&self) -> Result<(Session, Option<Look>), End> {
        let Order { server, settings, patience, watch, .. } = &*self.order;
        let lock = sql::table_to_lock(settings).map_err(End::Failed)?;
        let deadline = Instant::now() + if *patience { PATIENCE } else { Duration::ZERO };
        let mut pause = PAUSES[0];
        loop {
            let mut connected = false;
            let mut begin = || -> Result<_, LoadError> {
                let wire = self.connect()?;
                connected = true;
                let mut session = Session::new(server, wire);
                let look = watch.then(|| freshness::look(&mut session, settings)).transpose()?;
                session.start(lock.as_deref(), None)?;
                Ok((session, look))
            };
            let error = match begin() {
                Ok(begun) => return Ok(begun),
                Err(LoadError::Postgres(error)) if error.is_transient() => error,
                Err(error) => return Err(End::Failed(error)),
            };
            if Instant::now() < deadline {
                self.roster.pause(&mut pause, PAUSES[1])?;
                continue;
            }
            // A server that lets nobody in is told of at once; one that did and then broke the
            // connection may let the next one live. A limit that was reached will be again.
            return Err(match connected && !error.is_cancelled() {
                true => End::Lost(error),
                false => End::Failed(error.into()),
            });
        }
    }

    /// Comes (back) into the snapshot through any member that holds it. When the server does not
    /// let this one in, those that are in do without: the answer is `None`.
    fn join(&self, plan: &Plan) -> Result<Option<Session>, End> {
        let server = &self.order.server;
        let deadline = Instant::now() + PATIENCE;
        let mut pause = PAUSES[0];
        let mut last = None;
        loop {
            let Some(snapshot) = self.roster.snapshot_of_others(self.number) else {
                // Why the last one broke says more than that its snapshot is gone.
                let known = self.roster.why_broken().or(last);
                let server = server.name().to_owned();
                let gone = known.unwrap_or(PostgresError::Snapshot { server, source: None });
                return Err(End::Lost(gone));
            };
            let joined = self.connect().and_then(|wire| {
                let lock = plan.lock.as_deref();
                let mut session = Session::begin(server, wire, lock, Some(&snapshot))?;
                session.run(&plan.hold, &format!("look at {}", plan.columns.place))?;
                self.publish(&mut session)?;
                Ok(session)
            });
            let error = match joined {
                Ok(session) => return Ok(Some(session)),
                Err(error) => error,
            };
            self.roster.left(self.number);
            if self.roster.is_closed() {
                return Err(End::Closed);
            }
            if matches!(error, PostgresError::Snapshot { .. }) {
                self.roster.forget(&snapshot);
                last = Some(error);
                continue;
            }
            server.warn(format!(
                "{} did not let in all {} connections: {}",
                server.name(),
                plan.tasks.connections,
                chain(&error)
            ));
            if error.is_transient() && Instant::now() < deadline {
                self.roster.pause(&mut pause, PAUSES[1])?;
                last = Some(error);
            } else {
                return Ok(None);
            }
        }
    }

    /// Connects, and lets the crew's drop know whom to cancel.
    fn connect(&self) -> Result<Wire, PostgresError> {
        let wire = self.order.server.connect()?;
        self.roster.connected(self.number, wire.cancel_token());
        Ok(wire)
    }

    fn publish(&self, session: &mut Session) -> Result<(), PostgresError> {
        let snapshot = session.export()?;
        self.roster.holds(self.number, snapshot);
        Ok(())
    }

    /// Drops a session that may be in the middle of a copy, whose rest would have to be read.
    fn leave(&self, session: Session) {
        if !session.is_closed() {
            // Without the request the rest is read and thrown away: slow, not wrong.
            self.order.server.cancel(&session.cancel_token());
        }
        drop(session);
        self.roster.left(self.number);
    }

    fn tell(&self, event: Event) -> Result<(), End> {
        self.events.send(event).map_err(|_| End::Closed)
    }
}

/// Why a task was not read.
enum Unread {
    /// Nobody wants its rows any more.
    Unwanted,
    /// It may be read again: nobody has seen a row of it.
    Again(PostgresError),
    Final(LoadError),
}
