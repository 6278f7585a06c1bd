//! The panel cache on disk: a folder per panel, named by a key of everything that decides its rows.
//!
//! A folder holds `shard-0000.arrow`, … and `manifest.json`, and appears whole or not at all: it is
//! written under a temporary name, synced and renamed. Who may remove what is in
//! [`folder`](crate::folder). Whoever opens a folder while another is put in its place opens the
//! other; whoever has opened it keeps what it has.
//!
//! The key covers the settings, the target columns and, for files, their paths, sizes, times of
//! change and inodes. It cannot cover the contents of a database: rows that change there are seen by
//! the next `import`, not by the next run. Old entries are not cleaned up.

use crate::{
    LoadError,
    files::SourceFile,
    folder::{self, Found, Partial, Shared},
    manifest::{self, Manifest},
    notes::Notes,
    progress::Tell,
    request::Request,
    shard_file,
};
use millstream_stage::{Item, Panel, TimeKind};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::xxh3_128;

/// How often to look again for a folder that somebody replaces each time.
const LOOKS: usize = 1000;

/// Where one panel is cached, whether or not it is.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    root: PathBuf,
    key: String,
    source: serde_json::Value,
}

impl CacheEntry {
    /// The entry for these settings; `None` when the cache is switched off.
    pub(crate) fn locate(request: &Request<'_>) -> Result<Option<Self>, LoadError> {
        let Request { settings, required, files, .. } = *request;
        if settings.cache.is_empty() {
            return Ok(None);
        }
        let files: Vec<_> = files.iter().map(SourceFile::state).collect();
        let source = serde_json::json!(settings.canonical()?);
        let parts = serde_json::json!([manifest::VERSION, source, required, files]);
        let key = format!("{:032x}", xxh3_128(parts.to_string().as_bytes()));
        Ok(Some(CacheEntry { root: PathBuf::from(&settings.cache), key, source }))
    }

    /// The folder of the panel.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(&self.key)
    }

    /// Opens the cached panel, checking every shard, and what is to be known about it; `None` when
    /// there is none.
    pub(crate) fn open(&self) -> Result<Option<(Panel, Notes)>, LoadError> {
        let folder = self.folder();
        for _ in 0..LOOKS {
            let found = Shared::find(&self.root, &self.key)
                .map_err(|source| LoadError::ReadCache { path: folder.clone(), source })?;
            let shared = match found {
                Found::Folder(shared) => shared,
                Found::Nothing => return Ok(None),
                Found::Moving => continue,
            };
            let opened = self.open_folder(&folder, &shared);
            // Files of two folders must not be taken for one, nor for damage.
            if shared.is_current(&self.root, &self.key) {
                return opened;
            }
        }
        Ok(None)
    }

    fn open_folder(
        &self,
        folder: &Path,
        shared: &Shared,
    ) -> Result<Option<(Panel, Notes)>, LoadError> {
        let Some(manifest) = Manifest::read(folder, &self.key)? else { return Ok(None) };
        let shards: Vec<_> = manifest
            .shards
            .iter()
            .map(|shard| shard_file::open(folder, shard, shared))
            .collect::<Result<_, _>>()?;
        let place = folder.display().to_string();
        Panel::from_record_batches(Arc::new(manifest.schema), &shards)
            .map(|panel| Some((panel, manifest.notes)))
            .map_err(|source| LoadError::NotAPanel { place, source })
    }

    /// Makes an empty folder to write into. Called before the source is read, so that a cache that
    /// cannot be written is known at once and not after hours of reading.
    pub(crate) fn reserve(&self) -> Result<Partial, LoadError> {
        fs::create_dir_all(&self.root)
            .and_then(|()| Partial::reserve(&self.root, &self.key))
            .map_err(cannot_write(&self.root))
    }

    /// Writes a panel into a reserved folder, publishes it, and swaps it for the mapped one that
    /// later runs will open. With `replace`, it takes the place of what is there; without, a panel
    /// that another process has put there is kept, and used.
    pub(crate) fn write(
        &self,
        partial: &Partial,
        panel: Panel,
        notes: Notes,
        replace: bool,
        tell: &mut Tell<'_>,
    ) -> Result<Panel, LoadError> {
        let folder = partial.path();
        let width = panel.schema().width();
        let (mut shards, mut rows) = (Vec::new(), 0);
        for (n, shard) in panel.shards().iter().enumerate() {
            tell.written(rows, panel.rows())?;
            shards.push(shard_file::write(folder, format!("shard-{n:04}.arrow"), shard, width)?);
            rows += shard.rows() as u64;
        }
        tell.written(rows, panel.rows())?;
        let manifest = Manifest {
            version: manifest::VERSION,
            key: self.key.clone(),
            source: self.source.clone(),
            schema: (**panel.schema()).clone(),
            shards,
            notes,
            created: now(),
        };
        drop(panel);
        manifest.write(folder).map_err(cannot_write(folder))?;
        folder::sync(folder).map_err(cannot_write(folder))?;
        // Opened before it is published: from then on anybody may replace it.
        let opened = self.open_folder(folder, &partial.share())?;
        let is_there =
            |folder: &Path| !replace && matches!(Manifest::read(folder, &self.key), Ok(Some(_)));
        let published = partial
            .publish(&self.root, &self.key, is_there)
            .map_err(cannot_write(&self.folder()))?;
        let opened = match published {
            true => opened,
            false => self.open()?.or(opened),
        };
        let (panel, _) = opened.expect("the manifest was written with this key and version");
        Ok(panel)
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_path_buf();
    move |source| LoadError::WriteCache { path, source }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeKind::Timestamp.format(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
