//! A libtorch with CUDA, for machines that have an NVIDIA driver: pip's own torch in `.venv`.
//!
//! pip resolves the NVIDIA libraries that torch needs, and torch's libraries find them through
//! their own relative search paths; `build-rpath.rs` adds the link flags. The wheels are not
//! pinned by hash here, because they differ per Python version; the torch version is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::wheels::TORCH_VERSION;
use crate::workspace::Workspace;
use crate::{libtorch, prerequisites, process};

/// Whether this machine has an NVIDIA driver.
pub(crate) fn has_driver() -> bool {
    if Path::new("/proc/driver/nvidia/version").exists() {
        return true;
    }
    // Inside WSL and some containers only the library tells. ldconfig is often off a user's PATH.
    ["ldconfig", "/sbin/ldconfig"].iter().any(|ldconfig| {
        Command::new(ldconfig)
            .arg("-p")
            .output()
            .is_ok_and(|output| lists_driver(&String::from_utf8_lossy(&output.stdout)))
    })
}

/// What the stamp of an up-to-date `.libtorch` says.
pub(crate) fn expected_stamp() -> String {
    format!("torch=={TORCH_VERSION} in .venv\n")
}

/// Makes `.venv` and points `.libtorch` at its torch. The caller holds the set-up lock.
///
/// # Errors
/// When Python or pip fails; `.libtorch` is then as before.
pub(crate) fn make(workspace: &Workspace) -> Result<(), Error> {
    let python = prerequisites::python_with_pip()?;
    eprintln!("setup: NVIDIA driver found, installing torch {TORCH_VERSION} with CUDA in .venv");
    for mut command in plan(&python, workspace.root()) {
        process::run_on_stderr(&mut command)?;
    }
    link(workspace)
}

fn lists_driver(ldconfig_output: &str) -> bool {
    ldconfig_output.lines().any(|line| line.trim_start().starts_with("libcuda.so.1 "))
}

fn plan(python: &Path, root: &Path) -> [Command; 2] {
    let mut create = Command::new(python);
    create.current_dir(root).args(["-m", "venv", ".venv"]);
    let mut install = Command::new(root.join(".venv/bin/python"));
    install
        .current_dir(root)
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .arg(format!("torch=={TORCH_VERSION}"));
    [create, install]
}

/// Stamps the installed torch and makes `.libtorch` a relative link to it.
fn link(workspace: &Workspace) -> Result<(), Error> {
    let torch = installed_torch(workspace.root())?;
    let stamp = workspace.root().join(&torch).join(libtorch::STAMP);
    fs::write(&stamp, expected_stamp()).map_err(Error::file("write", &stamp))?;
    let made = workspace.root().join(format!(".libtorch.partial-{}", std::process::id()));
    symlink(&torch, &made).map_err(Error::file("create", &made))?;
    libtorch::put_in_place(&made, &workspace.libtorch())
}

/// The torch package in `.venv`, relative to the workspace.
fn installed_torch(root: &Path) -> Result<PathBuf, Error> {
    let lib = Path::new(".venv/lib");
    let entries = fs::read_dir(root.join(lib)).map_err(Error::file("list", root.join(lib)))?;
    for entry in entries {
        let entry = entry.map_err(Error::file("list", root.join(lib)))?;
        let torch = lib.join(entry.file_name()).join("site-packages/torch");
        if root.join(&torch).join("lib/libtorch_cuda.so").is_file() {
            return Ok(torch);
        }
    }
    Err(Error::NoTorchInVenv { venv: root.join(".venv") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_recognised_by_its_soname() {
        let with = "124 libs found\n\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1\n";
        assert!(lists_driver(with));
        assert!(!lists_driver("\tlibcudart.so.13 (libc6,x86-64) => /usr/lib/libcudart.so.13\n"));
    }

    #[test]
    fn the_plan_is_a_venv_and_one_install_in_it() {
        let [create, install] = plan(Path::new("python3"), Path::new("/clone"));
        assert_eq!(process::line(&create), "python3 -m venv .venv");
        assert_eq!(create.get_current_dir(), Some(Path::new("/clone")));
        assert_eq!(install.get_program(), "/clone/.venv/bin/python");
        let expected = "python -m pip install --disable-pip-version-check torch==2.13.0";
        assert_eq!(process::line(&install), expected);
    }

    #[test]
    fn libtorch_becomes_a_relative_link_to_the_installed_torch() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(temp.path());
        let torch = ".venv/lib/python3.12/site-packages/torch";
        for folder in ["lib", "include"] {
            fs::create_dir_all(temp.path().join(torch).join(folder)).unwrap();
        }
        assert!(matches!(link(&workspace), Err(Error::NoTorchInVenv { .. })));

        fs::write(temp.path().join(torch).join("lib/libtorch_cuda.so"), "").unwrap();
        link(&workspace).unwrap();
        assert_eq!(fs::read_link(workspace.libtorch()).unwrap(), Path::new(torch));
        assert!(libtorch::is_current(&workspace.libtorch(), &expected_stamp()));
    }
}
