//! Run directories: made at the start of a run, gone again when the run leaves nothing in them.

use crate::{failure::Failure, settings::Settings};
use millstream_stage::TimeKind;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// A run directory of a run that has not kept anything yet.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    /// Directories this run made above its own, innermost first.
    made: Vec<PathBuf>,
    kept: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunDirError {
    #[error("cannot make a run directory in {} (setting run.dir)", .dir.display())]
    Create { dir: PathBuf, source: io::Error },
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no trained run in {}; train one first, or name it with --run", .dir.display())]
    NoRun { dir: PathBuf },
    #[error("{} is not a run directory: it has no {file}", .run.display())]
    NotARun { run: PathBuf, file: &'static str },
    #[error("{change}, but a run that goes on keeps its own settings; unset it")]
    Changed { change: String },
}

impl RunDir {
    /// Makes a new directory named after the time and writes the resolved settings into it.
    pub(crate) fn create(settings: &Settings) -> Result<Self, Failure> {
        let dir = &settings.run.dir;
        let made: Vec<PathBuf> = dir
            .ancestors()
            .filter(|d| !d.as_os_str().is_empty() && !d.exists())
            .map(Path::to_owned)
            .collect();
        let create = || {
            fs::create_dir_all(dir)?;
            let name = timestamp();
            for attempt in 1.. {
                let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
                let path = dir.join(format!("{name}{suffix}"));
                match fs::create_dir(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => return made.map(|()| path),
                }
            }
            unreachable!("some suffix is free")
        };
        let path = create().map_err(|source| {
            Failure::settings(RunDirError::Create { dir: dir.clone(), source })
        })?;
        let run = RunDir { path, made, kept: false };
        let file = run.path.join("config.toml");
        write_whole(&file, settings.to_toml().as_bytes())?;
        Ok(run)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The run has something worth keeping.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A run that was interrupted or failed after its first checkpoint is kept for --resume.
        if self.kept || self.path.join("checkpoints/last").exists() {
            return;
        }
        // Best effort: this runs while an error is on its way to the user, and that one matters.
        drop(fs::remove_dir_all(&self.path));
        for dir in &self.made {
            drop(fs::remove_dir(dir));
        }
    }
}

/// Writes a file under a temporary name, syncs it, and renames it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&partial)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| {
        drop(fs::remove_file(&partial));
        Failure::settings(RunDirError::Write { path: path.to_owned(), source })
    })
}

/// The newest run in `dir` that has a model.
pub(crate) fn newest(dir: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| best_checkpoint(path).is_dir())
        // Names are times, so the greatest is the newest.
        .max()
        .ok_or_else(|| Failure::settings(RunDirError::NoRun { dir: dir.to_owned() }))
}

/// The checkpoint to predict with.
pub(crate) fn best_checkpoint(run: &Path) -> PathBuf {
    run.join("checkpoints/best")
}

/// The settings of a run that goes on: its own, which nothing may change.
pub(crate) fn resumed_settings(run: &Path) -> Result<Settings, Failure> {
    let (settings, changes) = Settings::of_run(&config_file(run)?, &[])?;
    match changes.first() {
        None => Ok(settings),
        Some(change) => Err(Failure::settings(RunDirError::Changed { change: change.to_string() })),
    }
}

/// The settings a run was started with, and what the environment and these flags change.
pub(crate) fn settings_of(run: &Path, set: &[String]) -> Result<Settings, Failure> {
    Settings::of_run(&config_file(run)?, set).map(|(settings, _)| settings)
}

fn config_file(run: &Path) -> Result<PathBuf, Failure> {
    let file = run.join("config.toml");
    if !file.exists() {
        let error = RunDirError::NotARun { run: run.to_owned(), file: "config.toml" };
        return Err(Failure::settings(error));
    }
    Ok(file)
}

fn timestamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = TimeKind::Timestamp.format(now.as_secs() as i64 * 1_000_000);
    text.replace(' ', "_").replace(':', "-")
}
