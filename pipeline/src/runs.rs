//! The runs of a folder: when each was started, and which is the newest.
//!
//! A run notes when it was started (`run.json`): names can be changed and files copied, and a copy
//! of an old run is an old run.

use crate::{
    backtest::folder::{BACKTEST, is_backtest},
    clock,
    error::Error,
    run_dir,
};
use millstream_data::{ChecksumError, TimeKind};
use millstream_normalize::Limit;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The note's name in its run directory.
pub(crate) const FILE: &str = "run.json";

/// When a run was started, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// UTC, as in the name of its folder.
    started: String,
    /// Of the program.
    #[serde(default)]
    version: String,
    /// How much of each pass it has.
    #[serde(default, skip_serializing_if = "is_none")]
    limit: Limit,
}

/// The run that a command takes when none is named.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunChoice {
    /// Its folder.
    pub run: PathBuf,
    /// What a person should know of the choice, a line each: why newer runs were not taken, and
    /// which could not be told.
    pub remarks: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("no trained run in {}{}; train one first, or name one with --run{}", .dir.display(), if .untrained.is_empty() { String::new() } else { format!(" ({} without a model)", .untrained.len()) }, .backtests.first().map(|path| format!(", such as that of a fold in {}", path.display())).unwrap_or_default())]
struct NoRun {
    dir: PathBuf,
    untrained: Vec<PathBuf>,
    backtests: Vec<PathBuf>,
}

impl Started {
    pub(crate) fn now() -> Self {
        let started = TimeKind::Timestamp.format(clock::now());
        Started { started, version: env!("CARGO_PKG_VERSION").to_owned(), limit: Limit::None }
    }

    pub(crate) fn with_limit(self, limit: Limit) -> Self {
        Started { limit, ..self }
    }

    /// The time as a name of a folder, to the second.
    pub(crate) fn name(&self) -> String {
        let seconds = self.started.split('.').next().unwrap_or_default();
        seconds.replace(' ', "_").replace(':', "-")
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("two texts always serialise")
    }

    /// When this run was started; of a run without a note, or with one that is not what was written,
    /// what its name says.
    fn read(run: &Path) -> Option<Self> {
        let noted = run_dir::check(run, FILE).ok().and_then(|()| fs::read(run.join(FILE)).ok());
        noted.and_then(|json| serde_json::from_slice(&json).ok()).or_else(|| {
            let name = run.file_name()?.to_str()?;
            let (day, time) = name.split_once('_')?;
            let is_time = day.len() == 10 && time.len() >= 8 && time.is_char_boundary(8);
            let started = || format!("{day} {}", time[..8].replace('-', ":"));
            is_time.then(|| Started {
                started: started(),
                version: String::new(),
                limit: Limit::None,
            })
        })
    }
}

/// When a backtest was started: what its note says.
fn backtest_started(path: &Path) -> Option<String> {
    let note = fs::read(path.join(BACKTEST)).ok()?;
    serde_json::from_slice(&note).ok().map(|Started { started, .. }| started)
}

fn is_none(limit: &Limit) -> bool {
    *limit == Limit::None
}

/// How much of each pass a run has.
///
/// # Errors
/// The note that says so is damaged. Runs from before there were limits have none.
pub(crate) fn limit(run: &Path) -> Result<Limit, ChecksumError> {
    run_dir::check(run, FILE)?;
    let noted = fs::read(run.join(FILE)).ok();
    let noted: Option<Started> = noted.and_then(|json| serde_json::from_slice(&json).ok());
    Ok(noted.map_or(Limit::None, |started| started.limit))
}

