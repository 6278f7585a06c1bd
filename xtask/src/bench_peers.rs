//! `bench-peers`: a stage beside what people use today, on the same data in the same run.
//!
//! Installs the pinned versions of a stage's `requirements.txt` into a Python environment of their
//! own, and hands that to the stage's bench, which runs them. What cannot be had here (a peer, the
//! environment, PostgreSQL) is a line in the report that says why; nothing else depends on it.

use std::fs;

use crate::bench_stages::program::{LOADER, NORMALIZE, Program, Results, TRAINER};
use crate::bench_stages::report::{Against, Report, Skipped};
use crate::bench_stages::{commit, machine};
use crate::error::Error;
use crate::flags::{BenchPeersFlags, SetupFlags};
use crate::prerequisites::{self, Missing};
use crate::venv::{self, Installed};
use crate::workspace::Workspace;
use crate::{postgres_server, process, setup};

/// The versions of the programs' peers, relative to the workspace. The trainer's are PyTorch, as most
/// of normalize's are.
const NORMALIZE_PEERS: &str = "normalize/benches/batches/requirements.txt";
const LOADER_PEERS: &str = "loader/benches/postgres/requirements.txt";

/// Runs the task.
///
/// # Errors
/// When a bench fails. Without a Python or PostgreSQL, what needs it is skipped.
pub(crate) fn run(workspace: &Workspace, flags: &BenchPeersFlags) -> Result<(), Error> {
    // The trainer needs libtorch.
    setup::run(workspace, &SetupFlags::default())?;
    let python = process::find_program("python3", &prerequisites::search_path());
    let folder = workspace.metadata()?.target_directory.join("bench-peers");

    let mut report = Report::new(commit(workspace), machine::describe(), flags.quick);
    let mut measure = |programs: &[Program], requirements: &str| -> Result<(), Error> {
        let stage = programs[0].stage;
        let folder = folder.join(stage);
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let requirements = workspace.root().join(requirements);
        let python = python.as_deref().ok_or(Error::from(Missing::PeersPython));
        let installed = python.and_then(|python| venv::provide(python, &folder, &requirements));
        let Installed { python: environment, left_out } = match installed {
            Ok(installed) => installed,
            Err(error) => {
                let reason = error.with_causes();
                eprintln!("SKIPPED: the peers of {stage}: {reason}");
                programs.iter().for_each(|program| report.extend(program.skipped(reason.clone())));
                return Ok(());
            }
        };
        for program in programs {
            report.extend(program.run(workspace, &folder, flags.quick, Some(&environment))?);
        }
        let skipped = left_out.into_iter().map(|reason| Skipped {
            stage: stage.into(),
            case: "peers".into(),
            reason,
        });
        report.extend(Results { skipped: skipped.collect(), ..Results::default() });
        Ok(())
    };
    measure(&[NORMALIZE, TRAINER], NORMALIZE_PEERS)?;
    match postgres_server::provide() {
        Ok(()) => measure(&[LOADER], LOADER_PEERS)?,
        Err(error) => {
            let reason = error.with_causes();
            eprintln!("SKIPPED: the readers of PostgreSQL: {reason}");
            report.extend(LOADER.skipped(reason));
        }
    }
    report.publish(&folder, Against::Peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::pins;

    #[test]
    fn every_peer_is_pinned_to_one_version() {
        let workspace = Workspace::find().unwrap();
        for (file, peer) in [(LOADER_PEERS, "connectorx=="), (NORMALIZE_PEERS, "torch==")] {
            let path = workspace.root().join(file);
            let text = fs::read_to_string(path).unwrap();
            let pins: Vec<_> = pins(&text).collect();
            assert!(pins.iter().any(|pin| pin.starts_with(peer)), "{pins:?}");
            assert!(pins.iter().all(|pin| pin.split("==").count() == 2), "{pins:?}");
        }
    }
}
