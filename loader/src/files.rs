//! Which files `source.path` means: one file, a glob, or every matching file of a directory.
//!
//! Files are taken in the order of their paths. Folders within a directory are not searched; a
//! glob such as `data/**/*.parquet` does that. What else a directory holds is passed over, and said.
//!
//! A file is taken in the state in which it was found: the cache key is made from that state, and a
//! file that has another one while it is read, or afterwards, is an error.

use crate::{LoadError, SourceSettings};
use millstream_data::plain_file;
use millstream_stage::Warnings;
use serde::{Serialize, Serializer};
use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Names that are listed before the rest is only counted.
const LISTED: usize = 10;

/// A file to read, and the state in which it was found.
#[derive(Debug)]
pub(crate) struct SourceFile {
    path: PathBuf,
    state: FileState,
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FileState {
    #[serde(serialize_with = "serialize_path")]
    path: PathBuf,
    bytes: u64,
    /// Time of the last change of its bytes, in whole seconds and nanoseconds. Whoever writes a file
    /// can set it back.
    modified: (i64, i64),
    /// Time of the last change of anything about it, which the system alone sets.
    changed: (i64, i64),
    inode: u64,
}

impl SourceFile {
    fn new(path: PathBuf) -> Result<Self, LoadError> {
        let state = || -> io::Result<FileState> {
            let (meta, full) = (fs::metadata(&path)?, fs::canonicalize(&path)?);
            Ok(FileState::new(full, &meta))
        };
        match state() {
            Ok(state) => Ok(SourceFile { path, state }),
            Err(source) => Err(LoadError::ReadFile { path, source }),
        }
    }

    /// Where it is, as `source.path` leads there.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The state in which it was found.
    pub(crate) fn state(&self) -> &FileState {
        &self.state
    }

    /// Opens the file, if it is still as it was found.
    pub(crate) fn open(&self) -> Result<File, LoadError> {
        let failed = |source| LoadError::ReadFile { path: self.path.clone(), source };
        let file = plain_file::open(&self.path).map_err(failed)?;
        self.compare(&file.metadata().map_err(failed)?)?;
        Ok(file)
    }

    /// Reads from the file. If it is then no longer as it was found, that is the error, whatever
    /// the reading gave.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce() -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        match read() {
            Err(LoadError::Interrupted) => Err(LoadError::Interrupted),
            result => self.check().and(result),
        }
    }

    /// Refuses a file that is no longer as it was found.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        match fs::metadata(&self.path) {
            Ok(meta) => self.compare(&meta),
            Err(_) => Err(self.changed()),
        }
    }

    fn compare(&self, meta: &Metadata) -> Result<(), LoadError> {
        let same = FileState::new(self.state.path.clone(), meta) == self.state;
        same.then_some(()).ok_or_else(|| self.changed())
    }

    fn changed(&self) -> LoadError {
        LoadError::FileChanged { path: self.path.clone() }
    }
}

impl FileState {
    fn new(path: PathBuf, meta: &Metadata) -> Self {
        let modified = (meta.mtime(), meta.mtime_nsec());
        let changed = (meta.ctime(), meta.ctime_nsec());
        FileState { path, bytes: meta.len(), modified, changed, inode: meta.ino() }
    }
}

/// A path is bytes: one that is text is written as text, any other as the list of its bytes.
fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => serializer.collect_seq(path.as_os_str().as_bytes()),
    }
}

