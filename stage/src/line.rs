//! The line builder: `Pipeline::from(..).then(..).run(..)`.
//!
//! The compiler checks that neighbours fit. Every part but the sink runs on a thread of its own,
//! named after it; the sink runs on the caller's. However a line ends, every thread is joined
//! before `run` returns, a panic is raised again, and exactly one root cause is reported.
//!
//! The line does not know what flows through it and never retries anything.

use crate::{
    counters::{Activity, Counters, LineCounters, StageReport},
    link::{Inlet, Received, Truncated, link},
    part::{Emit, Ending, Flow, Item, Sink, Source, Stage},
};
use crossbeam_channel::Receiver;
use std::{
    error::Error,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// A line that still needs its sink.
#[must_use = "a line does its work in `run`"]
pub struct Pipeline<T> {
    tail: Inlet<T>,
    running: Vec<Running>,
    counters: LineCounters,
    depth: usize,
    stop: Option<Receiver<()>>,
}

struct Running {
    counters: Arc<Counters>,
    /// An error where the system gave it no thread; its neighbours then see that it is gone.
    handle: Result<JoinHandle<Result<(), BoxError>>, NoThread>,
}

/// The system does not start a thread for a part.
#[derive(Debug, thiserror::Error)]
#[error("the system starts no further thread")]
struct NoThread(#[source] io::Error);

/// What a line leaves behind.
#[derive(Debug)]
pub struct Outcome<R> {
    /// The sink's report.
    pub report: R,
    /// How the stream ended.
    pub ending: Ending,
    /// One report per part, in line order.
    pub stages: Vec<StageReport>,
}

/// The one root cause of a line that failed.
#[derive(Debug, thiserror::Error)]
#[error("{stage}: {source}")]
pub struct PipelineError {
    /// The part that failed.
    pub stage: String,
    /// Why.
    pub source: BoxError,
}

impl<T: Item> Pipeline<T> {
    /// Starts a line with `source`. Every link of the line holds `depth` items.
    pub fn from<S: Source<Out = T>>(name: &str, mut source: S, depth: usize) -> Self {
        let (outlet, tail) = link(depth);
        let line = LineCounters::new(depth);
        let counters = line.add(name);
        let handle = spawn(&counters, move |counters| {
            counters.turn_to(Activity::Busy);
            loop {
                let next = tracing::trace_span!("next").in_scope(|| source.next());
                let Some(item) = next? else { break };
                if Emit::new(&outlet, counters).send(item) == Flow::Stop {
                    return Ok(());
                }
            }
            counters.turn_to(Activity::Idle);
            outlet.finish();
            Ok(())
        });
        let running = vec![Running { counters, handle }];
        Pipeline { tail, running, counters: line, depth, stop: None }
    }

    /// Adds a stage.
    pub fn then<S: Stage<In = T>>(mut self, name: &str, mut stage: S) -> Pipeline<S::Out> {
        let (outlet, tail) = link(self.depth);
        let counters = self.counters.add(name);
        let inlet = self.tail;
        let handle = spawn(&counters, move |counters| {
            let mut wait = Activity::Start;
            loop {
                let received = receive(counters, wait, || inlet.recv_until(outlet.gone()));
                let item = match received {
                    Ok(Received::Item(item)) => item,
                    Ok(Received::End) => break,
                    // The part that truncated the stream reports why; this one just stops, and
                    // by dropping its outlet unfinished passes the truncation on. Nor is there
                    // anything to do when the next part is gone, and what it left unread must be
                    // let go: there may be leases in it that a part upstream waits for.
                    Ok(Received::Stopped) | Err(_) => return Ok(()),
                };
                wait = Activity::WaitIn;
                let mut emit = Emit::new(&outlet, counters);
                let flow =
                    tracing::trace_span!("process").in_scope(|| stage.process(item, &mut emit));
                if flow? == Flow::Stop {
                    return Ok(());
                }
            }
            counters.turn_to(Activity::Idle);
            outlet.finish();
            Ok(())
        });
        self.running.push(Running { counters, handle });
        let Pipeline { running, counters, depth, stop, .. } = self;
        Pipeline { tail, running, counters, depth, stop }
    }

    /// Ends the line between two items when a message arrives on `stop`; the sink then finishes
    /// with [`Ending::Interrupted`].
    pub fn stop_on(mut self, stop: Receiver<()>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The line's counters, to be read from any thread while it runs: for a progress display.
    #[must_use]
    pub fn counters(&self) -> LineCounters {
        self.counters.clone()
    }

    /// Runs the line to its end, the sink on this thread.
    ///
    /// # Errors
    /// The root cause: of all parts that failed, the one furthest upstream.
    ///
    /// # Panics
    /// Raises the panic of any part again, after every thread has been joined.
    pub fn run<S: Sink<In = T>>(
        self,
        name: &str,
        mut sink: S,
    ) -> Result<Outcome<S::Report>, PipelineError> {
        let Pipeline { tail, running, counters, stop, .. } = self;
        let counters = counters.add(name);
        let fed =
            catch_unwind(AssertUnwindSafe(|| feed(&tail, stop.as_ref(), &mut sink, &counters)));
        counters.turn_to(Activity::Idle);
        // Close the last link before joining, or a blocked sender upstream would never return.
        drop(tail);

        let mut stages = Vec::with_capacity(running.len() + 1);
        let (mut cause, mut panic) = (None, None);
        for part in running {
            let ended = match part.handle {
                Ok(handle) => handle.join(),
                Err(error) => Ok(Err(error.into())),
            };
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(source)) => {
                    let stage = part.counters.name().to_owned();
                    cause.get_or_insert(PipelineError { stage, source });
                }
                Err(payload) => {
                    panic.get_or_insert(payload);
                }
            }
            stages.push(part.counters.report());
        }
        let fed = fed.unwrap_or_else(|payload| {
            panic.get_or_insert(payload);
            Ok(None)
        });
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        if let Some(cause) = cause {
            return Err(cause);
        }
        let fail =
            |source: S::Error| PipelineError { stage: name.to_owned(), source: Box::new(source) };
        let ending = fed.map_err(fail)?.expect("a truncated stream has a cause upstream");
        counters.turn_to(Activity::Busy);
        let report =
            tracing::trace_span!("finish").in_scope(|| sink.finish(ending)).map_err(fail)?;
        counters.turn_to(Activity::Idle);
        stages.push(counters.report());
        Ok(Outcome { report, ending, stages })
    }
}

impl<T> std::fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.running.iter().map(|r| r.counters.name())).finish()
    }
}

