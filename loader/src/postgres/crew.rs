//! [`Crew`]: the threads that read the tasks of a plan, each over its own connection, all in one
//! snapshot.
//!
//! The first member takes the snapshot and makes the plan; then the others join. Every member
//! exports the snapshot, so whichever connection breaks, its member comes back into the snapshot
//! through any other that is left, and starts its task again. Rows of a task are handed over when
//! the task is done: a task that broke off has left nothing behind. When the last connection that
//! held the snapshot is gone, the crew gives up and says so.
//!
//! Dropping the crew ends what the server is doing for it: statements are cancelled, connections
//! closed and threads joined.

use super::{
    plan::Plan,
    server::Server,
    session::{Session, is_snapshot_gone, is_transient},
    share::{Layout, Part, read_task},
};
use crate::{LoadError, SourceSettings};
use ::postgres::CancelToken;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often a task is tried again before its error is final.
const ATTEMPTS: u32 = 12;

/// How long a member tries to get a connection back: a server may take so long to restart.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first pause before another try; it doubles up to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// How long to wait for a cancelled statement to end before cancelling again: a request that
/// comes just before its statement does nothing.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// What members report.
#[derive(Debug)]
pub(crate) enum Event {
    /// What will be read.
    Planned(Arc<Plan>),
    /// Rows of a task.
    Part(usize, Part),
    /// All rows of a task have been handed over.
    Done,
    /// No connection holds the snapshot any more, and why the last one broke.
    Lost(LoadError),
    /// Reading failed for good.
    Failed(LoadError),
}

/// The members.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    events: Option<Receiver<Event>>,
    sender: Option<Sender<Event>>,
    threads: Vec<JoinHandle<()>>,
}

/// What members share.
pub(super) struct Shared {
    server: Server,
    settings: SourceSettings,
    required: Vec<String>,
    layout: Layout,
    plan: OnceLock<Arc<Plan>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Rows and bytes received so far.
    rows: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<usize>,
    /// Tasks whose rows have not all been handed over.
    unfinished: usize,
    /// The crew is being dropped.
    closed: bool,
    members: Vec<Member>,
    /// Why a connection broke last.
    broke: Option<LoadError>,
}

/// What others may want of a member's connection, while it lives.
#[derive(Default, Clone)]
struct Member {
    cancel: Option<CancelToken>,
    snapshot: Option<String>,
}

/// Why a member's work ended early.
enum End {
    /// The crew is being dropped.
    Closed,
    Lost(LoadError),
    Failed(LoadError),
}

