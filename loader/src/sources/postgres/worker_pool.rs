//! [`WorkerPool`]: the threads that read the tasks of a plan, each over its own connection, all in
//! one snapshot.
//!
//! The first worker takes the snapshot and makes the plan; then the others join. What a worker does
//! is in [`worker`](super::worker), what they know of each other in
//! [`task_board`](super::task_board).
//!
//! Dropping the pool ends what the server is doing for it: statements are cancelled, connections
//! closed and threads joined. A server that does not answer is waited for, but not for long: then
//! the connections are closed without a word. [`WorkerPool::end`] is for those who must be able to
//! stop that wait, too.

use super::{
    read_plan::ReadPlan,
    read_task::{Layout, TaskRows},
    task_board::TaskBoard,
    worker::{WorkError, Worker},
};
use crate::{LoadError, SourceSettings};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use millstream_postgres::{Hold, PostgresError, Server, Stop};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long to wait for a cancelled statement to end before cancelling again: a request that
/// comes just before its statement does nothing.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a server may take to end what it is doing for a pool that is dropped. A connection over
/// which nothing comes is given up then; the server notices when it next sends something.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The same, where somebody waits for this program to stop.
const URGENT_TIMEOUT: Duration = Duration::from_millis(400);

/// What workers report.
#[derive(Debug)]
pub(crate) enum Event {
    /// What will be read.
    Planned(Arc<ReadPlan>),
    /// Rows of a task.
    Rows(usize, TaskRows),
    /// All rows of a task have been handed over.
    TaskDone,
    /// No connection holds the snapshot any more, and why the last one broke.
    SnapshotLost(PostgresError),
    /// Reading failed for good.
    Failed(LoadError),
    /// A worker panicked; dropping the pool raises the panic again.
    Panicked,
}

/// What to read, and how.
#[derive(Debug, Clone)]
pub(crate) struct ReadJob {
    pub(crate) server: Server,
    pub(crate) settings: SourceSettings,
    /// Columns that must be there, features or not.
    pub(crate) required: Vec<String>,
    pub(crate) layout: Layout,
    /// Whether to wait for a server that does not answer yet.
    pub(crate) wait_for_server: bool,
    /// Whether to look at what is read, to tell later whether it has changed.
    pub(crate) watch: bool,
}

/// The workers.
pub(crate) struct WorkerPool {
    job: Arc<ReadJob>,
    board: Arc<TaskBoard>,
    /// `None` once the pool is being dropped.
    events: Option<(Sender<Event>, Receiver<Event>)>,
    threads: Vec<JoinHandle<()>>,
    /// Every thread holds the other end of this until it ends.
    alive: (Option<Sender<()>>, Receiver<()>),
    /// Dropped to call off all waiting for the server.
    hold: Option<Hold>,
}

impl WorkerPool {
    /// Starts the first worker.
    pub(crate) fn start(mut job: ReadJob) -> Self {
        let (hold, stop) = Stop::new();
        job.server = job.server.stopped_by(stop);
        let (alive, ended) = bounded(0);
        let mut pool = WorkerPool {
            // Room for rows and a word from each worker: they go on while some rows are being taken.
            events: Some(bounded(2 * job.settings.connections.get())),
            job: Arc::new(job),
            board: Arc::new(TaskBoard::default()),
            threads: Vec::new(),
            alive: (Some(alive), ended),
            hold: Some(hold),
        };
        pool.spawn(Worker::lead);
        pool
    }

    /// Lets the other workers join, once the plan is known.
    pub(crate) fn complete(&mut self, plan: &Arc<ReadPlan>) {
        for _ in 1..plan.tasks.connections {
            let plan = Arc::clone(plan);
            self.spawn(move |worker| worker.work(&plan, None));
        }
    }

    /// The next event within the time given; `None` when there was none.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Event> {
        self.events.as_ref()?.1.recv_timeout(timeout).ok()
    }

    /// Rows and bytes received so far.
    pub(crate) fn received(&self) -> (u64, u64) {
        self.board.received()
    }

    fn spawn(&mut self, work: impl FnOnce(&Worker) -> Result<(), WorkError> + Send + 'static) {
        let number = self.board.add_worker();
        let (events, _) = self.events.clone().expect("it is there until the pool is dropped");
        let (job, board) = (Arc::clone(&self.job), Arc::clone(&self.board));
        let worker = Worker { number, job, board, events };
        let alive = self.alive.0.clone();
        let run = move || {
            // Dropped last, when the connection is closed.
            let _alive = alive;
            let worked = catch_unwind(AssertUnwindSafe(|| work(&worker)));
            let (event, panic) = match worked {
                Ok(Ok(()) | Err(WorkError::Closed)) => return,
                Ok(Err(WorkError::SnapshotLost(error))) => (Event::SnapshotLost(error), None),
                Ok(Err(WorkError::Failed(error))) => (Event::Failed(error), None),
                // Otherwise everyone would wait for the worker's task.
                Err(panic) => (Event::Panicked, Some(panic)),
            };
            // Nobody listens any more when the pool is being dropped.
            let _ = worker.events.send(event);
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        };
        let thread = thread::Builder::new().name(format!("load-{number}")).spawn(run);
        self.threads.push(thread.expect("the system can start a thread"));
    }

    /// Ends what the server is doing for the pool, as dropping it does. `is_urgent` is asked now and
    /// then whether somebody waits for that.
    pub(crate) fn end(mut self, is_urgent: &mut dyn FnMut() -> bool) {
        self.shut_down(is_urgent);
    }

    fn shut_down(&mut self, is_urgent: &mut dyn FnMut() -> bool) {
        // First of all: a worker that waits to hand rows over must wake up.
        self.events = None;
        self.alive.0 = None;
        // Workers whose work is done end by themselves.
        let wait = if self.board.close() { CANCEL_AGAIN } else { Duration::ZERO };
        let ended = self.alive.1.clone();
        let (server, board) = (self.job.server.clone(), Arc::clone(&self.board));
        let cancel = move || cancel_until(&ended, &server, &board, wait);
        let cancelling = thread::Builder::new().name("load-cancel".to_owned()).spawn(cancel);
        self.threads.push(cancelling.expect("the system can start a thread"));
        let mut deadline = Instant::now() + END_TIMEOUT;
        while self.alive.1.recv_timeout(CANCEL_AGAIN) != Err(RecvTimeoutError::Disconnected) {
            if is_urgent() {
                deadline = deadline.min(Instant::now() + URGENT_TIMEOUT);
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        self.hold = None;
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if self.hold.is_some() {
            self.shut_down(&mut || false);
        }
    }
}

/// Asks the server to end statements until all workers have ended, or nobody waits any more. A
/// server that cannot be reached has nothing to cancel; its connections break by themselves.
fn cancel_until(ended: &Receiver<()>, server: &Server, board: &TaskBoard, mut wait: Duration) {
    while ended.recv_timeout(wait) != Err(RecvTimeoutError::Disconnected) && !server.is_stopped() {
        thread::scope(|scope| {
            for token in board.cancel_tokens() {
                scope.spawn(move || server.cancel(&token));
            }
        });
        wait = CANCEL_AGAIN;
    }
}
