//! The manifest of a cached panel: `manifest.json`, what the shards beside it are.
//!
//! It is the last file written into a cache folder and the first one read; a folder without a
//! manifest of this version is no cache.

use crate::{LoadError, notes::Notes};
use millstream_stage::PanelSchema;
use serde::{Deserialize, Serialize};
use std::{io::ErrorKind, path::Path};

/// Goes up whenever older caches must not be read any more: a new layout, or a reader that makes
/// other rows of the same source.
pub(crate) const VERSION: u32 = 2;

/// The manifest's name in its folder.
pub(crate) const FILE: &str = "manifest.json";

/// What a cached panel consists of.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    pub(crate) key: String,
    /// Where the rows came from: the settings, without passwords.
    pub(crate) source: serde_json::Value,
    pub(crate) schema: PanelSchema,
    pub(crate) shards: Vec<ShardFile>,
    /// What must be said about the rows whenever they are used.
    pub(crate) notes: Notes,
    /// When it was written, UTC.
    pub(crate) created: String,
}

/// One shard's file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShardFile {
    pub(crate) file: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// xxh3-64 of every MiB, in hexadecimal.
    pub(crate) checksums: Vec<String>,
}

/// As much of a manifest as any version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Manifest {
    /// Reads the manifest of a folder; `None` when there is none, or one of another version.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, LoadError> {
        let path = folder.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if is_absent(error.kind()) => return Ok(None),
            Err(source) => return Err(LoadError::ReadCache { path, source }),
        };
        let parse = || -> serde_json::Result<Option<Manifest>> {
            let Version { version } = serde_json::from_slice(&text)?;
            if version != VERSION {
                return Ok(None);
            }
            serde_json::from_slice(&text).map(Some)
        };
        parse().map_err(|source| LoadError::Manifest { path, source })
    }
}

/// Without a folder there is no manifest either; writing one will say what is in its place.
fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: Option<&str>, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = text {
            std::fs::write(dir.path().join(FILE), text).unwrap();
        }
        let found = match Manifest::read(dir.path()) {
            Ok(None) => "none".to_owned(),
            Ok(Some(_)) => "some".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn no_manifest_and_other_versions_are_no_cache_but_garbage_is_an_error() {
        check(None, "none");
        check(Some("{\"version\": 999, \"new\": []}"), "none");
        check(Some("{\"version\": 2"), "is not a panel manifest; run `millstream import`");
        check(Some("{\"version\": 2}"), "is not a panel manifest");
    }
}
