//! From a panel in memory to batches: what normalize takes, beside what the memory allows.
//!
//! Two pieces of work on one panel: filling shuffled batches, beside copies of the same spans into
//! the same slots, and fitting with scaling, beside two passes over the same memory. With
//! `--peers`, the same work by the libraries that people use today.
//!
//! ```text
//! cargo bench -p millstream-normalize --bench batches -- \
//!     [--quick] [--json FILE] [--peers PYTHON] [--only TEXT]...
//! ```

mod cases;
mod copies;
mod fill;
mod method;
mod passes;
mod peers;
mod prepare;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

use harness::{Failure, arguments::Arguments, report::Report, rounds};
use method::Work;
use std::process::ExitCode;
use workload::Size;

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    let json = arguments.create_json()?;
    let size = Size::of(&arguments);
    let mut work = Work::new(size)?;
    let (outcomes, report) = match &arguments.peers {
        None => {
            let methods = arguments.select(cases::methods());
            let outcomes = rounds::run(&methods, size.rounds, |method| work.measure(method))?;
            let report = Report { cases: cases::compare(&outcomes, &work), skipped: Vec::new() };
            (outcomes, report)
        }
        Some(python) => {
            let peers = peers::Peers::new(python, &mut work)?;
            let methods = arguments.select(peers::methods());
            let measure = |method| peers.measure(method, &mut work);
            let outcomes = rounds::run(&methods, size.rounds, measure)?;
            let report = peers::compare(&outcomes, &work);
            (outcomes, report)
        }
    };
    report.publish(&outcomes, json)
}
