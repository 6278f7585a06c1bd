//! Which checkpoint of which run: `RUN`, or `RUN@best`, `RUN@last`, `RUN@STEP`.

use crate::{error::Error, run_dir};
use millstream_data::{folder_aside, plain_file};
use serde::Deserialize;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

/// A checkpoint of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CheckpointChoice {
    /// The epoch that validated best.
    #[default]
    Best,
    /// The latest.
    Last,
    /// That of this step.
    Step(u64),
}

/// A run, and which of its checkpoints. Read from text like `runs/2026-11-16_09-30-00@last`; a folder
/// that has an `@` in its name is meant as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCheckpoint {
    /// Its folder.
    pub run: PathBuf,
    /// Which checkpoint.
    pub checkpoint: CheckpointChoice,
}

#[derive(Debug, thiserror::Error)]
enum ChoiceError {
    #[error("{wanted:?} is no checkpoint; write {}@best, @last or the number of a step, e.g. @1200", .run.display())]
    Unknown { run: PathBuf, wanted: String },
    #[error("{} has no checkpoint {wanted}; it has {}", .run.display(), if .there.is_empty() { "none yet".to_owned() } else { .there.join(", ") })]
    Absent { run: PathBuf, wanted: CheckpointChoice, there: Vec<String> },
}

impl RunCheckpoint {
    /// What a person names so.
    ///
    /// # Errors
    /// What stands behind the `@` is no checkpoint.
    pub fn parse(text: &Path) -> Result<Self, Error> {
        let whole = || RunCheckpoint { run: text.to_owned(), checkpoint: CheckpointChoice::Best };
        if text.exists() {
            return Ok(whole());
        }
        let Some((run, wanted)) = text.to_str().and_then(|text| text.rsplit_once('@')) else {
            return Ok(whole());
        };
        let run = PathBuf::from(run);
        match wanted.parse() {
            Ok(checkpoint) => Ok(RunCheckpoint { run, checkpoint }),
            Err(()) => {
                let wanted = wanted.to_owned();
                Err(Error::settings(ChoiceError::Unknown { run, wanted }))
            }
        }
    }
}

impl CheckpointChoice {
    /// As a model is called that it is of.
    pub(crate) fn said(&self) -> String {
        match self {
            CheckpointChoice::Step(step) => format!("step-{step}"),
            other => other.to_string(),
        }
    }
}

impl FromStr for CheckpointChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "best" => Ok(CheckpointChoice::Best),
            "last" => Ok(CheckpointChoice::Last),
            step => step.parse().map(CheckpointChoice::Step).map_err(|_| ()),
        }
    }
}

impl fmt::Display for CheckpointChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointChoice::Best => f.write_str("best"),
            CheckpointChoice::Last => f.write_str("last"),
            CheckpointChoice::Step(step) => write!(f, "{step}"),
        }
    }
}

/// The folder of a checkpoint.
///
/// # Errors
/// The run has none such; those that it has are listed.
pub(crate) fn folder(run: &Path, checkpoint: &CheckpointChoice) -> Result<PathBuf, Error> {
    let checkpoints = run.join("checkpoints");
    let found = match checkpoint {
        CheckpointChoice::Best => {
            run_dir::check_model(run)?;
            return Ok(run_dir::best_checkpoint(run));
        }
        CheckpointChoice::Last => Some(checkpoints.join("last")),
        CheckpointChoice::Step(step) => {
            // `best` and `last` are replaced while a run goes on; one of its own stays.
            let named = [format!("step-{step}"), "best".to_owned(), "last".to_owned()];
            let mut folders = named.iter().map(|name| checkpoints.join(name));
            folders.find(|folder| step_of(folder) == Some(*step))
        }
    };
    match found.filter(|folder| run_dir::is_there(folder)) {
        Some(folder) => Ok(folder),
        None if !run.join("config.toml").exists() => {
            // Whoever reads the run says that it is none.
            Ok(run_dir::best_checkpoint(run))
        }
        None => {
            let (run, wanted, there) = (run.to_owned(), checkpoint.clone(), there(&checkpoints));
            Err(Error::settings(ChoiceError::Absent { run, wanted, there }))
        }
    }
}

/// The checkpoints of a run, each with its step.
fn there(checkpoints: &Path) -> Vec<String> {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let mut found: Vec<(u64, String)> = entries
        .filter_map(|entry| {
            let name =
                entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
            let step = step_of(&entry.path())?;
            Some((step, format!("{name} (step {step})")))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// The step that a checkpoint was made at.
fn step_of(checkpoint: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct State {
        step: u64,
    }
    let read = |folder: &Path| plain_file::read(&folder.join("state.json")).ok();
    let state = read(checkpoint).or_else(|| read(&folder_aside(checkpoint)))?;
    serde_json::from_slice::<State>(&state).ok().map(|state| state.step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(run: &Path, name: &str, step: u64) {
        let folder = run.join("checkpoints").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("state.json"), format!("{{\"step\": {step}}}")).unwrap();
    }

    #[test]
    fn a_checkpoint_is_named_behind_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, run: &str, checkpoint: CheckpointChoice| {
            let found = RunCheckpoint::parse(&folder.path().join(text)).unwrap();
            assert_eq!(found, RunCheckpoint { run: folder.path().join(run), checkpoint });
        };
        check("runs/a", "runs/a", CheckpointChoice::Best);
        check("runs/a@best", "runs/a", CheckpointChoice::Best);
        check("runs/a@last", "runs/a", CheckpointChoice::Last);
        check("runs/a@1200", "runs/a", CheckpointChoice::Step(1200));
        fs::create_dir(folder.path().join("me@7")).unwrap();
        check("me@7", "me@7", CheckpointChoice::Best);
        check("me@7@last", "me@7", CheckpointChoice::Last);
        let error = RunCheckpoint::parse(Path::new("runs/a@lst")).unwrap_err().to_string();
        assert!(
            error.starts_with("\"lst\" is no checkpoint; write runs/a@best, @last or"),
            "{error}"
        );
    }

    #[test]
    fn one_that_is_not_there_is_told_those_that_are() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        fs::write(run.join("config.toml"), "").unwrap();
        let find =
            |choice: CheckpointChoice| folder(run, &choice).map_err(|error| error.to_string());
        let error = find(CheckpointChoice::Last).unwrap_err();
        assert!(error.ends_with("has no checkpoint last; it has none yet"), "{error}");
        checkpoint(run, "best", 20);
        checkpoint(run, "last", 40);
        checkpoint(run, "step-9", 9);
        fs::create_dir(run.join("checkpoints/.last.partial-x")).unwrap();
        let at = |name: &str| Ok(run.join("checkpoints").join(name));
        assert_eq!(find(CheckpointChoice::Best), at("best"));
        assert_eq!(find(CheckpointChoice::Last), at("last"));
        assert_eq!(find(CheckpointChoice::Step(9)), at("step-9"));
        assert_eq!(find(CheckpointChoice::Step(20)), at("best"));
        assert_eq!(find(CheckpointChoice::Step(40)), at("last"));
        let error = find(CheckpointChoice::Step(10)).unwrap_err();
        let expected =
            "has no checkpoint 10; it has step-9 (step 9), best (step 20), last (step 40)";
        assert!(error.ends_with(expected), "{error}");
    }
}
