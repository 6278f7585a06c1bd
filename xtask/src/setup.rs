//! `setup`: makes the workspace buildable, and does nothing when it already is.
//!
//! Decides which libtorch to use and calls the file that provides it. It builds nothing, and
//! prints to stderr only, because it runs inside tasks whose stdout is a result.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::flags::SetupFlags;
use crate::workspace::Workspace;
use crate::{cuda_venv, libtorch, postgres_server, prerequisites, wheels};

/// Runs the task.
///
/// # Errors
/// When something is missing that set-up cannot bring, or a download fails.
pub(crate) fn run(workspace: &Workspace, flags: &SetupFlags) -> Result<(), Error> {
    prerequisites::compiler()?;
    let use_pytorch = env::var_os("LIBTORCH_USE_PYTORCH").is_some();
    let libtorch = env::var_os("LIBTORCH").map(PathBuf::from);
    match Choice::of(use_pytorch, libtorch, &workspace.libtorch()) {
        Choice::Pytorch => {
            eprintln!("setup: using the torch of the current Python (LIBTORCH_USE_PYTORCH is set)");
        }
        Choice::Own(path) => {
            check_own(&path)?;
            eprintln!("setup: using {} (LIBTORCH is set)", path.display());
        }
        Choice::Ours => provide(workspace)?,
    }
    if flags.with_postgres {
        postgres_server::provide()?;
    }
    Ok(())
}

/// Which libtorch the build will use.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Pytorch,
    Own(PathBuf),
    Ours,
}

impl Choice {
    /// `.cargo/config.toml` sets LIBTORCH to `ours` when the user did not set it, so a LIBTORCH
    /// that is `ours` says nothing about what the user wants.
    fn of(use_pytorch: bool, libtorch: Option<PathBuf>, ours: &Path) -> Self {
        if use_pytorch {
            return Self::Pytorch;
        }
        match libtorch {
            Some(path) if !same_place(&path, ours) => Self::Own(path),
            _ => Self::Ours,
        }
    }
}

fn same_place(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

fn check_own(path: &Path) -> Result<(), Error> {
    // A relative path would be looked up in torch-sys' own folder.
    if path.is_absolute() && path.join("include").is_dir() && path.join("lib").is_dir() {
        Ok(())
    } else {
        Err(Error::NotALibtorch { path: path.to_path_buf() })
    }
}

fn provide(workspace: &Workspace) -> Result<(), Error> {
    let cuda = cuda_venv::has_driver();
    let stamp = if cuda { cuda_venv::expected_stamp() } else { libtorch::expected_stamp() };
    if libtorch::is_current(&workspace.libtorch(), &stamp) {
        return Ok(());
    }

    prerequisites::platform()?;
    let cache = wheels::cache_folder()?;
    let _lock = Exclusive::acquire(&cache.join("setup.lock"))?;
    libtorch::remove_stale_partials(workspace)?;
    // Whoever held the lock before may have done the work.
    if libtorch::is_current(&workspace.libtorch(), &stamp) {
        return Ok(());
    }
    if cuda {
        cuda_venv::make(workspace)?;
    } else {
        libtorch::make(workspace, &cache)?;
    }
    eprintln!("setup: libtorch {} is in .libtorch", wheels::TORCH_VERSION);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_users_choice_wins_and_cargos_default_is_not_a_choice() {
        let temp = tempfile::tempdir().unwrap();
        let ours = temp.path().join(".libtorch");
        let own = temp.path().join("libtorch-of-mine");
        let check = |use_pytorch: bool, libtorch: Option<&Path>, expected: Choice| {
            let libtorch = libtorch.map(Path::to_path_buf);
            assert_eq!(Choice::of(use_pytorch, libtorch, &ours), expected);
        };
        check(false, None, Choice::Ours);
        check(false, Some(&ours), Choice::Ours);
        check(false, Some(&own), Choice::Own(own.clone()));
        check(true, Some(&own), Choice::Pytorch);

        fs::create_dir(&ours).unwrap();
        check(false, Some(&temp.path().join("./.libtorch/")), Choice::Ours);
        check(false, Some(&ours.join("../.libtorch")), Choice::Ours);
    }

    #[test]
    fn a_libtorch_of_ones_own_needs_headers_and_libraries() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("lib")).unwrap();
        let error = check_own(temp.path()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("include/ and lib/"), "{error}");

        fs::create_dir(temp.path().join("include")).unwrap();
        assert!(check_own(temp.path()).is_ok());
        assert!(check_own(Path::new("xtask")).is_err());
    }
}
