//! [`Crew`]: the threads that read the tasks of a plan, each over its own connection, all in one
//! snapshot.
//!
//! The first member takes the snapshot and makes the plan; then the others join. What a member
//! does is in [`member`](super::member), what they know of each other in
//! [`roster`](super::roster).
//!
//! Dropping the crew ends what the server is doing for it: statements are cancelled, connections
//! closed and threads joined. A server that does not answer is waited for, but not for long: then
//! the connections are closed without a word. [`Crew::end`] is for those who must be able to stop
//! that wait, too.

use super::{
    member::{End, Member},
    plan::Plan,
    roster::Roster,
    share::{Layout, Part},
};
use crate::{LoadError, SourceSettings};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use millstream_postgres::{Hold, PostgresError, Server, Stop};
use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long to wait for a cancelled statement to end before cancelling again: a request that
/// comes just before its statement does nothing.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// How long a server may take to end what it is doing for a crew that is dropped. A connection over
/// which nothing comes is given up then; the server notices when it next sends something.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same, where somebody waits for this program to stop.
const HASTE: Duration = Duration::from_millis(400);

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
    Lost(PostgresError),
    /// Reading failed for good.
    Failed(LoadError),
    /// A member panicked; dropping the crew raises the panic again.
    Panicked,
}

/// What a load is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) server: Server,
    pub(crate) settings: SourceSettings,
    /// Columns that must be there, features or not.
    pub(crate) required: Vec<String>,
    pub(crate) layout: Layout,
    /// Whether to wait for a server that does not answer yet.
    pub(crate) patience: bool,
    /// Whether to look at what is read, to tell later whether it has changed.
    pub(crate) watch: bool,
}

/// The members.
pub(crate) struct Crew {
    order: Arc<Order>,
    roster: Arc<Roster>,
    /// `None` once the crew is being dropped.
    events: Option<Receiver<Event>>,
    /// `None` once the crew is being dropped.
    sender: Option<Sender<Event>>,
    threads: Vec<JoinHandle<()>>,
    /// Every thread holds the other end of this until it ends.
    alive: (Option<Sender<()>>, Receiver<()>),
    /// Dropped to call off all waiting for the server.
    hold: Option<Hold>,
}

impl Crew {
    /// Starts the first member.
    pub(crate) fn start(mut order: Order) -> Self {
        let (hold, stop) = Stop::new();
        order.server = order.server.stopped_by(stop);
        // Room for a part and a word from each member: they go on while one part is being taken.
        let (sender, events) = bounded(2 * order.settings.connections.get());
        let (alive, ended) = bounded(0);
        let mut crew = Crew {
            order: Arc::new(order),
            roster: Arc::new(Roster::default()),
            events: Some(events),
            sender: Some(sender),
            threads: Vec::new(),
            alive: (Some(alive), ended),
            hold: Some(hold),
        };
        crew.spawn(Member::lead);
        crew
    }

    /// Lets the other members join, once the plan is known.
    pub(crate) fn complete(&mut self, plan: &Arc<Plan>) {
        for _ in 1..plan.tasks.connections {
            let plan = Arc::clone(plan);
            self.spawn(move |member| member.work(&plan, None));
        }
    }

    /// The next event within the time given; `None` when there was none.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Event> {
        self.events.as_ref()?.recv_timeout(timeout).ok()
    }

    /// Rows and bytes received so far.
    pub(crate) fn received(&self) -> (u64, u64) {
        self.roster.received()
    }

    fn spawn(&mut self, work: impl FnOnce(&Member) -> Result<(), End> + Send + 'static) {
        let number = self.roster.enlist();
        let events = self.sender.clone().expect("the sender is there until the crew is dropped");
        let alive = self.alive.0.clone();
        let member = Member {
            number,
            order: Arc::clone(&self.order),
            roster: Arc::clone(&self.roster),
            events,
        };
        let run = move || {
            // Dropped last, when the connection is closed.
            let _alive = alive;
            let member = TellPanic(member);
            let event = match work(&member.0) {
                Ok(()) | Err(End::Closed) => return,
                Err(End::Lost(error)) => Event::Lost(error),
                Err(End::Failed(error)) => Event::Failed(error),
            };
            // Nobody listens any more when the crew is being dropped.
            let _ = member.0.events.send(event);
        };
        let thread = thread::Builder::new().name(format!("load-{number}")).spawn(run);
        self.threads.push(thread.expect("the system can start a thread"));
    }
}

/// Reports a panic, which would otherwise leave everyone waiting for the member's task.
struct TellPanic(Member);

impl Drop for TellPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            // Nobody listens any more when the crew is being dropped.
            let _ = self.0.events.send(Event::Panicked);
        }
    }
}

impl Crew {
    /// Ends what the server is doing for the crew, as dropping it does. `is_urgent` is asked now and
    /// then whether somebody waits for that.
    pub(crate) fn end(mut self, is_urgent: &mut dyn FnMut() -> bool) {
        self.dismiss(is_urgent);
    }

    fn dismiss(&mut self, is_urgent: &mut dyn FnMut() -> bool) {
        // First of all: a member that waits to hand rows over must wake up.
        self.events = None;
        self.sender = None;
        self.alive.0 = None;
        // Members whose work is done end by themselves.
        let wait = if self.roster.close() { CANCEL_AGAIN } else { Duration::ZERO };
        let ended = self.alive.1.clone();
        let (server, roster) = (self.order.server.clone(), Arc::clone(&self.roster));
        let cancelling = move || cancel_until(&ended, &server, &roster, wait);
        let cancelling = thread::Builder::new().name("load-cancel".to_owned()).spawn(cancelling);
        self.threads.push(cancelling.expect("the system can start a thread"));
        let mut deadline = Instant::now() + PATIENCE;
        while self.alive.1.recv_timeout(CANCEL_AGAIN) != Err(RecvTimeoutError::Disconnected) {
            if is_urgent() {
                deadline = deadline.min(Instant::now() + HASTE);
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
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Asks the server to end statements until all members have ended, or nobody waits any more. A
/// server that cannot be reached has nothing to cancel; its connections break by themselves.
fn cancel_until(ended: &Receiver<()>, server: &Server, roster: &Roster, mut wait: Duration) {
    while ended.recv_timeout(wait) != Err(RecvTimeoutError::Disconnected) && !server.is_stopped() {
        thread::scope(|scope| {
            for token in roster.cancel_tokens() {
                scope.spawn(move || server.cancel(&token));
            }
        });
        wait = CANCEL_AGAIN;
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.hold.is_some() {
            self.dismiss(&mut || false);
        }
    }
}
