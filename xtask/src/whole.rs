//! Files that are there whole, or as they were before: figures take an hour to measure, and a README
//! cannot be measured again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Writes the file anew.
///
/// # Errors
/// When the file, or the one that takes its place, cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    // Beside it: a rename is one step only within a file system.
    let mut name = OsString::from(path);
    name.push(".new");
    let new = PathBuf::from(name);
    fs::write(&new, text).map_err(Error::file("write", &new))?;
    fs::rename(&new, path).map_err(Error::file("write", path))
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
        fs::create_dir(temp.path().join("stages.json.new")).unwrap();
        assert!(write(&path, "new").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::remove_dir(temp.path().join("stages.json.new")).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing else stays");
    }
}
