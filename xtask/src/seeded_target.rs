//! A target folder for a build beside the workspace's: what others wrote is taken over, ours is not.
//!
//! torch-sys takes minutes to compile and is the same everywhere. Cargo names the artefacts of our own
//! crates alike in a copy of the workspace and would take one's for the other's, so those stay behind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process;
use crate::workspace::Workspace;

/// Where cargo keeps what it has built and what it knows of it.
const FOLDERS: [&str; 3] = ["deps", "build", ".fingerprint"];

/// Parts of the names of what is ours.
const OURS: [&str; 4] = ["millstream", "fake", "fault", "xtask"];

/// The folder `name` in the workspace's target folder. A folder that is there already is used as it is.
///
/// # Errors
/// When files cannot be linked or removed there.
pub(crate) fn provide(workspace: &Workspace, name: &str) -> Result<PathBuf, Error> {
    let target = workspace.metadata()?.target_directory;
    let seeded = target.join(name).join("target");
    let release = seeded.join("release");
    if release.exists() {
        return Ok(seeded);
    }
    fs::create_dir_all(&release).map_err(Error::file("make", &release))?;
    for folder in FOLDERS.iter().map(|folder| target.join("release").join(folder)) {
        if !folder.exists() {
            continue;
        }
        // Links, not copies: cargo replaces files, it does not write into them.
        let mut link = Command::new("cp");
        process::run(link.args(["--archive", "--link"]).arg(&folder).arg(&release))?;
    }
    for folder in FOLDERS.iter().map(|folder| release.join(folder)) {
        remove_ours(&folder)?;
    }
    Ok(seeded)
}

fn remove_ours(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !is_ours(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(Error::file("remove", &path))?;
    }
    Ok(())
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let name = name.strip_prefix("lib").unwrap_or(&name);
    OURS.iter().any(|ours| name.starts_with(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_wrote_stays() {
        let folder = tempfile::tempdir().unwrap();
        let names =
            ["libmillstream_data-1a.rlib", "millstream-2b", "libtorch_sys-3c.rlib", "arrow-4d"];
        for name in names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_ours(folder.path()).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["arrow-4d", "libtorch_sys-3c.rlib"]);
    }
}
