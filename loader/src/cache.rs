//! The panel cache on disk: a folder per panel, named by a key of everything that decides its rows.
//!
//! A folder holds `shard-0000.arrow`, … and `manifest.json`, and appears whole or not at all: it is
//! written under a temporary name, synced and renamed. Who may remove what is in
//! [`cache_folder`](crate::cache_folder). Whoever opens a folder while another is put in its place opens the
//! other; whoever has opened it keeps what it has.
//!
//! The key covers the settings, the columns that are wanted besides the features and, for files,
//! their paths, sizes, times of change (of their bytes, and of anything about them, which no program
//! can set back) and inodes; for a database, all of the connection string that
//! decides what is read: user, hosts, database, `options` (with it a search path, a role or a time
//! zone that is set there) and `target_session_attrs`. No variable of the environment decides that:
//! `PGOPTIONS`, `PGTZ` and the like are not read.
//!
//! What only the server knows is not in the key, since a cached panel must open while the server is
//! down: its own identifier, and the role, search path and time zone that it gives a connection. They
//! are kept in the manifest, beside what the table was when it was read, and compared when the server
//! can be asked; see [`refresh`](crate::refresh). Old entries are not cleaned up.

use crate::{
    LoadError,
    cache_folder::{self, Found, Partial, Shared},
    files::SourceFile,
    manifest::{self, Manifest},
    progress::ProgressReporter,
    refresh::ReadRows,
    request::Request,
    row_warnings::RowWarnings,
    shard_file,
    table::LoadedPanel,
};
use millstream_data::{Panel, make_folder};
use millstream_stage::Item;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
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

/// A folder to write a panel into, made before the rows are read.
#[derive(Debug)]
pub(crate) struct Reserved {
    folder: Partial,
    /// Since when, in microseconds since 1970-01-01 UTC.
    since: i64,
}

/// A panel that was cached.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) panel: Panel,
    pub(crate) row_warnings: RowWarnings,
    /// What was read of a database.
    pub(crate) read: Option<ReadRows>,
    /// When it was read, in microseconds since 1970-01-01 UTC.
    created: i64,
}

impl Cached {
    /// How long ago the rows were read.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_micros(u64::try_from(now() - self.created).unwrap_or_default())
    }
}

impl CacheEntry {
    /// The entry for these settings; `None` when the cache is switched off.
    pub(crate) fn locate(request: &Request<'_>) -> Result<Option<Self>, LoadError> {
        let settings = request.settings;
        if settings.cache.is_empty() {
            return Ok(None);
        }
        let files: Vec<_> = request.files.iter().map(SourceFile::state).collect();
        let source = settings.canonical()?;
        let parts =
            serde_json::json!([manifest::VERSION, source, request.beside_features(), files]);
        let key = format!("{:032x}", xxh3_128(parts.to_string().as_bytes()));
        Ok(Some(CacheEntry { root: PathBuf::from(&settings.cache), key, source }))
    }

    /// The folder of the panel.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(&self.key)
    }

    /// Opens the cached panel, checking every shard, and what is to be known about it; `None` when
    /// there is none.
    pub(crate) fn open(
        &self,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Option<Cached>, LoadError> {
        let folder = self.folder();
        for _ in 0..LOOKS {
            let found = Shared::find(&self.root, &self.key)
                .map_err(|source| LoadError::ReadCache { path: folder.clone(), source })?;
            let shared = match found {
                Found::Folder(shared) => shared,
                Found::Nothing => return Ok(None),
                Found::Moving => continue,
            };
            let opened = self.open_folder(&folder, &shared, reporter);
            // Files of two folders must not be taken for one, nor for damage.
            if matches!(opened, Err(LoadError::Interrupted))
                || shared.is_current(&self.root, &self.key)
            {
                return opened;
            }
        }
        Ok(None)
    }

    fn open_folder(
        &self,
        folder: &Path,
        shared: &Shared,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Option<Cached>, LoadError> {
        let Some(manifest) = Manifest::read(folder, &self.key)? else { return Ok(None) };
        let all: u64 = manifest.shards.iter().map(|shard| shard.rows).sum();
        let (mut shards, mut rows) = (Vec::with_capacity(manifest.shards.len()), 0);
        for shard in &manifest.shards {
            shards.push(shard_file::open(folder, shard, shared)?);
            rows += shard.rows;
            reporter.checked(rows, all)?;
        }
        let place = folder.display().to_string();
        Panel::from_record_batches(Arc::new(manifest.schema), &shards)
            .map(|panel| {
                let (row_warnings, read) = (manifest.row_warnings, manifest.read);
                Some(Cached { panel, row_warnings, read, created: manifest.created })
            })
            .map_err(|source| LoadError::NotAPanel { place, source })
    }

    /// Makes an empty folder to write into. Called before the source is read, so that a cache that
    /// cannot be written is known at once and not after hours of reading.
    pub(crate) fn reserve(&self) -> Result<Reserved, LoadError> {
        make_folder(&self.root)
            .and_then(|()| Partial::reserve(&self.root, &self.key))
            .map(|folder| Reserved { folder, since: now() })
            .map_err(cannot_write(&self.root))
    }

    /// Writes a panel into a reserved folder, publishes it, and swaps it for the mapped one that
    /// later runs will open. With `replace`, it takes the place of what is there; without, a panel
    /// that another process has put there is kept, and used.
    pub(crate) fn write(
        &self,
        reserved: &Reserved,
        loaded: LoadedPanel,
        replace: bool,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Panel, LoadError> {
        let LoadedPanel { panel, row_warnings, read } = loaded;
        let partial = &reserved.folder;
        let folder = partial.path();
        let width = panel.schema().width();
        let (mut shards, mut rows) = (Vec::new(), 0);
        for (n, shard) in panel.shards().iter().enumerate() {
            reporter.written(rows, panel.rows())?;
            shards.push(shard_file::write(folder, format!("shard-{n:04}.arrow"), shard, width)?);
            rows += shard.rows() as u64;
        }
        reporter.written(rows, panel.rows())?;
        let manifest = Manifest {
            version: manifest::VERSION,
            key: self.key.clone(),
            source: self.source.clone(),
            schema: (**panel.schema()).clone(),
            shards,
            row_warnings,
            read,
            created: reserved.since,
        };
        drop(panel);
        manifest.write(folder).map_err(cannot_write(folder))?;
        cache_folder::sync(folder).map_err(cannot_write(folder))?;
        // Opened before it is published: from then on anybody may replace it.
        let shared = partial.share(&self.root).map_err(cannot_write(&self.root))?;
        let opened = self.open_folder(folder, &shared, reporter)?;
        reporter.written(rows, rows)?;
        let is_there =
            |folder: &Path| !replace && matches!(Manifest::read(folder, &self.key), Ok(Some(_)));
        let published = partial
            .publish(&self.root, &self.key, is_there)
            .map_err(cannot_write(&self.folder()))?;
        let opened = match published {
            true => opened,
            false => self.open(reporter)?.or(opened),
        };
        Ok(opened.expect("the manifest was written with this key and version").panel)
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_path_buf();
    move |source| LoadError::WriteCache { path, source }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
