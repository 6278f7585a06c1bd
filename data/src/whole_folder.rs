//! A folder that is replaced whole: whoever reads finds the old one or the new one.
//!
//! The new folder is filled beside its place, as `.NAME.partial-…`, and then the two names are
//! exchanged. Where the file system cannot do that, the old folder is first set aside as
//! `.NAME.old`; between the two renames that is where a reader finds it, see [`folder_aside`].
//!
//! Unlike a file's, a folder's leftovers carry no lock of their own: only whoever knows that nobody
//! else is writing may call [`restore_folder`].

use crate::whole_file::{PARTIAL, sync_folder};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// A name beside `place` for a folder that is to replace it.
#[must_use]
pub fn partial_folder(place: &Path) -> PathBuf {
    beside(place, &format!("{PARTIAL}{:016x}", RandomState::new().hash_one(0)))
}

/// Where a folder is found while it is replaced on a file system that cannot exchange two names.
#[must_use]
pub fn folder_aside(place: &Path) -> PathBuf {
    beside(place, ".old")
}

/// Makes a folder and those above it, and waits until their names are on the disk.
///
/// # Errors
/// One cannot be made or synced.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    fs::create_dir_all(path)?;
    missing.iter().try_for_each(|made| sync_folder(folder_of(made)))
}

/// Puts a folder, whose files are on the disk, in place of another, which is removed.
///
/// # Errors
/// It cannot be renamed or synced. The folder that was there stays, at its place or, after
/// [`restore_folder`], again at its place.
pub fn replace_folder(new: &Path, place: &Path) -> io::Result<()> {
    if !place.exists() {
        fs::rename(new, place)?;
        return sync_folder(folder_of(place));
    }
    match renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return replace_aside(new, place),
        Err(error) => return Err(error.into()),
    }
    sync_folder(folder_of(place))?;
    // What was there has the other name now.
    remove(new);
    Ok(())
}

/// The same by two renames.
fn replace_aside(new: &Path, place: &Path) -> io::Result<()> {
    let old = folder_aside(place);
    if place.exists() {
        remove(&old);
        fs::rename(place, &old)?;
    }
    fs::rename(new, place)?;
    sync_folder(folder_of(place))?;
    remove(&old);
    Ok(())
}

/// Clears up after a writer that was killed: a folder that was set aside goes back to its place or,
/// where there is another, is removed; so is whatever was half written. Nobody else may be writing.
///
/// # Errors
/// The folder that was set aside cannot be put back. What cannot be removed is no error.
pub fn restore_folder(place: &Path) -> io::Result<()> {
    let old = folder_aside(place);
    if place.exists() {
        remove(&old);
    } else {
        match fs::rename(&old, place) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed.and_then(|()| sync_folder(folder_of(place)))?,
        }
    }
    let partial = beside(place, PARTIAL);
    let prefix = partial.file_name().unwrap_or_default().as_encoded_bytes();
    for entry in fs::read_dir(folder_of(place)).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// `.NAME` and this, beside the folder of that name.
fn beside(place: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(ending);
    place.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// What cannot be removed says by its name that it is nothing to read; the next writer tries again.
fn remove(folder: &Path) {
    drop(fs::remove_dir_all(folder));
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

    fn filled(place: &Path, text: &str) -> PathBuf {
        let partial = partial_folder(place);
        make_folder(&partial).unwrap();
        fs::write(partial.join("text"), text).unwrap();
        partial
    }

    #[test]
    fn the_old_folder_gives_way_in_either_manner() {
        for replace in [replace_folder, replace_aside] {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("best");
            for text in ["one", "two", "three"] {
                replace(&filled(&place, text), &place).unwrap();
                assert_eq!(fs::read_to_string(place.join("text")).unwrap(), text);
                assert_eq!(names(folder.path()), ["best"]);
            }
        }
    }

    /// Where names can be exchanged, there is no moment without the folder.
    #[test]
    fn a_reader_always_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("best");
        replace_folder(&filled(&place, "0"), &place).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut looks = 0u64;
                while looks == 0 || !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(place.is_dir() || folder_aside(&place).is_dir() || place.is_dir());
                    looks += 1;
                }
            });
            for number in 0..500 {
                replace_folder(&filled(&place, &number.to_string()), &place).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    #[test]
    fn what_a_killed_writer_left_is_put_back_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("last");
        filled(&place, "half");
        let old = folder_aside(&place);
        fs::create_dir(&old).unwrap();
        fs::write(old.join("text"), "old").unwrap();
        restore_folder(&place).unwrap();
        assert_eq!(fs::read_to_string(place.join("text")).unwrap(), "old");
        assert_eq!(names(folder.path()), ["last"]);

        // A crash after the second rename: the new one is there, and the old one is not wanted.
        fs::create_dir(&old).unwrap();
        fs::write(old.join("text"), "older").unwrap();
        restore_folder(&place).unwrap();
        assert_eq!(fs::read_to_string(place.join("text")).unwrap(), "old");
        assert_eq!(names(folder.path()), ["last"]);

        restore_folder(&folder.path().join("nothing")).unwrap();
        restore_folder(&folder.path().join("nowhere/last")).unwrap();
    }
}
