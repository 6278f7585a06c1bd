//! [`RunLock`]: one process at a time writes into a run folder.
//!
//! The lock is one of the system on the file `run.lock`, so it ends with its process, however that
//! ends, and holds between containers that share the folder but not their process numbers. What
//! stands in the file is only for people: who holds it. The file goes when the lock is given back.
//!
//! Forecasting needs no lock: it reads a checkpoint, which is replaced whole. It only clears up
//! where nobody is at work ([`clear_leftovers`]).

use crate::{checkpoint::Checkpoints, error::TrainError, state::Position};
use millstream_data::{TimeKind, has_partial_files, is_at, make_folder, remove_leftovers};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The lock's name in its run folder.
const FILE: &str = "run.lock";

/// As much of the file as is shown of its holder, in bytes.
const SHOWN: u64 = 300;

/// The right to write into a run folder. Clones share it; it is given back when the last is gone.
#[derive(Debug, Clone)]
pub struct RunLock(Arc<Held>);

#[derive(Debug)]
struct Held {
    run_dir: PathBuf,
    file: File,
    /// Why the lock keeps nobody out; `None` where it does.
    powerless: Option<io::Error>,
    /// Whether the folder was made for this lock: then it goes again if it stays empty.
    made: bool,
}

/// What came of asking for the lock.
enum Asked {
    Held(File, Option<io::Error>),
    /// Somebody else has it, who wrote this.
    Taken(String),
}

impl RunLock {
    /// Takes the lock of a run that is there. `command` is what others are told is at work; it must
    /// hold no password.
    ///
    /// # Errors
    /// [`TrainError::InUse`] when somebody else has it, [`TrainError::NoCheckpoint`] when there is
    /// no such folder, [`TrainError::Write`] when it cannot be written to.
    pub fn take(run_dir: &Path, command: &str) -> Result<Self, TrainError> {
        if !run_dir.is_dir() {
            return Err(TrainError::NoCheckpoint { path: Checkpoints::last(run_dir) });
        }
        RunLock::take_at(run_dir, command, false)
    }

    /// The same for a new run, whose folder is made if need be.
    ///
    /// # Errors
    /// [`TrainError::InUse`] or [`TrainError::Write`].
    pub fn take_new(run_dir: &Path, command: &str) -> Result<Self, TrainError> {
        let made = !run_dir.exists();
        make_folder(run_dir)
            .map_err(|source| TrainError::Write { path: run_dir.to_owned(), source })?;
        RunLock::take_at(run_dir, command, made)
    }

    fn take_at(run_dir: &Path, command: &str, made: bool) -> Result<Self, TrainError> {
        let writing = |source| TrainError::Write { path: run_dir.join(FILE), source };
        // Whoever clears up holds the lock for a moment, and the folder's with it. We wait for that,
        // so as not to be refused for a moment's sake. Without such locks there is no such moment.
        let folder = File::open(run_dir).map_err(writing)?;
        drop(folder.lock());
        match ask(run_dir).map_err(writing)? {
            Asked::Taken(holder) => {
                Err(TrainError::InUse { path: run_dir.to_owned(), holder: known(&holder) })
            }
            Asked::Held(mut file, powerless) => {
                // Only people read this, and they do without where it cannot be written.
                drop(file.set_len(0).and_then(|()| file.write_all(note(command).as_bytes())));
                let run_dir = run_dir.to_owned();
                Ok(RunLock(Arc::new(Held { run_dir, file, powerless, made })))
            }
        }
    }

    /// The run folder.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.0.run_dir
    }

    /// What a person should know: that this lock keeps nobody out, on a file system without locks.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let reason = self.0.powerless.as_ref()?;
        let run = self.0.run_dir.display();
        Some(format!(
            "{run} is on a file system without locks ({reason}): no second process may write there"
        ))
    }

    /// Where the run goes on, once what a killed process left has been cleared up.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`] when there is none, or that its state cannot be read.
    pub fn position(&self) -> Result<Position, TrainError> {
        let checkpoints = Checkpoints::new(self.run_dir());
        checkpoints.recover()?;
        remove_leftovers(self.run_dir());
        Ok(checkpoints.open_last()?.state()?.at())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // While the lock is held: whoever opened the file before finds that it has lost its name.
        let path = self.run_dir.join(FILE);
        if is_at(&self.file, &path) {
            drop(fs::remove_file(path));
        }
        if self.made {
            // Only an empty folder can be removed.
            drop(fs::remove_dir(&self.run_dir));
        }
    }
}

/// Removes what a killed process left in a run folder, unless somebody is at work there. It is done
/// as well as possible: a reader has no business failing over it.
pub fn clear_leftovers(run_dir: &Path) {
    let checkpoints = Checkpoints::new(run_dir);
    let is_clear = !run_dir.join(FILE).exists()
        && !has_partial_files(run_dir)
        && !checkpoints.have_leftovers();
    if is_clear {
        return;
    }
    let Ok(folder) = File::open(run_dir) else { return };
    if folder.try_lock().is_err() {
        return;
    }
    if let Ok(Asked::Held(file, None)) = ask(run_dir) {
        let (run_dir, powerless, made) = (run_dir.to_owned(), None, false);
        let lock = Held { run_dir, file, powerless, made };
        // A checkpoint that cannot be put back is found where it is.
        drop(checkpoints.put_back());
        remove_leftovers(&lock.run_dir);
    }
}

