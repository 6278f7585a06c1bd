//! Run directories: made at the start of a run, gone again when the run leaves nothing in them.
//!
//! What a run is goes on by what its directory says, so `checksums.txt` vouches for that: for the
//! settings and for the note of its start. Checkpoints have checksums of their own.

use crate::{
    backtest::folder::{self, BACKTEST, BACKTEST_NAME, fold_folders, fold_name},
    dead_runs,
    error::{Error, ErrorKind},
    runs::{self, Started},
    settings::{Override, Overrides, Settings},
    texts::shell_word,
    trial::Trial,
    unsaved::UnsavedRun,
};
use millstream_data::{
    ChecksumError, Checksums, folder_aside, make_folder, plain_file, sync_folder,
};
use millstream_normalize::Limit;
use millstream_stage::Warnings;
use millstream_trainer::RunLock;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The settings of a run.
const CONFIG: &str = "config.toml";

/// All that a run found.
pub(crate) const REPORT: &str = "report.json";

/// A run directory of a run that has not kept anything yet.
#[derive(Debug)]
pub(crate) struct RunDir {
    lock: RunLock,
    /// Directories this run made above its own, innermost first.
    made: Vec<PathBuf>,
    kept: bool,
    /// Whether it goes whatever is in it.
    discard: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunDirError {
    #[error("cannot make a run directory in {} (setting run.dir)", .dir.display())]
    Create { dir: PathBuf, source: io::Error },
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a run directory: it has no {file}", .run.display())]
    NotARun { run: PathBuf, file: &'static str },
    #[error("{} was changed since its run was started: a run keeps the settings it was started with; put the file back, or start a new run", .path.display())]
    Edited { path: PathBuf },
    #[error("{source}; restore the run from a copy, or start a new one")]
    Damaged { source: ChecksumError },
    #[error("{} has no model yet, as its first epoch has not ended; {}", .run.display(), if *.can_go_on { format!("go on with: millstream train --resume {}", shell_word(.run)) } else { "nothing of it was saved, so train anew".to_owned() })]
    NoModel { run: PathBuf, can_go_on: bool },
    #[error("{change}, but a run that goes on keeps its own settings; unset it")]
    Changed { change: String },
}

/// What a new folder is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewFolder<'a> {
    /// A run, named after the time.
    Run,
    /// The run of a fold of a backtest, in whose folder it is.
    Fold(usize),
    /// A backtest, named after the time, and what its note says.
    Backtest(&'a [u8]),
}

impl RunDir {
    /// Makes a new directory named after the time and writes the resolved settings into it. That of a
    /// run which is to be discarded has a name that nobody takes for a run.
    pub(crate) fn create(
        what: NewFolder<'_>,
        settings: &Settings,
        trial: &Trial,
    ) -> Result<Self, Error> {
        let Trial { limit, discard, .. } = *trial;
        let dir = &settings.run.dir;
        let made: Vec<PathBuf> = dir
            .ancestors()
            .filter(|d| !d.as_os_str().is_empty() && !d.exists())
            .map(Path::to_owned)
            .collect();
        let create = || -> Result<RunLock, Error> {
            let failed = |source| Error::settings(RunDirError::Create { dir: dir.clone(), source });
            make_folder(dir).map_err(failed)?;
            // Held until the new run has a lock of its own: before that, it looks like a dead one.
            let folder = fs::File::open(dir).map_err(failed)?;
            if folder.lock().is_ok() {
                dead_runs::remove(dir);
            }
            let path = match what {
                NewFolder::Run => make_unused(dir, "", discard),
                NewFolder::Backtest(_) => make_unused(dir, BACKTEST_NAME, discard),
                NewFolder::Fold(fold) => make(dir.join(fold_name(fold))),
            };
            let path = path.map_err(failed)?;
            // Best effort, as below.
            let lock = RunLock::take(&path, &program());
            Ok(lock.inspect_err(|_| drop(fs::remove_dir(&path)))?)
        };
        let lock = create().inspect_err(|_| {
            made.iter().for_each(|dir| drop(fs::remove_dir(dir)));
        })?;
        let run = RunDir { lock, made, kept: false, discard };
        let started = Started::now().with_limit(limit).to_json();
        let (note, said) = match what {
            NewFolder::Backtest(said) => (BACKTEST, said),
            NewFolder::Run | NewFolder::Fold(_) => (runs::FILE, started.as_slice()),
        };
        let config = settings.to_toml();
        let mut checksums = Checksums::default();
        for (name, bytes) in [(note, said), (CONFIG, config.as_bytes())] {
            write_whole(&run.path().join(name), bytes)?;
            checksums.add(name, bytes);
        }
        write_whole(&run.path().join(Checksums::FILE), checksums.to_text().as_bytes())?;
        Ok(run)
    }

    pub(crate) fn path(&self) -> &Path {
        self.lock.run_dir()
    }

    /// The right to write there.
    pub(crate) fn lock(&self) -> &RunLock {
        &self.lock
    }

    /// What removes it when nobody drops this.
    pub(crate) fn unsaved(&self) -> UnsavedRun {
        let is_first = !self.made.is_empty();
        if self.discard {
            UnsavedRun::to_discard(self.path(), is_first)
        } else {
            UnsavedRun::new(self.path(), is_first)
        }
    }

    /// The run has something worth keeping.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A run that was interrupted or failed after its first checkpoint is kept: for --resume, and
        // for predict, which needs no more than `best`. So is a backtest with such a fold.
        let has_checkpoint = |run: &Path| {
            ["last", "best"].iter().any(|name| is_there(&run.join("checkpoints").join(name)))
        };
        let has_some = has_checkpoint(self.path())
            || fold_folders(self.path()).iter().any(|f| has_checkpoint(f));
        if !self.discard && (self.kept || has_some) {
            return;
        }
        // Best effort: this runs while an error is on its way to the user, and that one matters.
        drop(fs::remove_dir_all(self.path()));
        for dir in &self.made {
            drop(fs::remove_dir(dir));
        }
    }
}

/// Makes a folder for a run, named after the time.
fn make_unused(dir: &Path, prefix: &str, discard: bool) -> io::Result<PathBuf> {
    let name = Started::now().name();
    for attempt in 1.. {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let name = format!("{prefix}{name}{suffix}");
        let path = dir.join(if discard { dead_runs::to_discard(&name) } else { name });
        match make(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    unreachable!("some suffix is free")
}

fn make(path: PathBuf) -> io::Result<PathBuf> {
    fs::create_dir(&path)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(path)
}

/// Takes the lock of a run that is to go on, before anything of it is read.
pub(crate) fn lock(run: &Path) -> Result<RunLock, Error> {
    config_file(run)?;
    Ok(RunLock::take(run, &program())?)
}

/// What is at work, for others who find the run locked. Flags of a program may hold passwords; of
/// `millstream`, the first names the command.
pub(crate) fn program() -> String {
    let mut arguments = std::env::args_os();
    let program = arguments.next().map(PathBuf::from).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = arguments.next().and_then(|argument| argument.into_string().ok());
    match command.as_deref() {
        Some(command @ ("train" | "pipeline" | "backtest")) => format!("{program} {command}"),
        _ => program,
    }
}

/// Whether there is such a checkpoint, be it in the moment in which it is replaced.
pub(crate) fn is_there(checkpoint: &Path) -> bool {
    checkpoint.is_dir() || folder_aside(checkpoint).is_dir() || checkpoint.is_dir()
}

/// Whether the report of a run that has come to its end is there. One who was killed before it was
/// written has left none, or that of an earlier interruption.
pub(crate) fn has_final_report(run: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Ended {
        interrupted: bool,
    }
    let report = plain_file::read(&run.join(REPORT)).unwrap_or_default();
    serde_json::from_slice(&report).is_ok_and(|Ended { interrupted }| !interrupted)
}

/// What a person was warned of in a run up to its report: before it was interrupted, and now.
pub(crate) fn with_warnings_of_report(run: &Path, now: Vec<String>) -> Vec<String> {
    #[derive(Default, serde::Deserialize)]
    struct Said {
        warnings: Vec<String>,
    }
    let report = plain_file::read(&run.join(REPORT)).unwrap_or_default();
    let Said { mut warnings } = serde_json::from_slice(&report).unwrap_or_default();
    let new: Vec<String> = now.into_iter().filter(|line| !warnings.contains(line)).collect();
    warnings.extend(new);
    warnings
}

/// Whether a run has a checkpoint to go on from.
pub(crate) fn can_go_on(run: &Path) -> bool {
    is_there(&run.join("checkpoints/last")) || has_model(run)
}

/// Refuses a run that has no model yet. What is no run is for whoever reads it to say.
pub(crate) fn check_model(run: &Path) -> Result<(), Error> {
    folder::refuse(run)?;
    if has_model(run) || !run.join("config.toml").exists() {
        return Ok(());
    }
    let (run, can_go_on) = (run.to_owned(), can_go_on(run));
    Err(Error::settings(RunDirError::NoModel { run, can_go_on }))
}

/// Says of a run that is under way, or was stopped, that its model is not the last word.
pub(crate) fn warn_of_unfinished(run: &Path, model: &str, warnings: &Warnings) {
    if !has_final_report(run) {
        let run = run.display();
        warnings.warn(format!("{run} has not come to its end; this is its {model} model so far"));
    }
}

/// Whether a run has a model to predict with.
pub(crate) fn has_model(run: &Path) -> bool {
    is_there(&best_checkpoint(run))
}

/// Writes a file of a run whole.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    millstream_data::write_whole(path, bytes).map_err(|source| {
        Error::new(ErrorKind::Other, RunDirError::Write { path: path.to_owned(), source })
    })
}