/// Whether a folder is one that is to go, as that of a run which is only tried out.
fn is_hidden(run: &Path) -> bool {
    run.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a folder has a name that a run gives itself.
pub(crate) fn is_name(name: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00_00-00-00";
    let (time, rest) = name.as_bytes().split_at(name.len().min(FORM.len()));
    let is_time = time.len() == FORM.len()
        && time.iter().zip(FORM).all(|(found, form)| match form {
            b'0' => found.is_ascii_digit(),
            form => found == form,
        });
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    is_time && (rest.is_empty() || rest.strip_prefix(b"-").is_some_and(is_number))
}

/// The newest run in `dir` that has come to its end; where none has, the newest that has a model.
///
/// # Errors
/// There is none.
pub fn newest(dir: &Path) -> Result<RunChoice, Error> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = entries.filter(|path| path.join("config.toml").is_file() && !is_hidden(path));
    let (backtests, mut runs): (Vec<PathBuf>, Vec<PathBuf>) =
        folders.partition(|path| is_backtest(path));
    // Newest first; of a run and its copy, the one that still has its name.
    runs.sort_by_cached_key(|run| {
        let started = Started::read(run);
        let has_its_name = started
            .as_ref()
            .zip(run.file_name())
            .is_some_and(|(started, name)| name.to_string_lossy().starts_with(&started.name()));
        let started = started.map(|started| (started.started, started.version));
        std::cmp::Reverse((started, has_its_name, run.clone()))
    });
    let trained = |run: &&PathBuf| run_dir::has_model(run);
    let finished = |run: &PathBuf| run_dir::has_model(run) && run_dir::has_final_report(run);
    let first =
        runs.iter().position(finished).or_else(|| runs.iter().position(|run| trained(&run)));
    match first {
        Some(at) => {
            let run = runs[at].clone();
            let passed_over = runs[..at].iter().map(|newer| {
                let lacks = match trained(&newer) {
                    true => "has not come to its end; to take it, name it with --run",
                    false => "has no trained model",
                };
                format!("{} is newer than {}, but {lacks}", newer.display(), run.display())
            });
            let unsure = runs.iter().filter_map(|run| {
                let reason = run_dir::check(run, FILE).err()?;
                Some(format!("{reason}; when that run was started is taken from its name"))
            });
            let started = Started::read(&run).map(|started| started.started);
            let newer = backtests.iter().filter(|path| backtest_started(path) > started);
            let newer = newer.map(|path| {
                let (path, run) = (path.display(), run.display());
                format!("{path} is newer than {run}, but is a backtest; name the run of a fold in it with --run")
            });
            let newer: Vec<String> = newer.collect();
            Ok(RunChoice {
                remarks: newer.into_iter().chain(passed_over).chain(unsure).collect(),
                run,
            })
        }
        None => Err(Error::settings(NoRun { dir: dir.to_owned(), untrained: runs, backtests })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dir: &Path, name: &str, started: Option<&str>, trained: bool) {
        let run = dir.join(name);
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("config.toml"), "").unwrap();
        if let Some(started) = started {
            let note = Started { started: started.to_owned(), ..Started::now() };
            fs::write(run.join(FILE), note.to_json()).unwrap();
        }
        if trained {
            fs::create_dir_all(run_dir::best_checkpoint(&run)).unwrap();
        }
    }

    #[test]
    fn the_newest_is_the_one_that_was_started_last() {
        let dir = tempfile::tempdir().unwrap();
        let check = |expected: &str, passed_over: usize| {
            let found = newest(dir.path()).unwrap();
            assert_eq!(found.run, dir.path().join(expected));
            assert_eq!(found.remarks.len(), passed_over, "{found:?}");
        };
        run(dir.path(), "2026-11-15_08-00-00", None, true);
        check("2026-11-15_08-00-00", 0);
        run(dir.path(), "2026-11-16_09-30-00", Some("2026-11-16 09:30:00.250"), true);
        run(dir.path(), "backup", Some("2026-11-16 09:30:00.250"), true);
        run(dir.path(), "my-best", Some("2026-11-16 09:30:00.100"), true);
        check("2026-11-16_09-30-00", 0);
        run(dir.path(), "renamed", Some("2026-11-17 00:00:00"), true);
        check("renamed", 0);
        run(dir.path(), "2026-11-18_00-00-00", Some("2026-11-18 00:00:00"), false);
        check("renamed", 1);
        fs::create_dir(dir.path().join("zzz-no-run")).unwrap();
        check("renamed", 1);
    }

    #[test]
    fn a_backtest_is_no_run_and_is_said_where_it_is_newer() {
        let dir = tempfile::tempdir().unwrap();
        let backtest = dir.path().join("backtest-2026-11-16_08-00-00");
        fs::create_dir_all(run_dir::best_checkpoint(&backtest)).unwrap();
        fs::write(backtest.join("config.toml"), "").unwrap();
        let note = Started { started: "2026-11-16 08:00:00".to_owned(), ..Started::now() };
        fs::write(backtest.join(BACKTEST), note.to_json()).unwrap();
        let error = newest(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with(&format!("a fold in {}", backtest.display())), "{error}");
        run(dir.path(), "2026-11-17_08-00-00", Some("2026-11-17 08:00:00"), true);
        assert!(newest(dir.path()).unwrap().remarks.is_empty());
        fs::remove_dir_all(dir.path().join("2026-11-17_08-00-00")).unwrap();
        run(dir.path(), "2026-11-15_08-00-00", Some("2026-11-15 08:00:00"), true);
        let found = newest(dir.path()).unwrap();
        assert!(found.run.ends_with("2026-11-15_08-00-00"), "{found:?}");
        assert!(found.remarks[0].contains("but is a backtest"), "{found:?}");
    }

    #[test]
    fn one_that_has_come_to_its_end_goes_before_one_that_has_not() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "2026-11-15_08-00-00", None, true);
        run(dir.path(), "2026-11-16_08-00-00", None, true);
        let found = newest(dir.path()).unwrap();
        assert_eq!((found.run, found.remarks.len()), (dir.path().join("2026-11-16_08-00-00"), 0));
        let report = dir.path().join("2026-11-15_08-00-00/report.json");
        fs::write(report, r#"{"interrupted": false}"#).unwrap();
        let found = newest(dir.path()).unwrap();
        assert_eq!(found.run, dir.path().join("2026-11-15_08-00-00"));
        assert!(found.remarks[0].contains("has not come to its end; to take it"), "{found:?}");
    }

    #[test]
    fn a_damaged_note_is_said_and_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "2026-11-15_08-00-00", Some("2026-11-15 08:00:00"), true);
        run(dir.path(), "2026-11-16_08-00-00", Some("2026-11-16 08:00:00"), true);
        let older = dir.path().join("2026-11-15_08-00-00");
        let mut checksums = millstream_data::Checksums::default();
        checksums.add(FILE, &fs::read(older.join(FILE)).unwrap());
        fs::write(older.join("checksums.txt"), checksums.to_text()).unwrap();
        let text = fs::read_to_string(older.join(FILE)).unwrap();
        fs::write(older.join(FILE), text.replace("2026", "3026")).unwrap();
        let found = newest(dir.path()).unwrap();
        assert_eq!(found.run, dir.path().join("2026-11-16_08-00-00"));
        assert!(found.remarks[0].contains("run.json is damaged"), "{found:?}");
    }

    #[test]
    fn a_folder_without_a_trained_run_is_said() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "2026-11-15_08-00-00", None, false);
        let error = newest(dir.path()).unwrap_err().to_string();
        assert!(error.contains("(1 without a model); train one first"), "{error}");
    }

    #[test]
    fn a_name_is_a_time_to_the_second() {
        let started = Started { started: "2026-11-16 09:30:00.250".into(), ..Started::now() };
        assert_eq!(started.name(), "2026-11-16_09-30-00");
        assert!(is_name(&started.name()) && is_name("2026-11-16_09-30-00-12"));
        for other in ["", "2026-11-16", "2026-11-16_09-30-0x", "2026-11-16_09-30-00-", "my-best"] {
            assert!(!is_name(other), "{other}");
        }
    }
}
