//! Removing the directory of a run that has kept nothing, beside a thread that may be writing to it.
//!
//! It takes another name first: from then on nothing can be added to it by its name, and what is in
//! it can be looked at. A run that got its first checkpoint in the last moment gets its name back.

use crate::backtest::folder::fold_folders;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// Ends the name of a run that is being removed.
pub(crate) const UNSAVED: &str = ".unsaved";

/// The folder of a new run, which goes while nothing is saved in it. For programs that end without
/// dropping what they have.
#[derive(Debug)]
pub struct UnsavedRun {
    path: PathBuf,
    /// Whether the folder of all runs was made for it.
    is_first: bool,
    /// Whether it goes with its checkpoints.
    discard: bool,
}

impl UnsavedRun {
    pub(crate) fn new(path: &Path, is_first: bool) -> Self {
        UnsavedRun { path: path.to_owned(), is_first, discard: false }
    }

    /// A run of which nothing is kept.
    pub(crate) fn to_discard(path: &Path, is_first: bool) -> Self {
        UnsavedRun { path: path.to_owned(), is_first, discard: true }
    }

    /// Removes the run, unless it has a checkpoint that is to be kept. Best effort: this runs while the process ends.
    pub fn remove(&self) {
        let (run, Some(name)) = (&self.path, self.path.file_name()) else { return };
        let is_kept = |run: &Path| !self.discard && has_checkpoint(run);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(UNSAVED);
        let hidden = run.with_file_name(hidden);
        if is_kept(run) || fs::rename(run, &hidden).is_err() {
            return;
        }
        if is_kept(&hidden) {
            drop(fs::rename(&hidden, run));
            return;
        }
        drop(fs::remove_dir_all(&hidden));
        if let (true, Some(runs)) = (self.is_first, run.parent()) {
            // It goes only when it is empty.
            drop(fs::remove_dir(runs));
        }
    }
}

/// Whether a run has one, or a fold of a backtest.
fn has_checkpoint(run: &Path) -> bool {
    let folds = fold_folders(run);
    has_own(run) || folds.iter().any(|fold| has_own(fold))
}

fn has_own(run: &Path) -> bool {
    let folder = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let is_whole = |name: OsString| !name.to_string_lossy().contains(".partial");
    folder.map(|entry| entry.file_name()).any(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_unless_it_has_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("runs/2026");
        fs::create_dir_all(run.join("checkpoints/.last.partial")).unwrap();
        fs::write(run.join("config.toml"), "").unwrap();
        fs::create_dir(run.join("checkpoints/best")).unwrap();
        let new = UnsavedRun::new(&run, true);
        new.remove();
        assert!(run.join("config.toml").exists(), "a run with a checkpoint was removed");
        fs::remove_dir(run.join("checkpoints/best")).unwrap();
        new.remove();
        assert!(!folder.path().join("runs").exists(), "something was left");
        new.remove();
    }

    #[test]
    fn a_backtest_goes_unless_a_fold_has_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let backtest = folder.path().join("runs/backtest");
        fs::create_dir_all(backtest.join("fold-2/checkpoints/best")).unwrap();
        let new = UnsavedRun::new(&backtest, false);
        new.remove();
        assert!(backtest.exists(), "a fold with a checkpoint was removed");
        fs::remove_dir(backtest.join("fold-2/checkpoints/best")).unwrap();
        new.remove();
        assert!(!backtest.exists());
    }

    #[test]
    fn a_run_to_discard_goes_with_its_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("runs/.2026.trial");
        fs::create_dir_all(run.join("checkpoints/best")).unwrap();
        UnsavedRun::to_discard(&run, true).remove();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("runs/one");
        fs::create_dir_all(&run).unwrap();
        UnsavedRun::new(&run, false).remove();
        assert!(!run.exists() && run.parent().unwrap().exists());
    }
}