/// The checkpoint to predict with.
pub(crate) fn best_checkpoint(run: &Path) -> PathBuf {
    run.join("checkpoints/best")
}

/// The settings of a run that goes on: its own, which nothing may change.
pub(crate) fn resumed_settings(run: &Path, overrides: &Overrides) -> Result<Settings, Error> {
    unchanged(settings_of(run, overrides)?)
}

/// The settings, where nothing would change them.
pub(crate) fn unchanged((settings, changes): (Settings, Vec<Override>)) -> Result<Settings, Error> {
    // Where new runs go is no matter of this one.
    match changes.iter().find(|change| change.key != "run.dir") {
        None => Ok(settings),
        Some(change) => Err(Error::settings(RunDirError::Changed { change: change.to_string() })),
    }
}

/// The settings a run was started with, with what is to be changed, and a list of that.
pub(crate) fn settings_of(
    run: &Path,
    overrides: &Overrides,
) -> Result<(Settings, Vec<Override>), Error> {
    Settings::of_run(&config_file(run)?, overrides)
}

/// How much of each pass a run has; it goes on with as much.
pub(crate) fn limit(run: &Path) -> Result<Limit, Error> {
    runs::limit(run).map_err(|source| Error::settings(RunDirError::Damaged { source }))
}

/// The settings a run was started with, and nothing else.
pub(crate) fn own_settings(run: &Path) -> Result<Settings, Error> {
    Settings::of_run_alone(&config_file(run)?)
}