impl Crew {
    /// Starts the first member. With `patience`, it waits for a server that does not answer yet.
    pub(crate) fn start(
        server: &Server,
        settings: &SourceSettings,
        required: &[String],
        layout: Layout,
        patience: bool,
    ) -> Self {
        let shared = Arc::new(Shared {
            server: server.clone(),
            settings: settings.clone(),
            required: required.to_vec(),
            layout,
            plan: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let (sender, events) = bounded(2 * settings.connections.get());
        let mut crew = Crew { shared, events: Some(events), sender: Some(sender), threads: vec![] };
        crew.spawn(move |shared, events| shared.lead(patience, events));
        crew
    }

    /// Lets the other members join, once the plan is known.
    pub(crate) fn complete(&mut self, plan: &Plan) {
        for member in 1..plan.tasks.connections {
            self.spawn(move |shared, events| shared.work(member, None, events));
        }
        // Only members hold senders now: when the last has ended, so has the stream of events.
        self.sender = None;
    }

    /// The next event within the time given; `None` when there was none.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Event> {
        self.events.as_ref()?.recv_timeout(timeout).ok()
    }

    /// Rows and bytes received so far.
    pub(crate) fn received(&self) -> (u64, u64) {
        let Shared { rows, bytes, .. } = &*self.shared;
        (rows.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    fn spawn(
        &mut self,
        work: impl FnOnce(&Shared, &Sender<Event>) -> Result<(), End> + Send + 'static,
    ) {
        let member = self.threads.len();
        self.shared.state().members.push(Member::default());
        let shared = Arc::clone(&self.shared);
        let events = self.sender.clone().expect("members are spawned while the sender is there");
        let run = move || {
            let event = match work(&shared, &events) {
                Ok(()) | Err(End::Closed) => return,
                Err(End::Lost(error)) => Event::Lost(error),
                Err(End::Failed(error)) => Event::Failed(error),
            };
            shared.leave(member);
            // Nobody listens any more when the crew is being dropped.
            let _ = events.send(event);
        };
        let thread = thread::Builder::new().name(format!("load-{member}")).spawn(run);
        self.threads.push(thread.expect("the system can start a thread"));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // First of all: a member that waits to hand rows over must wake up.
        self.events = None;
        self.sender = None;
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut self.threads);
        while !threads.iter().all(JoinHandle::is_finished) {
            for token in self.shared.cancel_tokens() {
                // A server that cannot be reached has nothing to cancel; its connections break by
                // themselves.
                let _ = self.shared.server.cancel(&token);
            }
            let since = Instant::now();
            while since.elapsed() < CANCEL_AGAIN && !threads.iter().all(JoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        for thread in threads {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Shared {
    /// The first member: takes the snapshot, makes the plan, and works like any other.
    fn lead(&self, patience: bool, events: &Sender<Event>) -> Result<(), End> {
        let session = self.take_snapshot(patience)?;
        let (mut session, plan) =
            self.guarded(0, session, |session| Plan::new(session, &self.settings, &self.required))?;
        let plan = Arc::new(plan);
        if plan.tasks.connections > 1 {
            session = self.guarded(0, session, |session| self.publish(0, session))?.0;
        }
        let mut state = self.state();
        state.queue = (0..plan.tasks.list.len()).collect();
        state.unfinished = plan.tasks.list.len();
        drop(state);
        self.plan.set(Arc::clone(&plan)).expect("only the first member makes a plan");
        if events.send(Event::Planned(plan)).is_err() {
            return Err(End::Closed);
        }
        self.work(0, Some(session), events)
    }

    fn take_snapshot(&self, patience: bool) -> Result<Session, End> {
        let deadline = Instant::now() + if patience { PATIENCE } else { Duration::ZERO };
        let mut pause = PAUSES[0];
        loop {
            let session =
                self.connect(0).and_then(|client| Session::begin(&self.server, client, None));
            match session {
                Ok(session) => return Ok(session),
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    self.pause(&mut pause)?;
                }
                Err(error) => return Err(End::Failed(error)),
            }
        }
    }

    /// Does something with a session that nobody else shares yet. If the connection breaks, the
    /// snapshot is lost with it.
    fn guarded<T>(
        &self,
        member: usize,
        mut session: Session,
        action: impl FnOnce(&mut Session) -> Result<T, LoadError>,
    ) -> Result<(Session, T), End> {
        match action(&mut session) {
            Ok(value) => Ok((session, value)),
            Err(error) => {
                self.leave(member);
                Err(if is_transient(&error) { End::Lost(error) } else { End::Failed(error) })
            }
        }
    }

    /// Reads tasks until there are no more.
    fn work(
        &self,
        me: usize,
        mut session: Option<Session>,
        events: &Sender<Event>,
    ) -> Result<(), End> {
        let plan = Arc::clone(self.plan.get().expect("members start when there is a plan"));
        while let Some(task) = self.next_task()? {
            let mut pause = PAUSES[0];
            let mut attempt = 1;
            loop {
                let joined = match session.take() {
                    Some(session) => session,
                    None => self.join(me, &plan)?,
                };
                let joined = session.insert(joined);
                let mut handed_over = false;
                let deliver = |part| {
                    handed_over = true;
                    events.send(Event::Part(task, part)).is_ok()
                };
                let cut = &plan.tasks.list[task];
                let error = match read_task(joined, &plan, cut, self.layout, self, deliver) {
                    Ok(true) => break,
                    Ok(false) => return Err(self.abandon(me, session, End::Closed)),
                    Err(error) => error,
                };
                if self.state().closed {
                    return Err(self.abandon(me, session, End::Closed));
                }
                if !is_transient(&error) || handed_over || attempt == ATTEMPTS {
                    return Err(self.abandon(me, session, End::Failed(error)));
                }
                tracing::warn!(task, attempt, error = chain(&error), "reading the task again");
                if !self.others_hold(me) {
                    return Err(self.abandon(me, session, End::Lost(error)));
                }
                self.abandon(me, session.take(), End::Closed);
                self.state().broke = Some(error);
                self.pause(&mut pause)?;
                attempt += 1;
            }
            if events.send(Event::Done).is_err() {
                return Err(End::Closed);
            }
            self.finish_task();
        }
        Ok(())
    }

    /// Drops a session that may be in the middle of a copy, whose rest would have to be read.
    fn abandon(&self, me: usize, session: Option<Session>, end: End) -> End {
        if let Some(session) = session
            && !session.is_closed()
        {
            // Without the request the rest is read and thrown away: slow, not wrong.
            let _ = self.server.cancel(&session.cancel_token());
            drop(session);
        }
        self.leave(me);
        end
    }

    /// Comes (back) into the snapshot through any member that holds it.
    fn join(&self, me: usize, plan: &Plan) -> Result<Session, End> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = PAUSES[0];
        let mut last = None;
        loop {
            let Some(snapshot) = self.any_snapshot(me) else {
                let known = last.or_else(|| self.state().broke.take());
                let server = self.server.name().to_owned();
                let gone = known.unwrap_or(LoadError::Snapshot { server, source: None });
                return Err(End::Lost(gone));
            };
            let joined = self.connect(me).and_then(|client| {
                let mut session = Session::begin(&self.server, client, Some(&snapshot))?;
                session.run(&plan.hold, &format!("look at {}", plan.columns.place))?;
                self.publish(me, &mut session)?;
                Ok(session)
            });
            let error = match joined {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            self.leave(me);
            if is_snapshot_gone(&error) {
                self.forget(&snapshot);
            } else if is_transient(&error) && Instant::now() < deadline {
                tracing::debug!(error = chain(&error), "connecting again");
                self.pause(&mut pause)?;
            } else {
                return Err(End::Failed(error));
            }
            last = Some(error);
        }
    }

    /// Connects, and lets the crew's drop know whom to cancel.
    fn connect(&self, me: usize) -> Result<::postgres::Client, LoadError> {
        let client = self.server.connect()?;
        self.state().members[me].cancel = Some(client.cancel_token());
        Ok(client)
    }

    fn publish(&self, me: usize, session: &mut Session) -> Result<(), LoadError> {
        let snapshot = session.export()?;
        self.state().members[me].snapshot = Some(snapshot);
        Ok(())
    }

    fn leave(&self, me: usize) {
        self.state().members[me] = Member::default();
    }

    fn forget(&self, snapshot: &str) {
        for member in &mut self.state().members {
            member.snapshot.take_if(|known| known == snapshot);
        }
    }

    fn any_snapshot(&self, me: usize) -> Option<String> {
        let state = self.state();
        let others = state.members.iter().enumerate().filter(|(member, _)| *member != me);
        others.filter_map(|(_, member)| member.snapshot.clone()).next()
    }

    fn others_hold(&self, me: usize) -> bool {
        self.any_snapshot(me).is_some()
    }

    /// A task to read. A member that finds none stays, since its connection holds the snapshot,
    /// until all are done.
    fn next_task(&self) -> Result<Option<usize>, End> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(End::Closed);
            }
            if let Some(task) = state.queue.pop_front() {
                return Ok(Some(task));
            }
            if state.unfinished == 0 {
                return Ok(None);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish_task(&self) {
        self.state().unfinished -= 1;
        self.changed.notify_all();
    }

    /// Waits before another try, unless the crew is being dropped.
    fn pause(&self, pause: &mut Duration) -> Result<(), End> {
        let deadline = Instant::now() + *pause;
        *pause = (2 * *pause).min(PAUSES[1]);
        let mut state = self.state();
        while !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(End::Closed)
    }

    fn cancel_tokens(&self) -> Vec<CancelToken> {
        self.state().members.iter().filter_map(|member| member.cancel.clone()).collect()
    }

    /// Counts rows and bytes.
    pub(super) fn count(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back what was counted for a task that broke off; its bytes did come.
    pub(super) fn discount(&self, rows: u64) {
        self.rows.fetch_sub(rows, Ordering::Relaxed);
    }

    /// A member that panicked leaves nothing half-written behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
