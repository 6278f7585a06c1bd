//! How items flow along a line of stages.
//!
//! A **line** is a [`Source`], any number of [`Stage`]s and a [`Sink`], joined by bounded links,
//! each part on its own thread. [`Pipeline`] builds and runs one. What flows is any [`Item`]; values
//! that are made once and used again are taken from a [`Pool`] on a [`Lease`], and go back when that
//! is dropped. What millstream's own lines carry is in `millstream-data`, not here.
//!
//! How a line ends:
//! - *drained*: the End marker reached the sink, which then finishes;
//! - *stopped*: the sink has had enough, or somebody asked for a stop; upstream parts notice that
//!   their neighbour is gone and return quietly;
//! - *failed*: a part returned an error; the stream is truncated, so the sink does not finish, and
//!   the one root cause is returned;
//! - *panicked*: every thread is joined, then the panic is raised again.
//!
//! ```
//! use millstream_stage::{Emit, Ending, Flow, Item, Pipeline, Sink, Source, Stage};
//! use std::convert::Infallible;
//!
//! struct Sack(u64);
//! impl Item for Sack {
//!     fn rows(&self) -> u64 { 1 }
//!     fn bytes(&self) -> u64 { 8 }
//! }
//!
//! struct Field(u64);
//! impl Source for Field {
//!     type Out = Sack;
//!     type Error = Infallible;
//!     fn next(&mut self) -> Result<Option<Sack>, Infallible> {
//!         self.0 += 1;
//!         Ok((self.0 <= 3).then_some(Sack(self.0)))
//!     }
//! }
//!
//! /// Emits two items for each that comes in.
//! struct Mill;
//! impl Stage for Mill {
//!     type In = Sack;
//!     type Out = Sack;
//!     type Error = Infallible;
//!     fn process(&mut self, sack: Sack, emit: &mut Emit<'_, Sack>) -> Result<Flow, Infallible> {
//!         for _ in 0..2 {
//!             if emit.send(Sack(sack.0)) == Flow::Stop {
//!                 return Ok(Flow::Stop);
//!             }
//!         }
//!         Ok(Flow::Continue)
//!     }
//! }
//!
//! struct Sum(u64);
//! impl Sink for Sum {
//!     type In = Sack;
//!     type Report = u64;
//!     type Error = Infallible;
//!     fn accept(&mut self, sack: Sack) -> Result<Flow, Infallible> {
//!         self.0 += sack.0;
//!         Ok(Flow::Continue)
//!     }
//!     fn finish(self, _: Ending) -> Result<u64, Infallible> { Ok(self.0) }
//! }
//!
//! let outcome = Pipeline::from("field", Field(0), 2).then("mill", Mill).run("sum", Sum(0)).unwrap();
//! assert_eq!(outcome.report, 12);
//! assert_eq!(outcome.stages[1].items, 6);
//! ```

mod counters;
mod lease;
mod line;
mod link;
mod part;
mod threads;
mod warnings;

pub use crate::{
    counters::{Counters, LineCounters, LinkFill, StageReport},
    lease::{Lease, Pool},
    line::{Outcome, Pipeline, PipelineError},
    link::{Closed, Inlet, Outlet, Received, Truncated, link},
    part::{Emit, Ending, Flow, Item, Next, Sink, Source, Stage},
    threads::{NoThreads, thread_pool, thread_pool_here},
    warnings::Warnings,
};
