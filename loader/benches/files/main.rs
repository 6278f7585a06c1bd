//! What a load from files costs, beside reading the same bytes one after the other.
//!
//! Two loads of one table: the cached panel, as every run but the first finds it, and the Parquet
//! file that it was made of. Every side adds up what it has got, so that nobody is done before the
//! bytes are there; what ours has must add up to what was written. The files are in the page cache:
//! disks differ, and what a load adds to them is the question.
//!
//! ```text
//! cargo bench -p millstream-loader --bench files -- [--quick] [--json FILE] [--only TEXT]...
//! ```

mod batches;
mod cases;
mod ours;
mod sequential;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

use cases::Method;
use harness::{Failure, arguments::Arguments, report::Report, rounds};
use std::process::ExitCode;
use workload::Work;

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let given = std::env::args().skip(1);
    let Some(arguments) = Arguments::parse_without_peers(given)? else { return Ok(()) };
    let json = arguments.create_json()?;
    let work = Work::new(arguments.quick)?;
    let rounds = if arguments.quick { 6 } else { 20 };
    let methods = arguments.select(Method::ALL.to_vec());
    let outcomes = rounds::run(&methods, rounds, |method| match method {
        Method::Cached => ours::cached(&work),
        Method::CachedFloor => sequential::read(&work.shards),
        Method::Parquet => ours::parquet(&work),
        Method::ParquetFloor => sequential::read(std::slice::from_ref(&work.parquet)),
        Method::ParquetBatches => batches::read(&work.parquet),
    })?;
    let report = Report { cases: cases::compare(&outcomes, &work), skipped: Vec::new() };
    report.publish(&outcomes, json)
}