/// Adds the warnings of a command to those that its run keeps, in `warnings.txt`.
pub(crate) fn keep_warnings(run: &Path, warnings: &Warnings) -> Result<(), Error> {
    let path = run.join("warnings.txt");
    // Several may predict with a run, and each has its warnings. Where a folder cannot be locked, the
    // last one wins.
    let folder = fs::File::open(run);
    drop(folder.as_ref().map(fs::File::lock));
    let before = plain_file::read(&path).unwrap_or_default();
    let before = String::from_utf8_lossy(&before);
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

/// The file with a run's settings, which must be as they were written.
fn config_file(run: &Path) -> Result<PathBuf, Error> {
    folder::refuse(run)?;
    settings_file(run)
}

/// The same of a backtest too.
pub(crate) fn settings_file(run: &Path) -> Result<PathBuf, Error> {
    let path = run.join(CONFIG);
    if !path.is_file() {
        let error = RunDirError::NotARun { run: run.to_owned(), file: CONFIG };
        return Err(Error::settings(error));
    }
    match check(run, CONFIG) {
        Ok(()) => Ok(path),
        Err(ChecksumError::Damaged { path }) if path.ends_with(CONFIG) => {
            Err(Error::settings(RunDirError::Edited { path }))
        }
        Err(source) => Err(Error::settings(RunDirError::Damaged { source })),
    }
}

/// Whether a file of a run is what was written there. Runs from before there were checksums have
/// none.
pub(crate) fn check(run: &Path, name: &str) -> Result<(), ChecksumError> {
    if !run.join(Checksums::FILE).exists() {
        return Ok(());
    }
    Checksums::read(run)?.read_file(name).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_dir(parent: &Path) -> RunDir {
        let mut settings = Settings::default();
        settings.run.dir = parent.join("runs");
        RunDir::create(NewFolder::Run, &settings, &Trial::default()).unwrap()
    }

    #[test]
    fn a_directory_without_a_checkpoint_goes_again() {
        let parent = tempfile::tempdir().unwrap();
        let run = run_dir(parent.path());
        assert!(run.path().join(CONFIG).is_file());
        fs::create_dir(run.path().join("checkpoints")).unwrap();
        drop(run);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    /// The disk may have had room for the first `best`, and then for no `last`.
    #[test]
    fn whatever_checkpoint_there_is_stays() {
        for name in ["best", "last", ".best.old", ".last.old"] {
            let parent = tempfile::tempdir().unwrap();
            let run = run_dir(parent.path());
            let path = run.path().to_owned();
            fs::create_dir_all(path.join("checkpoints").join(name)).unwrap();
            drop(run);
            assert!(path.join("checkpoints").join(name).is_dir(), "{name}");
            assert!(!path.join("run.lock").exists());
        }
    }

    #[test]
    fn what_is_to_be_discarded_goes_whatever_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.run.dir = parent.path().join("runs");
        let run = RunDir::create(NewFolder::Run, &settings, &Trial::fast_dev_run()).unwrap();
        let path = run.path().to_owned();
        fs::create_dir_all(path.join("checkpoints/best")).unwrap();
        assert!(runs::newest(&settings.run.dir).is_err(), "it is no run");
        drop(run);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_limit_is_kept_with_the_run() {
        let parent = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.run.dir = parent.path().join("runs");
        let trial = Trial::limit_batches(3.try_into().unwrap());
        let run = RunDir::create(NewFolder::Run, &settings, &trial).unwrap();
        assert_eq!(limit(run.path()).unwrap(), trial.limit);
        fs::write(run.path().join(runs::FILE), "{}").unwrap();
        assert!(limit(run.path()).unwrap_err().to_string().contains("run.json is damaged"));
    }

    #[test]
    fn settings_that_were_changed_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let run = run_dir(parent.path());
        let path = run.path().join(CONFIG);
        own_settings(run.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}# by hand\n")).unwrap();
        let error = own_settings(run.path()).unwrap_err().to_string();
        assert!(error.contains("config.toml was changed since its run was started"), "{error}");
        fs::write(&path, text).unwrap();
        own_settings(run.path()).unwrap();
        fs::write(run.path().join(Checksums::FILE), "x").unwrap();
        let error = own_settings(run.path()).unwrap_err().to_string();
        assert!(error.contains("checksums.txt is damaged"), "{error}");
    }

    #[test]
    fn warnings_are_added_to_those_that_are_there_whatever_they_are() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join("warnings.txt");
        fs::write(&path, b"one \xff\ntwo\n").unwrap();
        let warnings = Warnings::default();
        warnings.warn("two");
        warnings.warn("three");
        keep_warnings(run.path(), &warnings).unwrap();
        let kept = fs::read_to_string(&path).unwrap();
        assert_eq!(kept, "one \u{fffd}\ntwo\nthree\n");
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_report_keeps_what_was_said_before_an_interruption() {
        let run = tempfile::tempdir().unwrap();
        let now = || vec!["two".to_owned(), "three".to_owned()];
        assert_eq!(with_warnings_of_report(run.path(), now()), now());
        let report = br#"{"interrupted": true, "warnings": ["one", "two"]}"#;
        fs::write(run.path().join(REPORT), report).unwrap();
        assert_eq!(with_warnings_of_report(run.path(), now()), ["one", "two", "three"]);
    }

    #[test]
    fn of_warnings_at_once_none_is_lost() {
        let run = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let run = run.path();
                scope.spawn(move || {
                    for number in 0..25 {
                        let warnings = Warnings::default();
                        warnings.warn(format!("{thread} {number}"));
                        keep_warnings(run, &warnings).unwrap();
                    }
                });
            }
        });
        let kept = fs::read_to_string(run.path().join("warnings.txt")).unwrap();
        assert_eq!(kept.lines().count(), 100);
    }
}
