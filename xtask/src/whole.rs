//! Files that are there whole, or as they were before: figures take an hour to measure, and a README
//! cannot be measured again.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Writes the file anew.
///
/// # Errors
/// When the file, or the one that takes its place, cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    // Beside it: a rename is one step only within a file system.
    let mut name = OsString::from(path);
    name.push(".partial");
    let partial = PathBuf::from(name);
    let write = || {
        let mut file = File::create(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| {
        // Best effort: the error on its way to the user matters more.
        drop(fs::remove_file(&partial));
        Error::file("write", path)(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_the_old() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("stages.json");
        write(&path, "old").unwrap();
        // The place of the new one is taken, by what no file can be written to.
        fs::create_dir(temp.path().join("stages.json.partial")).unwrap();
        assert!(write(&path, "new").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::remove_dir(temp.path().join("stages.json.partial")).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing else stays");
    }
}