/// Asks for the lock once.
fn ask(run_dir: &Path) -> io::Result<Asked> {
    let path = run_dir.join(FILE);
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let powerless = match file.try_lock() {
            Ok(()) => None,
            Err(TryLockError::Error(error)) => Some(error),
            Err(TryLockError::WouldBlock) => {
                let mut holder = Vec::new();
                (&file).take(SHOWN).read_to_end(&mut holder)?;
                return Ok(Asked::Taken(String::from_utf8_lossy(&holder).into_owned()));
            }
        };
        // The one who had it before may have removed the file meanwhile.
        if is_at(&file, &path) {
            return Ok(Asked::Held(file, powerless));
        }
    }
}

/// A holder as others are told of him.
fn known(note: &str) -> String {
    let line: String = note.chars().filter(|c| !c.is_control()).collect();
    if line.is_empty() { "another process".to_owned() } else { line }
}

/// What the holder writes about himself.
fn note(command: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = TimeKind::Timestamp.format(i64::try_from(now.as_micros()).unwrap_or(i64::MAX));
    let since = since.split('.').next().unwrap_or_default();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "an unknown host" } else { host.trim() };
    format!("{command} (process {} on {host}, since {since} UTC)\n", std::process::id())
}

/// The program by its name; its flags may hold passwords.
pub(crate) fn program() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "a program".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let run = tempfile::tempdir().unwrap();
        let first = RunLock::take(run.path(), "millstream train").unwrap();
        let again = first.clone();
        drop(first);
        let error = RunLock::take(run.path(), "b").unwrap_err().to_string();
        let place = run.path().display();
        let expected = format!("{place} is in use by millstream train (process ");
        assert!(error.starts_with(&expected), "{error}");
        let process = std::process::id().to_string();
        assert!(error.contains(&process) && error.contains(", since 20"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        drop(again);
        drop(RunLock::take(run.path(), "b").unwrap());
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn what_a_killed_holder_left_locks_nobody_out() {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join(FILE), "millstream train (process 1 on here)\n").unwrap();
        let lock = RunLock::take(run.path(), "b").unwrap();
        let note = fs::read_to_string(run.path().join(FILE)).unwrap();
        assert!(note.starts_with("b (process "), "{note}");
        assert!(lock.warning().is_none());
        clear_leftovers(run.path());
        assert!(run.path().join(FILE).exists(), "somebody is at work");
        drop(lock);
        fs::write(run.path().join(FILE), "").unwrap();
        fs::write(run.path().join(".report.json.partial-1"), "").unwrap();
        fs::create_dir_all(run.path().join("checkpoints/.best.old")).unwrap();
        fs::create_dir_all(run.path().join("checkpoints/.last.partial-1")).unwrap();
        clear_leftovers(run.path());
        let left = |folder: &str| fs::read_dir(run.path().join(folder)).unwrap().count();
        assert_eq!((left(""), left("checkpoints")), (1, 1), "the checkpoint is back");
        assert!(run.path().join("checkpoints/best").is_dir());
    }

    /// Eight threads as eight processes: a lock is that of an opened file.
    #[test]
    fn of_many_one_has_it_and_nobody_who_clears_up_is_in_the_way() {
        let run = tempfile::tempdir().unwrap();
        let (held, rounds) = (std::sync::atomic::AtomicUsize::new(0), 200);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        if let Ok(lock) = RunLock::take(run.path(), "a") {
                            use std::sync::atomic::Ordering::SeqCst;
                            assert_eq!(held.fetch_add(1, SeqCst), 0, "two at a time");
                            held.fetch_sub(1, SeqCst);
                            drop(lock);
                        }
                        clear_leftovers(run.path());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
        // Alone among those who only clear up, it is always had.
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        fs::write(run.path().join(".x.partial-1"), "").unwrap();
                        clear_leftovers(run.path());
                    }
                });
            }
            for _ in 0..rounds {
                drop(RunLock::take(run.path(), "a").unwrap());
            }
        });
    }

    #[test]
    fn a_folder_that_was_made_for_nothing_goes_again() {
        let parent = tempfile::tempdir().unwrap();
        let run = parent.path().join("runs/one");
        let error = RunLock::take(&run, "a").unwrap_err();
        assert!(matches!(error, TrainError::NoCheckpoint { .. }), "{error:?}");
        drop(RunLock::take_new(&run, "a").unwrap());
        assert!(!run.exists());
        let lock = RunLock::take_new(&run, "a").unwrap();
        fs::write(run.join("x"), "").unwrap();
        drop(lock);
        assert!(run.join("x").exists() && !run.join(FILE).exists());
    }
}
