//! [`Checksums`]: whether the files of a folder are the ones that were written there.
//!
//! `checksums.txt` has a line a file, its xxh3-128 and its name, and a last line with the checksum
//! of the lines before it. That finds accidents (a bad disk, a half-copied folder), not forgeries.

use crate::plain_file;
use std::{
    collections::BTreeMap,
    fmt::Write,
    io,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_128;

/// What the last line has for a name.
const LINES_ABOVE: &str = "(the lines above)";

/// The checksums of the files of a folder.
///
/// ```
/// use millstream_data::Checksums;
///
/// let folder = std::env::temp_dir().join(format!("checksums-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let mut checksums = Checksums::default();
/// checksums.add("state.json", b"{}");
/// std::fs::write(folder.join("state.json"), b"{}")?;
/// std::fs::write(folder.join(Checksums::FILE), checksums.to_text())?;
///
/// let checksums = Checksums::read(&folder)?;
/// assert_eq!(checksums.read_file("state.json")?, b"{}");
/// std::fs::write(folder.join("state.json"), b"[]")?;
/// let error = checksums.read_file("state.json").unwrap_err().to_string();
/// assert!(error.ends_with("state.json is damaged: it is not what was written there"));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checksums {
    folder: PathBuf,
    files: BTreeMap<String, u128>,
}

/// Why a file is not what was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChecksumError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file has other bytes than were written.
    #[error("{} is damaged: it is not what was written there", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A file has no checksum.
    #[error("{} has no checksum for {name}", .path.display())]
    Unlisted {
        /// The list.
        path: PathBuf,
        /// The file that it misses.
        name: String,
    },
}

impl Checksums {
    /// The list's name in its folder.
    pub const FILE: &str = "checksums.txt";

    /// Reads a folder's list.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self, ChecksumError> {
        let path = folder.join(Self::FILE);
        let text = read(&path)?;
        let files = parse(&text).ok_or(ChecksumError::Damaged { path })?;
        Ok(Checksums { folder: folder.to_owned(), files })
    }

    /// Adds a file, or puts it in place of the one of that name.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        self.files.insert(name.to_owned(), xxh3_128(bytes));
    }

    /// The names in the list, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The list as it is written.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, checksum) in &self.files {
            push(&mut text, *checksum, name);
        }
        let guard = xxh3_128(text.as_bytes());
        push(&mut text, guard, LINES_ABOVE);
        text
    }

    /// The bytes of a file of the folder that was read.
    ///
    /// # Errors
    /// It is missing, damaged, or not in the list.
    pub fn read_file(&self, name: &str) -> Result<Vec<u8>, ChecksumError> {
        let path = self.folder.join(name);
        let Some(expected) = self.files.get(name) else {
            let (path, name) = (self.folder.join(Self::FILE), name.to_owned());
            return Err(ChecksumError::Unlisted { path, name });
        };
        let bytes = read(&path)?;
        if xxh3_128(&bytes) != *expected {
            return Err(ChecksumError::Damaged { path });
        }
        Ok(bytes)
    }

    /// Checks every file in the list.
    ///
    /// # Errors
    /// One is missing or damaged.
    pub fn verify(&self) -> Result<(), ChecksumError> {
        self.names().try_for_each(|name| self.read_file(name).map(drop))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ChecksumError> {
    plain_file::read(path).map_err(|source| ChecksumError::Read { path: path.to_owned(), source })
}

fn push(text: &mut String, checksum: u128, name: &str) {
    writeln!(text, "{checksum:032x}  {name}").expect("writing to a string cannot fail");
}

/// `None` where a byte differs from what [`Checksums::to_text`] writes.
fn parse(text: &[u8]) -> Option<BTreeMap<String, u128>> {
    let text = str::from_utf8(text).ok()?;
    let files = text.lines().map(|line| {
        let (checksum, name) = line.split_once("  ")?;
        Some((name.to_owned(), u128::from_str_radix(checksum, 16).ok()?))
    });
    let mut files = files.collect::<Option<BTreeMap<_, _>>>()?;
    files.remove(LINES_ABOVE)?;
    // Written again it must be the same text, its guard included.
    let list = Checksums { folder: PathBuf::new(), files };
    (list.to_text() == text).then_some(list.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_of_the_list_is_noticed() {
        let mut list = Checksums::default();
        list.add("model.pt", b"one");
        list.add("a file", b"two");
        let text = list.to_text();
        assert_eq!(parse(text.as_bytes()), Some(list.files));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(parse(&bytes), None, "bit {bit} of byte {at}");
            }
        }
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]), None, "cut after {cut} bytes");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = Path::new("/nowhere");
        let error = Checksums::read(nowhere).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/checksums.txt: "), "{error}");
        let mut list = Checksums { folder: nowhere.to_owned(), ..Checksums::default() };
        let error = list.verify().and(list.read_file("x").map(drop)).unwrap_err().to_string();
        assert_eq!(error, "/nowhere/checksums.txt has no checksum for x");
        list.add("x", b"");
        let error = list.verify().unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/x: "), "{error}");
    }
}
