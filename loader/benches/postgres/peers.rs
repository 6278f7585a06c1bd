//! The peers: other libraries that read PostgreSQL into columnar memory, each in its best
//! documented way, in a Python process of its own. DuckDB, the closest, is there as it comes too.
//!
//! Besides them, PyTorch data sets that look batches up in the database, beside a panel that they
//! are copied from.
//!
//! What each of them does is in `peers.py` and `data_sets.py`, which versions in
//! `requirements.txt`.

use crate::{
    cases::{self, Outcome},
    harness::{Failure, report::Report},
    method::{Method, Reader, TWO},
    windows::{self, Epoch},
    workload::{BenchTable, middle_page},
};
use std::{
    env,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::Command,
};

/// Data sets backed by the database in `data_sets.py`, and over how many connections they look up
/// an epoch's windows.
const DATA_SETS: [(&str, NonZeroUsize); 2] =
    [("query-per-batch-usual", NonZeroUsize::MIN), ("query-per-batch", TWO)];

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
        .map(|connections| Method::new(Reader::Panel, BenchTable::Sorted, connections));
    let peers = PEERS.map(|(name, connections)| {
        Method::new(Reader::Peer(name), BenchTable::Sorted, connections)
    });
    let data_sets = DATA_SETS.map(|(name, connections)| {
        Method::new(Reader::Peer(name), BenchTable::Indexed, connections)
    });
    let epoch = Method::new(Reader::Epoch, BenchTable::Indexed, TWO);
    ours.into_iter().chain(peers).chain([epoch]).chain(data_sets).collect()
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
    let folder = package.join("benches/postgres");
    let mut command = Command::new(python);
    let connections = method.connections.to_string();
    if method.table == BenchTable::Indexed {
        command
            .arg(folder.join("data_sets.py"))
            .args([name, url, method.table.name(), &connections])
            .arg(windows::shape().to_string());
    } else {
        command
            .arg(folder.join("peers.py"))
            .args([name, url, method.table.name()])
            .arg(middle_page(url, method.table)?.to_string())
            .arg(connections);
    }
    Ok(command)
}

/// Ours beside every peer: a ratio above 1 means that ours takes less.
pub(crate) fn compare(outcomes: &[Outcome], epoch: Epoch) -> Report {
    let mut report = Report::default();
    for peer in outcomes {
        let Reader::Peer(name) = peer.method.reader else { continue };
        let connections = peer.method.connections;
        let suffix = format!("-beside-{name}-{connections}");
        let windows = peer.method.table == BenchTable::Indexed;
        let same = |ours: &&Outcome| match ours.method.reader {
            Reader::Panel => !windows && ours.method.connections == connections,
            Reader::Epoch => windows,
            _ => false,
        };
        match (&peer.failure, outcomes.iter().find(same)) {
            (None, Some(ours)) if windows => {
                let batches = epoch.batches();
                report.cases.extend(cases::epoch(&suffix, ours, peer, &peer.name(), batches));
            }
            (None, Some(ours)) => {
                report.cases.extend(cases::load(&suffix, ours, peer, &peer.name()));
            }
            (failure, _) => {
                let reason = failure.as_deref().unwrap_or("ours was not measured");
                let work = if windows { "postgres-epoch" } else { "postgres" };
                report.skipped.push(cases::skipped(format!("{work}{suffix}"), reason));
            }
        }
    }
    report
}
