//! [`WholeFile`]: a file that is there complete under its name, or not at all.
//!
//! It is written beside its place, as `.NAME.partial-…`, synced, and renamed; the folder is synced
//! too, since the name is the folder's. Whoever writes one holds its lock, and a lock ends with its
//! process: what a killed process left behind is told from what a living one writes by asking for
//! the lock, not by a process number, which means nothing in another container. The next file of
//! the same name removes it. Where the file system has no locks, nothing is removed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Separates the name of a file from what makes that of its partial file unique.
pub(crate) const PARTIAL: &str = ".partial-";

/// A file that is being written. Dropped before [`WholeFile::commit`], it leaves nothing.
///
/// ```
/// use millstream_data::WholeFile;
/// use std::io::Write;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("report.json");
/// let mut file = WholeFile::create(&path)?;
/// file.write_all(b"{}")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl WholeFile {
    /// Starts a file beside its place, which is not touched, and removes what killed processes left
    /// of earlier ones.
    ///
    /// # Errors
    /// The folder is missing or cannot be written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "this is not the name of a file"));
        };
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(PARTIAL);
        let folder = folder_of(path);
        remove_files(folder, |name| name.starts_with(prefix.as_encoded_bytes()));
        loop {
            let mut name = prefix.clone();
            name.push(format!("{:016x}", RandomState::new().hash_one(0)));
            let partial = folder.join(name);
            let file =
                match OpenOptions::new().read(true).write(true).create_new(true).open(&partial) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                    opened => opened?,
                };
            // Somebody who clears up may have had the lock first; then the name is gone.
            let ours = match file.try_lock() {
                Ok(()) | Err(TryLockError::Error(_)) => is_at(&file, &partial),
                Err(TryLockError::WouldBlock) => false,
            };
            if ours {
                return Ok(WholeFile { path: path.to_owned(), partial, file });
            }
        }
    }

    /// Waits until the file is on the disk and gives it its name, in place of what had it.
    ///
    /// # Errors
    /// It could not be synced or renamed; the file is removed, and what had its name stays.
    pub fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.partial, &self.path)?;
        sync_folder(folder_of(&self.path))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // After the rename there is nothing of this name; what cannot be removed says by its name
        // that it is incomplete, and the next file removes it.
        drop(fs::remove_file(&self.partial));
    }
}

/// Writes a whole file at once.
///
/// # Errors
/// As for [`WholeFile::create`] and [`WholeFile::commit`], or the bytes could not be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

/// Waits until the names in a folder are on the disk.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder that a file's name is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Removes what killed processes left of any file of this folder. Whatever cannot be removed stays:
/// it is somebody else's, and no reason not to go on.
pub fn remove_leftovers(folder: &Path) {
    remove_files(folder, is_partial);
}

/// Whether there is a partial file in this folder, of a living process or a dead one.
#[must_use]
pub fn has_partial_files(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| is_partial(entry.file_name().as_encoded_bytes()))
}

fn is_partial(name: &[u8]) -> bool {
    name.starts_with(b".") && name.windows(PARTIAL.len()).any(|part| part == PARTIAL.as_bytes())
}

/// Removes partial files of such names that nobody writes any more.
fn remove_files(folder: &Path, is_meant: impl Fn(&[u8]) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_meant = is_meant(entry.file_name().as_encoded_bytes());
        // A pipe of that name would keep us waiting.
        if !is_meant || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && is_at(&file, &path) {
            drop(fs::remove_file(&path));
        }
    }
}

/// Whether this is the file that has the name now: a lock on one that was renamed or removed since it
/// was opened protects nothing.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata().map(identity), fs::metadata(path).map(identity)) {
        (Ok(file), Ok(there)) => file == there,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_dropped_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_whole(&path, b"one").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(file);
        assert_eq!(names(folder.path()), ["a.json"]);
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_and_files_of_the_living_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(folder.path().join(".a.json.partial-1"), b"half").unwrap();
        fs::create_dir(folder.path().join(".a.json.partial-folder")).unwrap();
        fs::write(folder.path().join(".b.json.partial-1"), b"of another file").unwrap();
        let first = WholeFile::create(&path).unwrap();
        let second = WholeFile::create(&path).unwrap();
        assert!(!folder.path().join(".a.json.partial-1").exists());
        assert!(first.partial.exists() && second.partial.exists());
        second.commit().unwrap();
        first.commit().unwrap();
        assert_eq!(names(folder.path()), [".a.json.partial-folder", ".b.json.partial-1", "a.json"]);
        assert!(has_partial_files(folder.path()));
        let third = WholeFile::create(&path).unwrap();
        remove_leftovers(folder.path());
        assert!(third.partial.exists());
        drop(third);
        assert_eq!(names(folder.path()), [".a.json.partial-folder", "a.json"]);
    }

    #[test]
    fn a_place_that_cannot_be_taken_is_an_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::create_dir_all(path.join("full")).unwrap();
        write_whole(&path, b"one").unwrap_err();
        assert_eq!(names(folder.path()), ["a.json"]);
        write_whole(&folder.path().join("missing/a.json"), b"one").unwrap_err();
        write_whole(Path::new("/"), b"one").unwrap_err();
    }
}