/// The files to read, in order: none for kinds that read no files, and never none for others. What a
/// directory holds besides is said to `warnings`.
pub(crate) fn find(
    settings: &SourceSettings,
    warnings: &Warnings,
) -> Result<Vec<SourceFile>, LoadError> {
    let Some(extension) = settings.kind.extension() else { return Ok(Vec::new()) };
    let Some(path) = settings.path.as_deref() else {
        return Err(LoadError::MissingSetting {
            kind: settings.kind.name(),
            key: "path",
            expected: "a file, a glob or a directory",
        });
    };
    let plain = PathBuf::from(path);
    let mut passed_over = Vec::new();
    let mut files = if plain.is_file() {
        vec![plain]
    } else if plain.is_dir() {
        let (files, others) = search(&plain, extension)?;
        passed_over = others;
        files
    } else if fs::symlink_metadata(&plain).is_ok() {
        // A pipe, a socket, a device, or a link that leads nowhere.
        let source = plain_file::open(&plain).err().unwrap_or_else(|| io::ErrorKind::Other.into());
        return Err(LoadError::ReadFile { path: plain, source });
    } else {
        expand(path)?
    };
    files.sort_unstable();
    if files.is_empty() {
        return Err(LoadError::NoFiles { path: path.to_owned(), extension });
    }
    if let Some(listed) = list(passed_over) {
        warnings.warn(format!(
            "of the directory source.path = {path:?} only *.{extension} files are read, and not {listed}; move these elsewhere, or give a glob that matches the files you mean"
        ));
    }
    files.into_iter().map(SourceFile::new).collect()
}

/// What a directory holds: the files of that extension, however its letters are written, and all
/// else. Hidden names are those of editors and systems; of them, only what has the extension may be
/// somebody's rows, and is worth a word.
fn search(folder: &Path, extension: &str) -> Result<(Vec<PathBuf>, Vec<PathBuf>), LoadError> {
    let unreadable = |source| LoadError::ReadFile { path: folder.to_path_buf(), source };
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_bytes().starts_with(b".");
        let fits = path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        match is_hidden {
            false if fits && path.is_file() => files.push(path),
            true if !fits => {}
            _ => others.push(path),
        }
    }
    Ok((files, others))
}

/// Names what was passed over, in order; `None` when nothing was.
fn list(mut passed_over: Vec<PathBuf>) -> Option<String> {
    passed_over.sort_unstable();
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name:?}{}", if path.is_dir() { " (a folder)" } else { "" })
    };
    let mut names: Vec<String> = passed_over.iter().take(LISTED).map(name).collect();
    if passed_over.len() > LISTED {
        names.push(format!("{} more", passed_over.len() - LISTED));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

fn expand(pattern: &str) -> Result<Vec<PathBuf>, LoadError> {
    let matches = glob::glob(pattern).map_err(|_| LoadError::Setting {
        key: "path",
        value: pattern.to_owned(),
        expected: "a file, a directory, or a glob made of *, **, ? and [abc]",
    })?;
    let mut files = Vec::new();
    for found in matches {
        let path = found.map_err(|error| LoadError::ReadFile {
            path: error.path().to_path_buf(),
            source: error.into(),
        })?;
        if path.is_file() {
            files.push(path);
        }
    }
    files.extend(names_that_are_no_text(Path::new(pattern)));
    Ok(files)
}

/// The files that the last part of a pattern matches and whose names are no text: the `glob` crate
/// passes them over. Patterns for folders find none of them.
fn names_that_are_no_text(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().and_then(|name| glob::Pattern::new(name.to_str()?).ok());
    let (Some(name), Some(folder)) = (name, pattern.parent()) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let odd = entries.filter(|entry| {
        let found = entry.file_name();
        found.to_str().is_none() && name.matches(&found.to_string_lossy())
    });
    odd.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_globs_and_directories_are_found_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.csv", "c.txt"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let check = |path: &str, expected: &[&str]| {
            let settings = SourceSettings {
                kind: crate::SourceKind::Csv,
                path: Some(dir.path().join(path).to_str().unwrap().to_owned()),
                ..SourceSettings::default()
            };
            let names: Vec<String> = find(&settings, &Warnings::default())
                .unwrap_or_default()
                .iter()
                .map(|file| file.path().file_name().unwrap().to_str().unwrap().to_owned())
                .collect();
            assert_eq!(names, expected, "{path}");
        };
        check("", &["a.csv", "b.csv"]);
        check("c.txt", &["c.txt"]);
        check("[ac].*", &["a.csv", "c.txt"]);
        check("*.parquet", &[]);
        check("none/", &[]);
    }
}
