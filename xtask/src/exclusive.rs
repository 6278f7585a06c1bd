//! One set-up at a time: a lock that lasts as long as the value, and dies with the process.
//!
//! It orders the set-ups of one user on one machine, in any number of clones. It does not order
//! builds, which only read what set-up renames into place.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use crate::error::Error;

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct Exclusive {
    _file: File,
}

impl Exclusive {
    /// Takes the lock file at `path`, waiting for whoever holds it.
    ///
    /// # Errors
    /// When the file cannot be made or the file system has no locks.
    pub(crate) fn acquire(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        }
        let file = File::create(path).map_err(Error::file("create", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("setup: waiting for another set-up on this machine");
                file.lock().map_err(Error::file("lock", path))?;
            }
            Err(TryLockError::Error(source)) => return Err(Error::file("lock", path)(source)),
        }
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn the_second_waits_until_the_first_is_done() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("cache/setup.lock");
        let first = Exclusive::acquire(&path).unwrap();
        let contender = File::open(&path).unwrap();
        assert!(matches!(contender.try_lock(), Err(TryLockError::WouldBlock)));

        let (entered, enters) = mpsc::channel();
        let second = thread::spawn({
            let path = path.clone();
            move || {
                let lock = Exclusive::acquire(&path).unwrap();
                entered.send("second").unwrap();
                drop(lock);
            }
        });
        assert!(enters.try_recv().is_err());
        drop(first);
        assert_eq!(enters.recv().unwrap(), "second");
        second.join().unwrap();
    }
}
