//! Training steps: the trainer as `millstream train` runs it, beside a bare libtorch loop.
//!
//! Both learn the same batches from the same first weights on the same threads, and must end with
//! the same weights before their times are compared. Loading, filling and copying batches is not
//! measured here, and neither are checkpoints: they belong to the end of an epoch.
//!
//! ```text
//! cargo bench -p millstream-trainer --bench steps -- [--quick] [--json FILE] [--only TEXT]
//! ```

mod agree;
mod bare;
mod cases;
mod ours;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../../pipeline/src/memory.rs"]
#[expect(dead_code, reason = "the program uses more of it")]
mod memory;

use cases::{Method, Who};
use harness::{Failure, arguments::Arguments, report::Report, rounds};
use std::process::ExitCode;
use workload::{Kind, Work};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    if arguments.peers.is_some() {
        return Err("this bench has no peers".into());
    }
    let json = arguments.create_json()?;
    // As the program does before anything else, and on as many threads as it would take.
    memory::keep_freed();
    tch::set_num_threads(std::thread::available_parallelism()?.get().try_into()?);

    let work = Kind::ALL.map(|kind| Work::new(kind, arguments.quick));
    let first = work.iter().map(agree::check).collect::<Result<Vec<_>, _>>()?;
    let methods = arguments.select(cases::methods());
    let rounds = if arguments.quick { 8 } else { 20 };
    let outcomes = rounds::run(&methods, rounds, |Method { who, kind }| {
        let work = &work[kind as usize];
        let run = match who {
            Who::Ours => ours::run(work),
            Who::Floor => bare::run(work, &first[kind as usize]),
        };
        Ok(run?.sample)
    })?;
    let report = Report { cases: cases::compare(&outcomes, &work), skipped: Vec::new() };
    eprint!("\n{}\n{}", rounds::table(&outcomes), report.table());
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &report)?;
    }
    Ok(())
}
