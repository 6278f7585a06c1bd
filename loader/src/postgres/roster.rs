//! [`Roster`]: what the members of a crew know of each other: the tasks that are left, who holds
//! the snapshot, and how to cancel whom. It does no work and knows no SQL.

use millstream_postgres::{CancelToken, PostgresError};
use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The list of members and tasks.
#[derive(Default)]
pub(super) struct Roster {
    state: Mutex<State>,
    changed: Condvar,
    rows: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<usize>,
    /// How often each task was tried in vain.
    failures: Vec<u32>,
    /// Tasks whose rows have not all been handed over; `None` before there is a plan.
    unfinished: Option<usize>,
    /// The crew is being dropped.
    closed: bool,
    members: Vec<Connection>,
    /// Why a connection broke last.
    broke: Option<PostgresError>,
}

/// What others may want of a member's connection, while it lives.
#[derive(Default, Clone)]
struct Connection {
    cancel: Option<CancelToken>,
    snapshot: Option<String>,
}

/// The crew is being dropped.
pub(super) struct Closed;

impl Roster {
    /// Adds a member, without a connection yet, and gives it a number.
    pub(super) fn enlist(&self) -> usize {
        let members = &mut self.state().members;
        members.push(Connection::default());
        members.len() - 1
    }

    /// Puts tasks up, by number.
    pub(super) fn put_up(&self, tasks: usize) {
        let mut state = self.state();
        state.queue = (0..tasks).collect();
        state.failures = vec![0; tasks];
        state.unfinished = Some(tasks);
    }

    /// A task to read. A member that finds none stays, since its connection holds the snapshot,
    /// until all are done: then the answer is `None`.
    pub(super) fn next_task(&self) -> Result<Option<usize>, Closed> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(Closed);
            }
            if let Some(task) = state.queue.pop_front() {
                return Ok(Some(task));
            }
            if state.unfinished == Some(0) {
                return Ok(None);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts a task up again that was tried in vain, for whoever is ready first; says how often
    /// that happened.
    pub(super) fn give_back(&self, task: usize) -> u32 {
        let mut state = self.state();
        state.queue.push_front(task);
        state.failures[task] += 1;
        self.changed.notify_all();
        state.failures[task]
    }

    /// Takes note that the rows of a task have been handed over.
    pub(super) fn finish_task(&self) {
        if let Some(unfinished) = &mut self.state().unfinished {
            *unfinished -= 1;
        }
        self.changed.notify_all();
    }

    /// Takes note of a connection, so that it can be cancelled.
    pub(super) fn connected(&self, member: usize, cancel: CancelToken) {
        self.state().members[member].cancel = Some(cancel);
    }

    /// Takes note of a snapshot that a connection has exported.
    pub(super) fn holds(&self, member: usize, snapshot: String) {
        self.state().members[member].snapshot = Some(snapshot);
    }

    /// Takes note that a member has no connection any more.
    pub(super) fn left(&self, member: usize) {
        self.state().members[member] = Connection::default();
    }

    /// Takes note of why a connection broke.
    pub(super) fn broke(&self, error: PostgresError) {
        self.state().broke = Some(error);
    }

    /// Why a connection broke last.
    pub(super) fn why_broken(&self) -> Option<PostgresError> {
        self.state().broke.take()
    }

    /// A snapshot that another member has exported and, as far as is known, still holds.
    pub(super) fn snapshot_of_others(&self, me: usize) -> Option<String> {
        let state = self.state();
        let others = state.members.iter().enumerate().filter(|(member, _)| *member != me);
        others.filter_map(|(_, member)| member.snapshot.clone()).next()
    }

    /// Takes note that a snapshot is gone, though its member may not know yet.
    pub(super) fn forget(&self, snapshot: &str) {
        for member in &mut self.state().members {
            member.snapshot.take_if(|known| known == snapshot);
        }
    }

    /// Whom to cancel.
    pub(super) fn cancel_tokens(&self) -> Vec<CancelToken> {
        self.state().members.iter().filter_map(|member| member.cancel.clone()).collect()
    }

    /// Waits before another try, and longer each time.
    pub(super) fn pause(&self, pause: &mut Duration, longest: Duration) -> Result<(), Closed> {
        let deadline = Instant::now() + *pause;
        *pause = (2 * *pause).min(longest);
        let mut state = self.state();
        while !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(Closed)
    }

    /// Whether the crew is being dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Sends everyone home; says whether all tasks were done.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state();
        state.closed = true;
        self.changed.notify_all();
        state.unfinished == Some(0)
    }

    /// Counts rows and bytes.
    pub(super) fn count(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back rows that were counted for a task that broke off; its bytes did come.
    pub(super) fn discount(&self, rows: u64) {
        self.rows.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Rows and bytes counted.
    pub(super) fn received(&self) -> (u64, u64) {
        (self.rows.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// A member that panicked has left nothing half-written behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
