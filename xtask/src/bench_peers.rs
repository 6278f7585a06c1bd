//! `bench-peers`: a stage beside what people use today, on the same data in the same run.
//!
//! Installs the pinned versions of a stage's `requirements.txt` into a Python environment of their
//! own, and hands that to the stage's bench, which runs them. What cannot be had here (a peer, the
//! environment, PostgreSQL) is a line in the report that says why; nothing else depends on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench_stages::program::{LOADER, NORMALIZE, Program, Results, TRAINER};
use crate::bench_stages::report::{Against, Report, Skipped};
use crate::bench_stages::{commit, machine};
use crate::error::Error;
use crate::flags::{BenchPeersFlags, SetupFlags};
use crate::prerequisites::{self, Missing};
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
        let installed = python.and_then(|python| install(stage, python, &folder, &requirements));
        let (environment, skipped) = match installed {
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
        report.extend(Results { skipped: skipped.into_iter().collect(), ..Results::default() });
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

/// Makes the environment, unless it is there and holds these very versions. Gives its Python, and
/// what could not be installed in it.
fn install(
    stage: &str,
    python: &Path,
    folder: &Path,
    requirements: &Path,
) -> Result<(PathBuf, Vec<Skipped>), Error> {
    let wanted = fs::read_to_string(requirements).map_err(Error::file("read", requirements))?;
    let venv = folder.join("venv");
    let environment = venv.join("bin/python");
    let stamp = venv.join("installed.txt");
    // The environment's Python is a link to one that may have gone since.
    let works = process::succeeds(Command::new(&environment).arg("--version"));
    if works && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok((environment, Vec::new()));
    }
    eprintln!("bench-peers: installing the peers in {}", venv.display());
    process::run_on_stderr(Command::new(python).args(["-m", "venv", "--clear"]).arg(&venv))?;
    if process::run_on_stderr(pip(&environment).arg("-r").arg(requirements)).is_ok() {
        fs::write(&stamp, &wanted).map_err(Error::file("write", &stamp))?;
        return Ok((environment, Vec::new()));
    }
    // One by one, so that a version that is not made for this machine costs only itself.
    let mut skipped = Vec::new();
    for requirement in pins(&wanted) {
        if let Err(error) = process::run_on_stderr(pip(&environment).arg(requirement)) {
            eprintln!("SKIPPED: {requirement}: {error}");
            let reason = format!("{requirement} cannot be installed: {}", error.with_causes());
            skipped.push(Skipped { stage: stage.into(), case: "peers".into(), reason });
        }
    }
    Ok((environment, skipped))
}

fn pip(environment: &Path) -> Command {
    let mut command = Command::new(environment);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// The lines of a requirements file that name a package.
fn pins(requirements: &str) -> impl Iterator<Item = &str> {
    requirements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_environment_with_these_versions_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let requirements = temp.path().join("requirements.txt");
        fs::write(&requirements, "numpy==1\n").unwrap();
        let bin = temp.path().join("venv/bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/true", bin.join("python")).unwrap();
        let install = || install("loader", Path::new("/bin/false"), temp.path(), &requirements);

        // /bin/false makes no environment.
        assert!(matches!(install(), Err(Error::CommandFailed { .. })));
        fs::write(temp.path().join("venv/installed.txt"), "numpy==1\n").unwrap();
        let (environment, skipped) = install().unwrap();
        assert_eq!(environment, bin.join("python"));
        assert!(skipped.is_empty());
        fs::write(&requirements, "numpy==2\n").unwrap();
        assert!(install().is_err());
    }

    #[test]
    fn what_cannot_be_installed_is_skipped_by_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let requirements = temp.path().join("requirements.txt");
        fs::write(&requirements, "# why\nnumpy==1\npolars==2\n").unwrap();
        // A Python whose `venv` leaves a pip that knows only numpy.
        let python = temp.path().join("python3");
        let script = "#!/bin/sh\n\
            if [ \"$2\" = venv ]; then mkdir -p \"$4/bin\"; cp \"$0\" \"$4/bin/python\"; exit; fi\n\
            case \"$*\" in *numpy==1) exit 0;; esac\nexit 1\n";
        fs::write(&python, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&python, mode).unwrap();

        let (_, skipped) = install("loader", &python, temp.path(), &requirements).unwrap();
        let [only] = skipped.as_slice() else { panic!("{skipped:?}") };
        assert!(only.reason.starts_with("polars==2 cannot be installed: "), "{}", only.reason);
        assert!(!temp.path().join("venv/installed.txt").exists());
    }
}
