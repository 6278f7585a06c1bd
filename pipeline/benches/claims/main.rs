//! What the optimisation guides promise, before and after in one run.
//!
//! Each claim is a file of its own: the code that people usually write, and what millstream does
//! in its place, on the same data, in rounds that take turns. Both sides are checked to give the
//! same; where something is trained, the validation loss of both goes into the table. A claim that
//! this machine cannot show gets the reason in place of a figure.
//!
//! ```text
//! cargo bench -p millstream --bench claims -- \
//!     [--quick] [--json FILE] [--only TEXT]... [--without-postgres REASON]
//! ```

mod allocations;
mod buffers;
mod collate;
mod copies;
mod embedding;
mod finding;
mod footprint;
mod hidden_states;
mod loss_reads;
mod normalisation;
mod preparation;
mod queries;
mod topic;
mod training;
mod turns;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../../loader/tests/loader/support"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests' own, which use more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}

use allocations::Counting;
use harness::{Failure, arguments::Arguments};
use std::{collections::VecDeque, process::ExitCode};
use topic::Topic;
use workload::Size;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let mut given: VecDeque<String> = std::env::args().skip(1).collect();
    let without_postgres = match given.iter().position(|given| given == "--without-postgres") {
        Some(at) => {
            given.remove(at);
            Some(given.remove(at).ok_or("--without-postgres needs a reason")?)
        }
        None => None,
    };
    let Some(arguments) = Arguments::parse(given.into_iter())? else { return Ok(()) };
    let json = arguments.create_json()?;
    let size = if arguments.quick { Size::QUICK } else { Size::FULL };
    // One thread, so that what is compared does not compete with itself.
    tch::set_num_threads(1);
    let mut claims = Vec::new();
    for topic in arguments.select(Topic::ALL.to_vec()) {
        eprintln!("measuring: {}", topic.claim());
        let claim = topic.measure(&size, without_postgres.as_deref())?;
        eprintln!("{claim}\n");
        claims.push(claim);
    }
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &serde_json::json!({ "claims": claims }))?;
    }
    Ok(())
}
