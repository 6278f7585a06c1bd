//! Which files `source.path` means: one file, a glob, or every matching file of a directory.
//!
//! Files are taken in the order of their paths. Folders within a directory are not searched; a
//! glob such as `data/**/*.parquet` does that.

use crate::{LoadError, SourceKind, SourceSettings};
use serde::Serialize;
use std::{fs, path::PathBuf, time::UNIX_EPOCH};

/// The files to read, in order; never empty.
pub(crate) fn find(settings: &SourceSettings) -> Result<Vec<PathBuf>, LoadError> {
    let Some(path) = settings.path.as_deref() else {
        return Err(LoadError::MissingSetting {
            kind: settings.kind.name(),
            key: "path",
            expected: "a file, a glob or a directory",
        });
    };
    let extension = match settings.kind {
        SourceKind::Csv => "csv",
        _ => "parquet",
    };
    let plain = PathBuf::from(path);
    let mut files = if plain.is_file() {
        vec![plain]
    } else if plain.is_dir() {
        let unreadable = |source| LoadError::ReadFile { path: plain.clone(), source };
        let mut files = Vec::new();
        for entry in fs::read_dir(&plain).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            if file.is_file() && file.extension().is_some_and(|found| found == extension) {
                files.push(file);
            }
        }
        files
    } else {
        expand(path)?
    };
    files.sort_unstable();
    if files.is_empty() {
        return Err(LoadError::NoFiles { path: path.to_owned(), extension });
    }
    Ok(files)
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
    Ok(files)
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Serialize)]
pub(crate) struct FileState {
    path: PathBuf,
    bytes: u64,
    modified_ns: u128,
}

/// The state of every file that would be read.
pub(crate) fn states(settings: &SourceSettings) -> Result<Vec<FileState>, LoadError> {
    find(settings)?
        .into_iter()
        .map(|file| {
            let state = || -> std::io::Result<FileState> {
                let meta = fs::metadata(&file)?;
                // A file from before 1970 has no sensible age; its length must do.
                let age = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                let path = fs::canonicalize(&file)?;
                Ok(FileState { path, bytes: meta.len(), modified_ns: age.as_nanos() })
            };
            state().map_err(|source| LoadError::ReadFile { path: file.clone(), source })
        })
        .collect()
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
                kind: SourceKind::Csv,
                path: Some(dir.path().join(path).to_str().unwrap().to_owned()),
                ..SourceSettings::default()
            };
            let names: Vec<String> = find(&settings)
                .unwrap_or_default()
                .iter()
                .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
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
