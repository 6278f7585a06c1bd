//! Runs that were killed before they saved anything: the next run removes their folders.
//!
//! Such a folder is told by its name, which a person would not give, by what is in it, which is
//! nothing but what a run writes before its first checkpoint, and by its lock, which is nobody's.

use crate::{
    backtest::folder::{BACKTEST, BACKTEST_NAME, fold_folders},
    runs,
    unsaved::UNSAVED,
};
use millstream_trainer::RunLock;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// What a run writes before its first checkpoint.
const FILES: [&str; 6] =
    ["run.lock", "config.toml", "run.json", "checksums.txt", "metrics.jsonl", "trace.json"];

/// How the files for TensorBoard begin.
const EVENTS: &str = "events.out.tfevents.";

/// Ends the name of a run of which nothing is kept.
const DISCARDED: &str = ".trial";

/// The name of a run of which nothing is kept, made of a name that a run gives itself.
pub(crate) fn to_discard(name: &str) -> String {
    format!(".{name}{DISCARDED}")
}

/// Removes the dead runs of a folder, which the caller has locked: a run that is being made would look
/// like one until it has its own lock. What cannot be removed stays; it is in nobody's way.
pub(crate) fn remove(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let run = entry.path();
        if !looks_dead(&run) {
            continue;
        }
        let Ok(lock) = RunLock::take(&run, "millstream, clearing up") else { continue };
        // Whoever held the lock until now may have saved something in the last moment.
        if lock.warning().is_none() && looks_dead(&run) {
            drop(fs::remove_dir_all(&run));
        }
    }
}

fn looks_dead(run: &Path) -> bool {
    let Some(name) = run.file_name().and_then(OsStr::to_str) else { return false };
    let hidden = |end: &str| name.strip_prefix('.').and_then(|name| name.strip_suffix(end));
    if is_discarded(name) || hidden(UNSAVED).is_some_and(is_discarded) {
        return true;
    }
    // One that `unsaved.rs` had begun to remove.
    let name = hidden(UNSAVED).unwrap_or(name);
    runs::is_name(name) && is_all_early(run)
        || name.strip_prefix(BACKTEST_NAME).is_some_and(runs::is_name) && is_early_backtest(run)
}

/// Whether nothing is in a folder but what a run writes before its first checkpoint.
fn is_all_early(run: &Path) -> bool {
    entries(run).is_some_and(|entries| entries.iter().all(|entry| is_early(entry)))
}

/// The same of a backtest, in the folder of its first fold too.
fn is_early_backtest(path: &Path) -> bool {
    let folds = fold_folders(path);
    let is_note = |entry: &Path| entry.file_name().is_some_and(|name| name == BACKTEST);
    folds.iter().all(|fold| is_all_early(fold))
        && entries(path).is_some_and(|entries| {
            entries.iter().all(|e| is_early(e) || is_note(e) || folds.contains(e))
        })
}

fn is_discarded(name: &str) -> bool {
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(DISCARDED));
    name.is_some_and(runs::is_name)
}

/// Whether a run that has saved nothing may have left this.
fn is_early(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            FILES.contains(&name) || name.starts_with(EVENTS) || is_partial(name)
        }
        Ok(found) if found.is_dir() && name == "checkpoints" => {
            let inside = entries(path).unwrap_or_else(|| vec![path.to_owned()]);
            inside
                .iter()
                .all(|path| path.file_name().and_then(OsStr::to_str).is_some_and(is_partial))
        }
        _ => false,
    }
}

fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.contains(".partial-")
}

/// `None` where the folder cannot be read.
fn entries(folder: &Path) -> Option<Vec<PathBuf>> {
    fs::read_dir(folder).ok()?.map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(make: impl Fn(&Path), name: &str, goes: bool) {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join(name);
        fs::create_dir(&run).unwrap();
        make(&run);
        remove(dir.path());
        assert_eq!(run.exists(), !goes, "{name}");
        if !goes {
            assert!(!run.join("run.lock").exists());
        }
    }

    const NAME: &str = "2026-11-17_22-38-51";

    #[test]
    fn what_a_killed_run_left_goes() {
        check(|_| {}, NAME, true);
        check(|_| {}, "2026-11-17_22-38-51-2", true);
        check(|_| {}, ".2026-11-17_22-38-51.unsaved", true);
        let early = |run: &Path| {
            FILES.iter().for_each(|name| fs::write(run.join(name), "").unwrap());
            fs::write(run.join(".config.toml.partial-12"), "").unwrap();
            fs::write(run.join("events.out.tfevents.1.millstream"), "").unwrap();
            fs::create_dir_all(run.join("checkpoints/.best.partial-34")).unwrap();
        };
        check(early, NAME, true);
    }

    #[test]
    fn what_a_killed_backtest_left_goes_unless_a_fold_has_saved_something() {
        let begun = |path: &Path| {
            fs::write(path.join(BACKTEST), "").unwrap();
            fs::write(path.join("config.toml"), "").unwrap();
            fs::create_dir_all(path.join("fold-1/checkpoints/.best.partial-34")).unwrap();
            fs::write(path.join("fold-1/metrics.jsonl"), "").unwrap();
        };
        check(begun, &format!("{BACKTEST_NAME}{NAME}"), true);
        check(begun, &format!(".{BACKTEST_NAME}{NAME}{UNSAVED}"), true);
        check(begun, "backtest-mine", false);
        check(begun, NAME, false);
        let saved = |path: &Path| {
            begun(path);
            fs::create_dir(path.join("fold-1/checkpoints/last")).unwrap();
        };
        check(saved, &format!("{BACKTEST_NAME}{NAME}"), false);
    }

    #[test]
    fn what_a_killed_trial_left_goes_whatever_it_is() {
        let trained = |run: &Path| fs::create_dir_all(run.join("checkpoints/best")).unwrap();
        check(trained, &to_discard(NAME), true);
        check(trained, &format!(".{}{UNSAVED}", to_discard(NAME)), true);
        check(trained, &to_discard("mine"), false);
    }

    #[test]
    fn whatever_else_there_is_stays() {
        check(|_| {}, "mine", false);
        check(|run| fs::create_dir_all(run.join("checkpoints/best")).unwrap(), NAME, false);
        check(|run| fs::create_dir_all(run.join("checkpoints/.last.old")).unwrap(), NAME, false);
        check(|run| fs::write(run.join("notes.txt"), "").unwrap(), NAME, false);
        check(|run| fs::write(run.join("predictions.parquet"), "").unwrap(), NAME, false);
    }

    #[test]
    fn a_run_that_somebody_works_in_stays() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join(NAME);
        fs::create_dir(&run).unwrap();
        let lock = RunLock::take(&run, "a test").unwrap();
        remove(dir.path());
        assert!(run.exists());
        drop(lock);
        remove(dir.path());
        assert!(!run.exists());
    }
}
