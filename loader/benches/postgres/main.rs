//! What a load from PostgreSQL costs, beside the bare transfer of the same bytes.
//!
//! Not criterion: a load takes seconds, and besides the time its client's own CPU and memory
//! count. So every method runs as a child process of this program, in interleaved rounds, and
//! says at its end what it took. The parent only starts a private server, has the tables made,
//! and writes the figures down; it judges none of them.
//!
//! ```text
//! cargo bench -p millstream-loader --bench postgres -- \
//!     [--quick] [--json FILE] [--peers PYTHON] [--only TEXT]...
//! ```

mod cases;
mod content;
mod drain;
mod kept;
mod method;
mod ours;
mod peers;
mod psql;
mod windows;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../tests/loader/support"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests' own, which use more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}

use content::Content;
use harness::{Failure, arguments::Arguments, report::Report, rounds};
use method::{Job, Reader, Truths};
use std::{
    process::{ExitCode, exit},
    sync::{Arc, Mutex, PoisonError},
};
use support::server::{Options, Server};
use windows::Epoch;

/// The tables stay in memory, and nothing but the readers is at work. Compiling plans would take
/// time that no reader can do anything about.
const SERVER: [&str; 7] = [
    "shared_buffers=1536MB",
    "autovacuum=off",
    "jit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1h",
    "max_wal_size=8GB",
];

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let mut given = std::env::args().skip(1).peekable();
    if given.next_if(|first| first == method::CHILD).is_some() {
        return Job::parse(given)?.run();
    }
    let Some(arguments) = Arguments::parse(given)? else { return Ok(()) };
    let server = Server::with(&Options { settings: &SERVER, ..Options::default() });
    let url = workload::url(server.url())?;
    let server = Arc::new(Mutex::new(Some(server)));
    // The server is in a session of its own, so nobody else would stop it.
    let interrupted = Arc::clone(&server);
    ctrlc::set_handler(move || {
        stop(&interrupted);
        exit(130);
    })?;
    let result = bench(&arguments, &url);
    stop(&server);
    result
}

fn stop(server: &Mutex<Option<Server>>) {
    drop(server.lock().unwrap_or_else(PoisonError::into_inner).take());
}

fn bench(arguments: &Arguments, url: &str) -> Result<(), Failure> {
    let json = arguments.create_json()?;
    let rows = if arguments.quick { 100_000 } else { 1_000_147 };
    eprintln!("making two tables of {rows} rows, or taking them from an earlier run");
    let table = workload::make(url, rows)?;
    let epoch = Epoch::of(rows);
    let windows = match &arguments.peers {
        Some(_) => windows::make(url, epoch)?,
        None => Content::default(),
    };
    let truths = Truths { table, windows };

    let mut methods = arguments.select(match &arguments.peers {
        Some(_) => peers::methods(),
        None => cases::methods(),
    });
    let mut skipped = Vec::new();
    if arguments.peers.is_none() && psql::find().is_none() {
        let reason = "no psql on PATH or in /usr/lib/postgresql/*/bin";
        for case in ["postgres-psql", "postgres-cpu-psql"] {
            skipped.push(cases::skipped(case, reason));
        }
        methods.retain(|method| method.reader != Reader::Psql);
    }
    let rounds = match (arguments.quick, &arguments.peers) {
        (false, None) => 11,
        // A round of all peers takes minutes.
        (false, Some(_)) => 5,
        (true, _) => 2,
    };
    let outcomes = rounds::run(&methods, rounds, |method| {
        method.measure(url, arguments.peers.as_deref(), &truths)
    })?;
    let mut report = match &arguments.peers {
        Some(_) => peers::compare(&outcomes, epoch),
        None => Report { cases: cases::compare(&outcomes), skipped: Vec::new() },
    };
    report.skipped.extend(skipped);
    report.publish(&outcomes, json)?;
    workload::clear(url)
}
