//! The manifest of a cached panel: `manifest.json`, what the shards beside it are.
//!
//! It is the last file written into a cache folder and the first one read; a folder without a
//! manifest of this version is no cache. Its first line holds a checksum of all that follows, so
//! that no byte of it can change unnoticed.

use crate::{
    LoadError, cache_damage::CacheDamage, cache_folder::is_absent, refresh::ReadRows,
    row_warnings::RowWarnings,
};
use millstream_data::{PanelSchema, plain_file};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};
use xxhash_rust::xxh3::xxh3_128;

/// Goes up whenever older caches must not be read any more: a new layout, or a reader that makes
/// other rows of the same source.
pub(crate) const VERSION: u32 = 2;

/// The manifest's name in its folder.
const FILE: &str = "manifest.json";

/// What stands before and after the checksum, which is the first member of the object.
const CHECKSUM: [&str; 2] = ["{\n  \"checksum\": \"", "\",\n"];

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
    #[serde(rename = "notes")]
    pub(crate) row_warnings: RowWarnings,
    /// What was read of a database, to tell whether it has changed since.
    pub(crate) read: Option<ReadRows>,
    /// When the rows were read, in microseconds since 1970-01-01 UTC.
    pub(crate) created: i64,
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
    /// Writes the manifest into its folder and makes sure it is on disk.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        let members = text.strip_prefix("{\n").expect("a manifest is an object");
        let mut file = File::create_new(folder.join(FILE))?;
        let [before, after] = CHECKSUM;
        write!(file, "{before}{}{after}{members}", checksum(members))?;
        file.sync_all()
    }

    /// Reads the manifest of a folder; `None` when there is none, or one of another version or for
    /// another key.
    pub(crate) fn read(folder: &Path, key: &str) -> Result<Option<Self>, LoadError> {
        let path = folder.join(FILE);
        let text = match plain_file::read(&path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(source) => return Err(LoadError::ReadCache { path, source }),
        };
        let broken = |source| CacheDamage::Manifest { path: path.clone(), source };
        let Version { version } = serde_json::from_slice(&text).map_err(broken)?;
        if version != VERSION {
            return Ok(None);
        }
        if !is_whole(&text) {
            return Err(CacheDamage::ManifestChecksum { path }.into());
        }
        let manifest: Manifest = serde_json::from_slice(&text).map_err(broken)?;
        Ok(Some(manifest).filter(|manifest| manifest.key == key))
    }
}

fn checksum(members: &str) -> String {
    format!("{:032x}", xxh3_128(members.as_bytes()))
}

/// Whether a manifest has the checksum that it begins with.
fn is_whole(text: &[u8]) -> bool {
    let [before, after] = CHECKSUM;
    let parts = || {
        let (found, members) =
            str::from_utf8(text).ok()?.strip_prefix(before)?.split_once(after)?;
        Some(found == checksum(members))
    };
    parts().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{ColumnKind, TimeKind};

    fn check(text: Option<&str>, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = text {
            std::fs::write(dir.path().join(FILE), text).unwrap();
        }
        let found = match Manifest::read(dir.path(), "k") {
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
        check(Some("{\"version\": 2}"), "does not have the checksum it was written with");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let manifest = Manifest {
            version: VERSION,
            key: "k".to_owned(),
            source: serde_json::json!({"path": "t.csv"}),
            schema: PanelSchema {
                series_column: None,
                time_column: "day".to_owned(),
                time_kind: TimeKind::Date,
                columns: vec!["a".to_owned()],
                kinds: vec![ColumnKind::Number],
                inputs: 1,
                series: vec!["x".to_owned(), "ü".to_owned()],
                fingerprint: "0123".to_owned(),
            },
            shards: Vec::new(),
            row_warnings: RowWarnings::default(),
            read: None,
            created: 1_500_000_000_000_000,
        };
        let dir = tempfile::tempdir().unwrap();
        manifest.write(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        assert!(Manifest::read(dir.path(), "k").unwrap().is_some());
        assert!(Manifest::read(dir.path(), "other").unwrap().is_none());
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut text = whole.clone();
            text[at] ^= 1 << bit;
            std::fs::write(&path, &text).unwrap();
            let found = Manifest::read(dir.path(), "k");
            assert!(!matches!(found, Ok(Some(_))), "bit {bit} of byte {at}");
        }
    }
}
