//! Where things are: the workspace's root folder, and cargo's target folder.
//!
//! Knows no task. Paths are looked up when the program runs, never compiled in, so that a clone
//! can be moved.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;
use crate::process;

/// A clone of millstream.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

/// The part of `cargo metadata` that tasks read.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A workspace member.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// Registries it may go to; `None` for any.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// Something that a package builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) src_path: PathBuf,
}

/// A direct dependency of any kind: normal, dev or build.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The version asked for; `*` where none is named.
    #[serde(default)]
    pub(crate) req: String,
    /// Where it lies, when it is one of ours.
    #[serde(default)]
    pub(crate) path: Option<PathBuf>,
    /// `dev` or `build`; `None` for a normal one.
    #[serde(default)]
    pub(crate) kind: Option<String>,
}

impl Workspace {
    /// Finds the workspace that this program was started in.
    ///
    /// # Errors
    /// [`Error::NoWorkspace`] outside of a clone.
    pub(crate) fn find() -> Result<Self, Error> {
        // `cargo run` sets this one, also when called with --manifest-path from elsewhere.
        let from_cargo = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let start = match from_cargo {
            Some(folder) => folder,
            None => env::current_dir().map_err(Error::file("read", "the current folder"))?,
        };
        let root = root_above(&start).ok_or(Error::NoWorkspace)?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// A workspace at a known place.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The folder with the workspace's Cargo.toml.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where set-up puts libtorch, and where `.cargo/config.toml` points builds to.
    pub(crate) fn libtorch(&self) -> PathBuf {
        self.root.join(".libtorch")
    }

    /// Tells a cargo that runs elsewhere where libtorch is, as `.cargo/config.toml` does here.
    pub(crate) fn point_at_libtorch(&self, command: &mut Command) {
        if env::var_os("LIBTORCH").is_none() {
            command.env("LIBTORCH", self.libtorch());
        }
    }

    /// The files that are or could be committed, by their paths below the root.
    ///
    /// # Errors
    /// When git cannot list them.
    pub(crate) fn files(&self) -> Result<Vec<String>, Error> {
        // A link's target is not ours to judge.
        let is_file = |path: &String| {
            self.root.join(path).symlink_metadata().is_ok_and(|found| found.is_file())
        };
        Ok(self.files_and_links()?.into_iter().filter(is_file).collect())
    }

    /// The same with links to files.
    ///
    /// # Errors
    /// When git cannot list them.
    pub(crate) fn files_and_links(&self) -> Result<Vec<String>, Error> {
        let mut command = Command::new("git");
        command.current_dir(&self.root);
        command.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
        let listing = process::stdout_of(&mut command)?;
        // One may be deleted but not yet staged.
        let is_there = |path: &&str| !path.is_empty() && self.root.join(path).is_file();
        Ok(listing.split('\0').filter(is_there).map(str::to_owned).collect())
    }

    /// `cargo`, the same one that started us, to be run in the workspace's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        // `cargo run` tells us about xtask in these. ring's build script watches them, so with
        // them ring and all that needs it would be compiled anew on every change between a task
        // and a cargo started by hand.
        let ours =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(ours) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Asks cargo for the members and the target folder.
    ///
    /// # Errors
    /// When a Cargo.toml of the workspace is broken; cargo's own message is on stderr.
    pub(crate) fn metadata(&self) -> Result<Metadata, Error> {
        let mut command = self.cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let text = process::stdout_of(&mut command)?;
        serde_json::from_str(&text)
            .map_err(|source| Error::Json { what: "the output of cargo metadata".into(), source })
    }
}

fn root_above(start: &Path) -> Option<&Path> {
    start.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_root_is_found_from_any_folder_below() {
        let temp = tempfile::tempdir().unwrap();
        let deep = temp.path().join("loader/src");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(root_above(&deep), None);

        fs::create_dir(temp.path().join("xtask")).unwrap();
        fs::write(temp.path().join("xtask/Cargo.toml"), "").unwrap();
        assert_eq!(root_above(&deep), Some(temp.path()));
        assert_eq!(root_above(&temp.path().join("xtask")), Some(temp.path()));
    }

    #[test]
    fn cargo_is_not_told_that_it_builds_for_xtask() {
        // The test runner has them from cargo, as `cargo xtask` has.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let command = Workspace::at(Path::new(".")).cargo();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(removed.iter().any(|(removed, _)| *removed == name), "{removed:?}");
        }
    }

    #[test]
    fn cargo_lists_xtask_among_the_members() {
        let metadata = Workspace::find().unwrap().metadata().unwrap();
        assert!(metadata.packages.iter().any(|package| package.name == "xtask"));
    }
}
