//! The panel cache on disk: a folder per panel, named by a key of everything that decides its rows.
//!
//! A folder holds `shard-0000.arrow`, … and `manifest.json`, and appears whole or not at all: it is
//! written under a temporary name, synced and renamed. Replacing one takes two renames; whoever
//! looks in between sees no cache and reads the source.
//!
//! The key covers the settings, the target columns and, for files, their paths, sizes, times of
//! change and inodes. It cannot cover the contents of a database: rows that change there are seen by the next
//! `import`, not by the next run. Old entries are not cleaned up.

use crate::{
    LoadError,
    files::SourceFile,
    manifest::{self, Manifest},
    notes::Notes,
    progress::Tell,
    request::Request,
    shard_file,
};
use millstream_stage::{Item, Panel, TimeKind};
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::xxh3_128;

/// Separates the key from the process that is writing it.
const PARTIAL: &str = ".partial-";

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
        let Some(manifest) = Manifest::read(&folder)? else { return Ok(None) };
        let shards: Vec<_> = manifest
            .shards
            .iter()
            .map(|shard| shard_file::open(&folder, shard))
            .collect::<Result<_, _>>()?;
        let place = folder.display().to_string();
        Panel::from_record_batches(Arc::new(manifest.schema), &shards)
            .map(|panel| Some((panel, manifest.notes)))
            .map_err(|source| LoadError::NotAPanel { place, source })
    }

    /// Makes an empty folder to write into. Called before the source is read, so that a cache that
    /// cannot be written is known at once and not after hours of reading.
    pub(crate) fn reserve(&self) -> Result<Partial, LoadError> {
        fs::create_dir_all(&self.root).map_err(cannot_write(&self.root))?;
        remove_abandoned(&self.root).map_err(cannot_write(&self.root))?;
        let partial = self.partial();
        make_empty(&partial.0).map_err(cannot_write(&partial.0))?;
        Ok(partial)
    }

    /// Writes a panel into a reserved folder and publishes it. With `replace`, it takes the place
    /// of what is there; without, a panel that another process has put there is kept.
    pub(crate) fn write(
        &self,
        partial: &Partial,
        panel: &Panel,
        notes: Notes,
        replace: bool,
        tell: &mut Tell<'_>,
    ) -> Result<(), LoadError> {
        let folder = partial.0.as_path();
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
        let path = folder.join(manifest::FILE);
        write_json(&path, &manifest).map_err(cannot_write(&path))?;
        sync_folder(folder).map_err(cannot_write(folder))?;
        self.publish(folder, replace)
    }

    fn publish(&self, partial: &Path, replace: bool) -> Result<(), LoadError> {
        let folder = self.folder();
        if !replace && Manifest::read(&folder)?.is_some() {
            return Ok(());
        }
        let publish = || -> io::Result<()> {
            if folder.exists() {
                let retired = self.partial();
                match fs::rename(&folder, &retired.0) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(partial, &folder)
        };
        // Another process may publish between our two renames; then its panel is retired instead.
        let mut result = publish();
        for _ in 0..3 {
            if result.is_ok() || !folder.exists() {
                break;
            }
            result = publish();
        }
        result.and_then(|()| sync_folder(&self.root)).map_err(cannot_write(&folder))
    }

    /// A name that no other thread or living process uses.
    fn partial(&self) -> Partial {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Partial(self.root.join(format!("{}{PARTIAL}{}-{number}", self.key, process::id())))
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_path_buf();
    move |source| LoadError::WriteCache { path, source }
}

/// A folder that is removed, if it is still there, when its maker is done with it.
#[derive(Debug)]
pub(crate) struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; and what cannot be removed now is removed as
        // abandoned later, so a failure here is not worth hiding the first one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder of this name can only be left from a process of the same number that died.
fn make_empty(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_dir_all(folder)?;
            fs::create_dir(folder)
        }
        result => result,
    }
}

/// Removes what died processes left. Needs `/proc` to tell; where there is none, nothing is removed.
fn remove_abandoned(root: &Path) -> io::Result<()> {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return Ok(());
    }
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((_, writer)) = name.to_str().and_then(|name| name.split_once(PARTIAL)) else {
            continue;
        };
        let process = writer.split('-').next().unwrap_or_default();
        if process.parse::<u32>().is_ok() && !processes.join(process).exists() {
            match fs::remove_dir_all(entry.path()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => tracing::debug!(?name, "removed an abandoned cache folder"),
            }
        }
    }
    Ok(())
}

fn write_json(path: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(&serde_json::to_vec_pretty(manifest)?)?;
    file.sync_all()
}

/// A rename or a new file is on disk only when its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeKind::Timestamp.format(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