/// Hands items to the sink until the stream ends; `None` when it was truncated.
fn feed<S: Sink>(
    tail: &Inlet<S::In>,
    stop: Option<&Receiver<()>>,
    sink: &mut S,
    counters: &Counters,
) -> Result<Option<Ending>, S::Error> {
    let mut wait = Activity::Start;
    loop {
        let received = receive(counters, wait, || match stop {
            Some(stop) => tail.recv_unless(stop),
            None => tail.recv(),
        });
        let item = match received {
            Ok(Received::Item(item)) => item,
            Ok(Received::End) => return Ok(Some(Ending::Drained)),
            Ok(Received::Stopped) => return Ok(Some(Ending::Interrupted)),
            Err(_) => return Ok(None),
        };
        wait = Activity::WaitIn;
        counters.add_item(item.rows(), item.bytes());
        let flow = tracing::trace_span!("accept").in_scope(|| sink.accept(item));
        if flow? == Flow::Stop {
            return Ok(Some(Ending::Stopped));
        }
    }
}

/// Waits for input, then goes to work.
fn receive<T>(
    counters: &Counters,
    activity: Activity,
    wait: impl FnOnce() -> Result<Received<T>, Truncated>,
) -> Result<Received<T>, Truncated> {
    let _span = tracing::trace_span!("wait_in").entered();
    counters.turn_to(activity);
    let received = wait();
    counters.turn_to(Activity::Busy);
    if let Ok(Received::Item(_)) = received {
        counters.add_taken();
    }
    received
}

/// Starts a part on a thread with its name, and notes when it has ended.
fn spawn(
    counters: &Arc<Counters>,
    part: impl FnOnce(&Counters) -> Result<(), BoxError> + Send + 'static,
) -> Result<JoinHandle<Result<(), BoxError>>, NoThread> {
    let mine = Arc::clone(counters);
    let run = move || {
        let ended = part(&mine);
        mine.turn_to(Activity::Idle);
        ended
    };
    thread::Builder::new().name(counters.name().to_owned()).spawn(run).map_err(NoThread)
}
