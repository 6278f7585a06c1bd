//! The peers: other libraries that read PostgreSQL into columnar memory, each in its best
//! documented way, in a Python process of its own. DuckDB, the closest, is there as it comes too.
//!
//! What each of them does is in `peers.py`, which versions in `requirements.txt`.

use crate::{
    cases::{self, Outcome},
    harness::{Failure, report::Report},
    method::{Method, Reader, TWO},
    workload::{Table, middle_page},
};
use std::{
    env,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::Command,
};

/// Name in `peers.py`, and how many connections it reads over.
const PEERS: [(&str, NonZeroUsize); 6] = [
    ("connectorx", TWO),
    ("duckdb", TWO),
    ("duckdb-usual", TWO),
    ("polars", TWO),
    ("adbc", TWO),
    ("adbc", NonZeroUsize::MIN),
];

/// The peers, and ours over as many connections as they have.
pub(crate) fn methods() -> Vec<Method> {
    let ours = [TWO, NonZeroUsize::MIN]
        .map(|connections| Method::new(Reader::Panel, Table::Sorted, connections));
    let peers = PEERS
        .map(|(name, connections)| Method::new(Reader::Peer(name), Table::Sorted, connections));
    ours.into_iter().chain(peers).collect()
}

/// The command that makes a peer read a table.
pub(crate) fn command(
    python: &Path,
    name: &str,
    url: &str,
    method: Method,
) -> Result<Command, Failure> {
    // Cargo says where the sources are when it runs a bench.
    let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
    let mut command = Command::new(python);
    command
        .arg(package.join("benches/postgres/peers.py"))
        .args([name, url, method.table.name()])
        .arg(middle_page(url, method.table)?.to_string())
        .arg(method.connections.to_string());
    Ok(command)
}

/// Ours beside every peer: a ratio above 1 means that ours takes less.
pub(crate) fn compare(outcomes: &[Outcome]) -> Report {
    let mut report = Report::default();
    for peer in outcomes {
        let Reader::Peer(name) = peer.method.reader else { continue };
        let connections = peer.method.connections;
        let suffix = format!("-beside-{name}-{connections}");
        let same = |ours: &&Outcome| {
            ours.method.reader == Reader::Panel && ours.method.connections == connections
        };
        match (&peer.failure, outcomes.iter().find(same)) {
            (None, Some(ours)) => {
                report.cases.extend(cases::pair(&suffix, ours, peer, &peer.name()));
            }
            (failure, _) => {
                let reason = failure.as_deref().unwrap_or("ours was not measured");
                report.skipped.push(cases::skipped(format!("postgres{suffix}"), reason));
            }
        }
    }
    report
}
