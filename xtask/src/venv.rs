//! Python environments with pinned versions, for what is compared with Python or recomputed by it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process;

/// An environment that is there.
#[derive(Debug)]
pub(crate) struct Installed {
    /// Its Python.
    pub(crate) python: PathBuf,
    /// Why some of what it should hold is not in it, a line each.
    pub(crate) left_out: Vec<String>,
}

/// Makes the environment `venv` in `folder`, unless it is there and holds these very versions.
///
/// # Errors
/// When the environment cannot be made; a package that cannot be installed is left out.
pub(crate) fn provide(
    python: &Path,
    folder: &Path,
    requirements: &Path,
) -> Result<Installed, Error> {
    let wanted = fs::read_to_string(requirements).map_err(Error::file("read", requirements))?;
    let venv = folder.join("venv");
    let environment = venv.join("bin/python");
    let stamp = venv.join("installed.txt");
    // The environment's Python is a link to one that may have gone since.
    let works = process::succeeds(Command::new(&environment).arg("--version"));
    if works && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(Installed { python: environment, left_out: Vec::new() });
    }
    eprintln!("installing {} in {}", requirements.display(), venv.display());
    process::run_on_stderr(Command::new(python).args(["-m", "venv", "--clear"]).arg(&venv))?;
    if process::run_on_stderr(pip(&environment).arg("-r").arg(requirements)).is_ok() {
        fs::write(&stamp, &wanted).map_err(Error::file("write", &stamp))?;
        return Ok(Installed { python: environment, left_out: Vec::new() });
    }
    // One by one, so that a version that is not made for this machine costs only itself.
    let mut left_out = Vec::new();
    for requirement in pins(&wanted) {
        if let Err(error) = process::run_on_stderr(pip(&environment).arg(requirement)) {
            eprintln!("SKIPPED: {requirement}: {error}");
            left_out.push(format!("{requirement} cannot be installed: {}", error.with_causes()));
        }
    }
    Ok(Installed { python: environment, left_out })
}

fn pip(environment: &Path) -> Command {
    let mut command = Command::new(environment);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// The lines of a requirements file that name a package.
pub(crate) fn pins(requirements: &str) -> impl Iterator<Item = &str> {
    requirements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_with_these_versions_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let requirements = temp.path().join("requirements.txt");
        fs::write(&requirements, "numpy==1\n").unwrap();
        let bin = temp.path().join("venv/bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/true", bin.join("python")).unwrap();
        let install = || provide(Path::new("/bin/false"), temp.path(), &requirements);

        // /bin/false makes no environment.
        assert!(matches!(install(), Err(Error::CommandFailed { .. })));
        fs::write(temp.path().join("venv/installed.txt"), "numpy==1\n").unwrap();
        let Installed { python, left_out } = install().unwrap();
        assert_eq!(python, bin.join("python"));
        assert!(left_out.is_empty());
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

        let left_out = provide(&python, temp.path(), &requirements).unwrap().left_out;
        let [only] = left_out.as_slice() else { panic!("{left_out:?}") };
        assert!(only.starts_with("polars==2 cannot be installed: "), "{only}");
        assert!(!temp.path().join("venv/installed.txt").exists());
    }
}
