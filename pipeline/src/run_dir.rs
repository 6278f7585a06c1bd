//! Run directories: made at the start of a run, gone again when the run leaves nothing in them.

use crate::{
    failure::Failure,
    runs::Started,
    settings::{Override, Settings},
};
use millstream_stage::Warnings;
use std::{
    fs, io,
    path::{Path, PathBuf},
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
            let name = Started::now().name();
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
        write_whole(&run.path.join("config.toml"), settings.to_toml().as_bytes())?;
        Started::now().write(&run.path)?;
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

/// The checkpoint to predict with.
pub(crate) fn best_checkpoint(run: &Path) -> PathBuf {
    run.join("checkpoints/best")
}

/// The settings of a run that goes on: its own, which nothing may change.
pub(crate) fn resumed_settings(run: &Path) -> Result<Settings, Failure> {
    let (settings, changes) = settings_of(run, &[])?;
    // Where new runs go is no matter of this one.
    match changes.iter().find(|change| change.key != "run.dir") {
        None => Ok(settings),
        Some(change) => Err(Failure::settings(RunDirError::Changed { change: change.to_string() })),
    }
}

/// The settings a run was started with, with what the environment and these flags change, and a list
/// of that.
pub(crate) fn settings_of(
    run: &Path,
    set: &[String],
) -> Result<(Settings, Vec<Override>), Failure> {
    Settings::of_run(&config_file(run)?, set)
}

/// The settings a run was started with, and nothing else.
pub(crate) fn own_settings(run: &Path) -> Result<Settings, Failure> {
    Settings::of_run_alone(&config_file(run)?)
}

/// Adds the warnings of a command to those that its run keeps, in `warnings.txt`.
pub(crate) fn keep_warnings(run: &Path, warnings: &Warnings) -> Result<(), Failure> {
    let path = run.join("warnings.txt");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
    let kept = lines.len();
    for line in warnings.all() {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.len() == kept {
        Ok(())
    } else {
        write_whole(&path, (lines.join("\n") + "\n").as_bytes())
    }
}

fn config_file(run: &Path) -> Result<PathBuf, Failure> {
    let file = run.join("config.toml");
    if !file.exists() {
        let error = RunDirError::NotARun { run: run.to_owned(), file: "config.toml" };
        return Err(Failure::settings(error));
    }
    Ok(file)
}
