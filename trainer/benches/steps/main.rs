//! Training steps: the trainer as `millstream train` runs it, beside a bare libtorch loop.
//!
//! Both learn the same batches from the same first weights on the same threads, and must end with
//! the same weights before their times are compared. Loading, filling and copying batches is not
//! measured here, and neither are checkpoints: they belong to the end of an epoch. With `--peers`,
//! the trainer stands beside the loops that people write in PyTorch.
//!
//! ```text
//! cargo bench -p millstream-trainer --bench steps -- \
//!     [--quick] [--json FILE] [--peers PYTHON] [--only TEXT]...
//! ```

mod agree;
mod bare;
mod cases;
mod linear;
mod networks;
mod ours;
mod peers;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../../pipeline/src/memory.rs"]
#[expect(dead_code, unreachable_pub, reason = "the program uses more of it")]
mod memory;

use cases::{Method, Who};
use harness::{Failure, arguments::Arguments, report::Report, rounds};
use peers::Peers;
use std::process::ExitCode;
use workload::{Kind, Work};

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    let json = arguments.create_json()?;
    // As the program does before anything else, and on as many threads as it would take.
    memory::keep_freed_memory();
    let threads = std::thread::available_parallelism()?.get();
    tch::set_num_threads(threads.try_into()?);

    let work = Kind::ALL.map(|kind| Work::new(kind, arguments.quick));
    let agreed = work.iter().map(agree::check).collect::<Result<Vec<_>, _>>()?;
    let peers = match &arguments.peers {
        Some(python) => Some(Peers::new(python, &work, &agreed, threads)?),
        None => None,
    };
    let methods = arguments.select(match peers {
        Some(_) => peers::methods(),
        None => cases::methods(),
    });
    let rounds = match (arguments.quick, &peers) {
        (false, None) => 20,
        (true, None) => 8,
        // A Python takes seconds to start.
        (false, Some(_)) => 6,
        (true, Some(_)) => 2,
    };
    let outcomes = rounds::run(&methods, rounds, |Method { who, kind }| {
        let (work, agreed) = (&work[kind as usize], &agreed[kind as usize]);
        match (who, &peers) {
            (Who::Ours, _) => Ok(ours::run(work)?.sample),
            (Who::Floor, _) => Ok(bare::run(work, &agreed.weights)?.sample),
            (Who::Peer(name), Some(peers)) => peers.measure(name, kind),
            (Who::Peer(name), None) => Err(format!("{name} needs --peers").into()),
        }
    })?;
    let report = match peers {
        Some(_) => peers::compare(&outcomes, &work),
        None => Report { cases: cases::compare(&outcomes, &work), skipped: Vec::new() },
    };
    report.publish(&outcomes, json)
}
