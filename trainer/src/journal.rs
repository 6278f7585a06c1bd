//! `metrics.jsonl`: one JSON object per line, appended and flushed whole.

use crate::{error::TrainError, metrics::Metrics, report::Progress};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The journal's name in its run folder.
pub(crate) const FILE: &str = "metrics.jsonl";

/// The line of an epoch; epoch 0 is the look at validation before the first step.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct EpochLine {
    pub(crate) epoch: u32,
    pub(crate) train_loss: Option<f64>,
    pub(crate) validation_loss: Option<f64>,
    pub(crate) validation: Option<Metrics>,
}

impl EpochLine {
    /// The same news for the observer.
    pub(crate) fn done(&self) -> Progress {
        let EpochLine { epoch, train_loss, validation_loss, .. } = *self;
        Progress::EpochDone { epoch, train_loss, validation_loss }
    }
}

/// The part of any line that says where it belongs.
#[derive(Deserialize)]
struct Place {
    step: Option<u64>,
    epoch: u32,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Starts a journal.
    ///
    /// # Errors
    /// [`TrainError::HoldsARun`] when there is one, [`TrainError::Write`].
    pub(crate) fn create(run_dir: &Path) -> Result<Self, TrainError> {
        let path = run_dir.join(FILE);
        fs::create_dir_all(run_dir)
            .map_err(|source| TrainError::Write { path: run_dir.to_owned(), source })?;
        match File::create_new(&path) {
            Ok(file) => Ok(Journal { path, file }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(TrainError::HoldsARun { path: run_dir.to_owned() })
            }
            Err(source) => Err(TrainError::Write { path, source }),
        }
    }

    /// Takes the journal of a run back that saved nothing.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn discard(&self) -> Result<(), TrainError> {
        fs::remove_file(&self.path)
            .map_err(|source| TrainError::Write { path: self.path.clone(), source })
    }

    /// Goes on with a journal, without the lines that a crashed run wrote after its checkpoint:
    /// steps beyond `step`, the epochs from `epoch` on, and a line cut short.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn resume(run_dir: &Path, step: u64, epoch: u32) -> Result<Self, TrainError> {
        let path = run_dir.join(FILE);
        match trim(&path, step, epoch) {
            Ok(file) => Ok(Journal { path, file }),
            Err(source) => Err(TrainError::Write { path, source }),
        }
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn append(&mut self, line: &impl Serialize) -> Result<(), TrainError> {
        let mut text = serde_json::to_vec(line).expect("plain structs always serialise");
        text.push(b'\n');
        // One write: a reader never sees half a line.
        self.file
            .write_all(&text)
            .map_err(|source| TrainError::Write { path: self.path.clone(), source })
    }
}

fn trim(path: &Path, step: u64, epoch: u32) -> io::Result<File> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let belongs = |line: &&str| match serde_json::from_str::<Place>(line) {
        Ok(place) => place.step.map_or(place.epoch < epoch, |at| at <= step),
        Err(_) => false,
    };
    let kept: String = text.split_inclusive('\n').filter(belongs).collect();
    let partial = path.with_extension(format!("jsonl.partial-{}", std::process::id()));
    fs::write(&partial, kept)?;
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, path)?;
    OpenOptions::new().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_journal_forgets_what_came_after_the_checkpoint() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join("metrics.jsonl");
        let before =
            "{\"epoch\":0}\n{\"step\":2,\"epoch\":1}\n{\"epoch\":1}\n{\"step\":4,\"epoch\":2}\n";
        let after = "{\"step\":6,\"epoch\":2}\n{\"epoch\":2}\n{\"step\":8,\"ep";
        fs::write(&path, format!("{before}{after}")).unwrap();
        let mut journal = Journal::resume(run.path(), 5, 2).unwrap();
        journal.append(&serde_json::json!({"step": 6})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{before}{{\"step\":6}}\n"));
    }

    #[test]
    fn the_journal_of_another_run_is_not_overwritten() {
        let run = tempfile::tempdir().unwrap();
        let journal = Journal::create(run.path()).unwrap();
        let error = Journal::create(run.path()).unwrap_err();
        assert!(matches!(error, TrainError::HoldsARun { .. }), "{error:?}");
        journal.discard().unwrap();
        Journal::create(run.path()).unwrap();
    }
}
