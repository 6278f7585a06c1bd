//! Who uses a folder of the cache: told by locks, not by process numbers.
//!
//! Every folder holds a file `lock`. Whoever writes a folder, under a name of its own, holds that
//! lock alone; whoever has mapped the files of one shares it, for as long as the mapping lives. A
//! lock ends with its process, on whatever machine or in whatever container that ran, so a folder
//! whose lock can be had is nobody's.
//!
//! The file `.lock` of the cache itself is held alone while folders are made or renamed, and shared
//! by those who find no folder, to look again: for a few system calls, never while rows are read or
//! written. Where the file system has no locks, everything works, but nothing is cleaned up.

use millstream_data::plain_file;
use std::{
    fs::{self, DirEntry, File, OpenOptions, TryLockError},
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The lock of a folder.
const LOCK: &str = "lock";

/// The lock of the cache.
const CACHE_LOCK: &str = ".lock";

/// Separates a key from what makes the name of a folder unique.
const PARTIAL: &str = ".partial-";

/// When a folder without a lock, from an older version, has been left behind.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder that is being written, removed on drop if it still has its name.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    lock: Arc<File>,
}

impl Partial {
    /// Makes an empty folder for a key, in a cache that is there, and removes what others have left
    /// behind.
    pub(crate) fn reserve(root: &Path, key: &str) -> io::Result<Self> {
        let cache = lock_cache(root)?;
        // Without a lock nobody can be told from somebody.
        let abandoned = if cache.is_some() { claim_abandoned(root) } else { Vec::new() };
        let path = loop {
            let path = unused_name(root, key);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => break made.map(|()| path)?,
            }
        };
        let lock = File::create_new(path.join(LOCK))?;
        // Where there are no locks, nobody else can have this one either.
        let _ = lock.try_lock();
        drop(cache);
        for folder in abandoned {
            folder.remove();
        }
        Ok(Partial { path, lock: Arc::new(lock) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Shares the folder from now on: its files will not change any more.
    pub(crate) fn share(&self, root: &Path) -> io::Result<Shared> {
        // The system lets go of a lock for a moment when it is to be shared. Whoever looks for
        // folders that were left behind must not find this one just then, and does so under the
        // lock of the cache.
        let _cache = lock_cache(root)?;
        // A lock that one has alone can be shared at once.
        let _ = self.lock.try_lock_shared();
        Ok(Shared { lock: Arc::clone(&self.lock) })
    }

    /// Gives the folder the name of its key, unless `keep` says that the one which is there should
    /// stay; says whether it did. What was there is removed when nobody uses it any more.
    pub(crate) fn publish(
        &self,
        root: &Path,
        key: &str,
        keep: impl Fn(&Path) -> bool,
    ) -> io::Result<bool> {
        let folder = root.join(key);
        let cache = lock_cache(root)?;
        if keep(&folder) {
            return Ok(false);
        }
        let retired = unused_name(root, key);
        let replace = || -> io::Result<()> {
            match fs::rename(&folder, &retired) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => fs::rename(&self.path, &folder),
            }
        };
        // Without a lock another one may get between the two renames; then that is replaced.
        let mut result = replace();
        for _ in 0..3 {
            if result.is_ok() || !folder.exists() {
                break;
            }
            result = replace();
        }
        drop(cache);
        if let Some(retired) = Claimed::take(retired) {
            retired.remove();
        }
        result.and_then(|()| sync(root)).map(|()| true)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; and what cannot be removed now is removed as
        // abandoned later, so a failure here is not worth hiding the first one.
        let _ = remove_folder(&self.path);
    }
}

/// A share in a folder whose files are in use; it is not removed as long as this lives.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    lock: Arc<File>,
}

/// What came of looking for a folder.
pub(crate) enum Found {
    Folder(Shared),
    /// There is none.
    Nothing,
    /// Somebody is replacing it: look again.
    Moving,
}

impl Shared {
    /// Takes a share in the folder of a key.
    pub(crate) fn find(root: &Path, key: &str) -> io::Result<Found> {
        let path = root.join(key).join(LOCK);
        let lock = match plain_file::open(&path) {
            Ok(lock) => lock,
            Err(error) if is_absent(&error) => {
                // Between two renames there is no folder: whoever is there holds the lock.
                let cache = share_cache(root)?;
                let found = cache.is_some() && path.exists();
                return Ok(if found { Found::Moving } else { Found::Nothing });
            }
            Err(error) => return Err(in_the_way(LOCK, error)),
        };
        Ok(match lock.try_lock_shared() {
            // Whoever removes a folder has its lock alone.
            Err(TryLockError::WouldBlock) => Found::Moving,
            Ok(()) | Err(TryLockError::Error(_)) => Found::Folder(Shared { lock: Arc::new(lock) }),
        })
    }

    /// Whether this is still the folder of the key, and not one that was replaced meanwhile.
    pub(crate) fn is_current(&self, root: &Path, key: &str) -> bool {
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let here = self.lock.metadata().map(identity);
        let there = fs::metadata(root.join(key).join(LOCK)).map(identity);
        matches!((here, there), (Ok(here), Ok(there)) if here == there)
    }
}

/// A folder that nobody uses, and nobody else can remove.
struct Claimed {
    path: PathBuf,
    /// `None` for a folder of an older version, which has no lock.
    _lock: Option<File>,
}

