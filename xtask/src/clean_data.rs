//! `clean-data`: removes what the pipeline made in this workspace.
//!
//! Only its own folders, listed first. Builds stay (`cargo clean` does that), and so does the
//! wheel cache, which other clones share.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::flags::CleanDataFlags;
use crate::wheels;
use crate::workspace::Workspace;

/// Runs the task.
///
/// # Errors
/// [`Error::CannotAsk`] without a terminal and without `--yes`; otherwise when a removal fails.
pub(crate) fn run(workspace: &Workspace, flags: &CleanDataFlags) -> Result<(), Error> {
    let found = candidates(workspace, flags.libtorch);
    if found.is_empty() {
        println!("nothing to remove");
        return Ok(());
    }
    for path in &found {
        let name = path.strip_prefix(workspace.root()).unwrap_or(path);
        println!("{:>10}  {}", megabytes(size_of(path)?), name.display());
    }
    if let Ok(cache) = wheels::cache_folder().map(|cache| cache.display().to_string()) {
        println!("the downloaded wheels in {cache} are left alone");
    }
    if !flags.yes && !confirmed()? {
        println!("nothing removed");
        return Ok(());
    }
    for path in &found {
        // Removes a link itself, not what it points to.
        fs::remove_dir_all(path).map_err(Error::file("remove", path))?;
    }
    println!("removed");
    Ok(())
}

fn candidates(workspace: &Workspace, with_libtorch: bool) -> Vec<PathBuf> {
    let mut names = vec![".millstream", "runs"];
    if with_libtorch {
        names.push(".libtorch");
    }
    names
        .into_iter()
        .map(|name| workspace.root().join(name))
        .filter(|path| path.symlink_metadata().is_ok())
        .collect()
}

fn confirmed() -> Result<bool, Error> {
    if !io::stdin().is_terminal() {
        return Err(Error::CannotAsk);
    }
    print!("remove? [y/N] ");
    io::stdout().flush().map_err(Error::file("write to", "stdout"))?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::file("read", "the answer"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Bytes in files below `path`; links count as nothing.
fn size_of(path: &Path) -> Result<u64, Error> {
    let found = path.symlink_metadata().map_err(Error::file("read", path))?;
    if !found.is_dir() {
        return Ok(if found.is_file() { found.len() } else { 0 });
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(Error::file("list", path))? {
        bytes += size_of(&entry.map_err(Error::file("list", path))?.path())?;
    }
    Ok(bytes)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace_with_data() -> (tempfile::TempDir, Workspace) {
        let temp = tempfile::tempdir().unwrap();
        for name in [".millstream/cache/shard-0.arrow", "runs/1/metrics.jsonl", ".libtorch/stamp"] {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [0; 1000]).unwrap();
        }
        let workspace = Workspace::at(temp.path());
        (temp, workspace)
    }

    #[test]
    fn data_goes_and_libtorch_stays_unless_named() {
        let (temp, workspace) = workspace_with_data();
        fs::write(temp.path().join("Cargo.toml"), "").unwrap();
        let left = || {
            let names = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        run(&workspace, &CleanDataFlags { yes: true, libtorch: false }).unwrap();
        assert_eq!(left(), [".libtorch", "Cargo.toml"]);
        run(&workspace, &CleanDataFlags { yes: true, libtorch: true }).unwrap();
        assert_eq!(left(), ["Cargo.toml"]);
    }

    #[test]
    fn a_linked_folder_is_unlinked_and_its_files_survive() {
        let (temp, _) = workspace_with_data();
        let clone = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(temp.path().join("runs"), clone.path().join("runs")).unwrap();
        let workspace = Workspace::at(clone.path());
        run(&workspace, &CleanDataFlags { yes: true, libtorch: false }).unwrap();
        assert!(!clone.path().join("runs").is_symlink());
        assert!(temp.path().join("runs/1/metrics.jsonl").exists());
    }

    #[test]
    fn the_size_is_the_sum_of_the_files() {
        let (temp, _) = workspace_with_data();
        assert_eq!(size_of(temp.path()).unwrap(), 3000);
        assert_eq!(megabytes(1_250_000), "1.2 MB");
    }
}
