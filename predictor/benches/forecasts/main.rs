//! Forecasts: the predictor as `millstream predict` runs it, Parquet file included, beside the
//! model's forward passes alone.
//!
//! Both see the same batches with the same network and weights on the same threads; what the file holds at
//! the end must be what the forward passes gave. Loading the model is not measured on either side.
//!
//! ```text
//! cargo bench -p millstream-predictor --bench forecasts -- \
//!     [--quick] [--json FILE] [--only TEXT]...
//! ```

mod agree;
mod cases;
mod checkpoint;
mod forward;
mod ours;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../../pipeline/src/memory.rs"]
#[expect(dead_code, unreachable_pub, reason = "the program uses more of it")]
mod memory;

use cases::{Method, Who};
use harness::{Failure, arguments::Arguments, report::Report, rounds};
use std::process::ExitCode;
use workload::{Kind, Work};

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let given = std::env::args().skip(1);
    let Some(arguments) = Arguments::parse_without_peers(given)? else { return Ok(()) };
    let json = arguments.create_json()?;
    // As the program does before anything else, and on as many threads as it would take.
    memory::keep_freed_memory();
    tch::set_num_threads(std::thread::available_parallelism()?.get().try_into()?);

    let work = Kind::ALL.map(|kind| Work::new(kind, arguments.quick));
    let work = work.into_iter().collect::<Result<Vec<_>, _>>()?;
    work.iter().try_for_each(agree::check)?;
    let methods = arguments.select(cases::methods());
    let rounds = if arguments.quick { 8 } else { 20 };
    let outcomes = rounds::run(&methods, rounds, |Method { who, kind }| {
        let work = &work[kind as usize];
        match who {
            Who::Ours => ours::run(work),
            Who::Floor => Ok(forward::run(work)?.0),
        }
    })?;
    let report = Report { cases: cases::compare(&outcomes, &work), skipped: Vec::new() };
    report.publish(&outcomes, json)
}