impl Claimed {
    /// Claims a folder that is no longer, or not yet, that of its key.
    fn take(path: PathBuf) -> Option<Self> {
        match plain_file::open(&path.join(LOCK)) {
            Ok(lock) => lock.try_lock().ok().map(|()| Claimed { path, _lock: Some(lock) }),
            // Without a file there is nobody who could hold its lock.
            Err(error) if error.kind() == ErrorKind::NotFound || plain_file::is_refused(&error) => {
                path.exists().then_some(Claimed { path, _lock: None })
            }
            Err(_) => None,
        }
    }

    /// Removes it. What cannot be removed, since it is somebody else's, stays.
    fn remove(self) {
        match remove_folder(&self.path) {
            Ok(()) => tracing::debug!(path = ?self.path, "removed a cache folder that nobody uses"),
            Err(error) => {
                tracing::debug!(path = ?self.path, %error, "cannot remove a cache folder");
            }
        }
    }
}

/// Removes a folder, its lock last: what is left when that fails half-way can still be claimed.
fn remove_folder(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    match fs::remove_file(path.join(LOCK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir(path),
    }
}

/// Claims the folders that were left behind.
fn claim_abandoned(root: &Path) -> Vec<Claimed> {
    let is_partial =
        |entry: &DirEntry| entry.file_name().to_str().is_some_and(|name| name.contains(PARTIAL));
    let is_old = |path: &Path| {
        let changed = fs::metadata(path).and_then(|meta| meta.modified());
        let age = changed.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age > ABANDONED)
    };
    let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_none());
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let folders = entries.filter(is_partial).map(|entry| entry.path());
    // Without a lock it is of a version that had none, and may be in use; an empty one has lost its
    // lock, or never got it, since folders are made under the lock of the cache.
    folders
        .filter(|path| path.join(LOCK).is_file() || is_empty(path) || is_old(path))
        .filter_map(Claimed::take)
        .collect()
}

/// A name that no other process uses, in whatever container.
fn unused_name(root: &Path, key: &str) -> PathBuf {
    // Keyed by random bytes of the system.
    let random = RandomState::new().hash_one(key);
    root.join(format!("{key}{PARTIAL}{random:016x}"))
}

/// Waits for the lock of the cache and holds it alone; `None` where it cannot be had.
fn lock_cache(root: &Path) -> io::Result<Option<File>> {
    let file =
        open_lock(OpenOptions::new().read(true).write(true).create(true).truncate(false), root)?;
    // Somebody else's file will do.
    let file = match file {
        Some(file) => Some(file),
        None => open_lock(OpenOptions::new().read(true), root)?,
    };
    Ok(file.and_then(|file| file.lock().ok().map(|()| file)))
}

/// Waits for the lock of the cache and shares it; `None` where it cannot be had.
fn share_cache(root: &Path) -> io::Result<Option<File>> {
    let file = open_lock(OpenOptions::new().read(true), root)?;
    Ok(file.and_then(|file| file.lock_shared().ok().map(|()| file)))
}

/// Opens the lock of the cache; `None` where that is not allowed, or it is not there.
fn open_lock(options: &mut OpenOptions, root: &Path) -> io::Result<Option<File>> {
    match plain_file::open_with(options, &root.join(CACHE_LOCK)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if plain_file::is_refused(&error) => Err(in_the_way(CACHE_LOCK, error)),
        Err(_) => Ok(None),
    }
}

/// Names a lock in whose place there is something else.
fn in_the_way(lock: &str, error: io::Error) -> io::Error {
    match plain_file::is_refused(&error) {
        true => io::Error::new(error.kind(), format!("{lock} is in the way: {error}")),
        false => error,
    }
}

/// A rename or a new file is on disk only when its folder is.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Without a folder there is nothing in it either; writing one will say what is in its place.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != CACHE_LOCK);
        names.sort();
        names
    }

    fn found(root: &Path) -> Option<Shared> {
        match Shared::find(root, "k").unwrap() {
            Found::Folder(shared) => Some(shared),
            Found::Nothing | Found::Moving => None,
        }
    }

    #[test]
    fn a_replaced_folder_stays_for_those_who_share_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let publish = || {
            let partial = Partial::reserve(root, "k").unwrap();
            let shared = partial.share(root).unwrap();
            assert!(partial.publish(root, "k", |_| false).unwrap());
            shared
        };
        assert!(found(root).is_none());
        let writer = publish();
        let reader = found(root).unwrap();
        drop(writer);
        assert!(reader.is_current(root, "k"));
        let second = publish();
        assert!(!reader.is_current(root, "k") && second.is_current(root, "k"));
        assert_eq!(names(root).len(), 2, "the reader's folder is still there");
        drop(reader);
        drop(second);
        publish();
        assert_eq!(names(root), ["k"], "and goes with the next that is reserved");
    }

    #[test]
    fn a_folder_that_should_stay_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let partial = Partial::reserve(root, "k").unwrap();
        assert!(!partial.publish(root, "k", |folder| folder.ends_with("k")).unwrap());
        drop(partial);
        assert!(names(root).is_empty());
    }

    #[test]
    fn two_who_reserve_at_once_have_two_folders() {
        let dir = tempfile::tempdir().unwrap();
        let partials = [(); 20].map(|()| Partial::reserve(dir.path(), "k").unwrap());
        assert_eq!(names(dir.path()).len(), partials.len());
    }
}
