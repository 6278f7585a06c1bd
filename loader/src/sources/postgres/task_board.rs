//! [`TaskBoard`]: what the workers of a pool know of each other: the tasks that are left, who holds
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

/// The list of workers and tasks.
#[derive(Default)]
pub(super) struct TaskBoard {
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
    /// The pool is being dropped.
    closed: bool,
    workers: Vec<WorkerConnection>,
    /// Why a connection broke last.
    last_break: Option<PostgresError>,
}

/// What others may want of a worker's connection, while it lives.
#[derive(Default, Clone)]
struct WorkerConnection {
    cancel: Option<CancelToken>,
    snapshot: Option<String>,
}

/// The pool is being dropped.
pub(super) struct Closed;

impl TaskBoard {
    /// Adds a worker, without a connection yet, and gives it a number.
    pub(super) fn add_worker(&self) -> usize {
        let workers = &mut self.state().workers;
        workers.push(WorkerConnection::default());
        workers.len() - 1
    }

    /// Posts tasks, by number.
    pub(super) fn post_tasks(&self, tasks: usize) {
        let mut state = self.state();
        state.queue = (0..tasks).collect();
        state.failures = vec![0; tasks];
        state.unfinished = Some(tasks);
    }

    /// A task to read. A worker that finds none stays, since its connection holds the snapshot,
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

    /// Posts a task again that was tried in vain, for whoever is ready first; says how often that
    /// happened.
    pub(super) fn return_task(&self, task: usize) -> u32 {
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
    pub(super) fn set_connection(&self, worker: usize, cancel: CancelToken) {
        self.state().workers[worker].cancel = Some(cancel);
    }

    /// Takes note of a snapshot that a connection has exported.
    pub(super) fn set_snapshot(&self, worker: usize, snapshot: String) {
        self.state().workers[worker].snapshot = Some(snapshot);
    }

    /// Takes note that a worker has no connection any more.
    pub(super) fn clear_connection(&self, worker: usize) {
        self.state().workers[worker] = WorkerConnection::default();
    }

    /// Takes note of why a connection broke.
    pub(super) fn set_last_break(&self, error: PostgresError) {
        self.state().last_break = Some(error);
    }

    /// Why a connection broke last.
    pub(super) fn take_last_break(&self) -> Option<PostgresError> {
        self.state().last_break.take()
    }

    /// A snapshot that another worker has exported and, as far as is known, still holds.
    pub(super) fn snapshot_of_others(&self, me: usize) -> Option<String> {
        let state = self.state();
        let others = state.workers.iter().enumerate().filter(|(worker, _)| *worker != me);
        others.filter_map(|(_, worker)| worker.snapshot.clone()).next()
    }

    /// Takes note that a snapshot is gone, though its worker may not know yet.
    pub(super) fn forget_snapshot(&self, snapshot: &str) {
        for worker in &mut self.state().workers {
            worker.snapshot.take_if(|known| known == snapshot);
        }
    }

    /// Whom to cancel.
    pub(super) fn cancel_tokens(&self) -> Vec<CancelToken> {
        self.state().workers.iter().filter_map(|worker| worker.cancel.clone()).collect()
    }

    /// Waits, unless the pool is dropped meanwhile.
    pub(super) fn pause(&self, pause: Duration) -> Result<(), Closed> {
        let deadline = Instant::now() + pause;
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

    /// Whether the pool is being dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Ends everybody's work; says whether all tasks were done.
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

    /// A worker that panicked has left nothing half-written behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
