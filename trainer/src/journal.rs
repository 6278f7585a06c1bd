//! `metrics.jsonl`: one JSON object per line, on the disk before a checkpoint that counts on it. Until
//! then the system may keep lines to itself: a run that goes on has no use for those after its
//! checkpoint, and waiting for the disk at each takes as long as many steps of a small model.
//!
//! A checkpoint notes how long the journal was and its hash ([`Mark`]), so that a run which goes on
//! knows what was written before that checkpoint, and whether it still is. What to do with a
//! journal that is not is in `salvage.rs`.

use crate::{error::TrainError, metrics::Metrics, report::Progress, salvage::salvage};
use millstream_data::{plain_file, sync_folder, write_whole};
use millstream_stage::Warnings;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::Xxh3;

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
    /// The look before the first step.
    pub(crate) fn before(loss: f64, validation: Option<Metrics>) -> Self {
        EpochLine { epoch: 0, train_loss: None, validation_loss: Some(loss), validation }
    }

    /// The same news for the observer.
    pub(crate) fn done(&self) -> Progress {
        let EpochLine { epoch, train_loss, validation_loss, .. } = *self;
        Progress::EpochDone { epoch, train_loss, validation_loss }
    }
}

/// What a file was, the journal or the events, when a checkpoint was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    bytes: u64,
    xxh3: u64,
}

/// Where a run goes on, as its journal needs to know.
#[derive(Debug)]
pub(crate) struct Resumed {
    /// Of the checkpoint; those of older versions have none.
    pub(crate) mark: Option<Mark>,
    pub(crate) step: u64,
    pub(crate) epoch: u32,
    /// What the first line was, where there was a look before the first step.
    pub(crate) first: Option<EpochLine>,
}

/// The open file.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Of all lines so far.
    bytes: u64,
    hash: Xxh3,
}

impl Journal {
    /// Starts a journal in a folder that is there.
    ///
    /// # Errors
    /// [`TrainError::HoldsARun`] when there is one, [`TrainError::Write`].
    pub(crate) fn create(run_dir: &Path) -> Result<Self, TrainError> {
        let path = run_dir.join(FILE);
        match File::create_new(&path).and_then(|file| sync_folder(run_dir).map(|()| file)) {
            Ok(file) => Ok(Journal { path, file, bytes: 0, hash: Xxh3::new() }),
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

    /// Goes on with a journal, without the lines that a crashed run wrote after its checkpoint. What
    /// cannot be read is left out with a warning.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn resume(
        run_dir: &Path,
        resumed: &Resumed,
        warnings: &Warnings,
    ) -> Result<Self, TrainError> {
        let path = run_dir.join(FILE);
        let writing = |source| TrainError::Write { path: path.clone(), source };
        let found = match plain_file::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|source| TrainError::Read { path: path.clone(), source })?,
        };
        let kept = match resumed.mark.and_then(|mark| mark.of(&found)) {
            Some(written) => written.to_vec(),
            None => {
                let salvaged = salvage(&found, resumed);
                // Of a journal without a mark there is no telling that nothing is missing.
                if resumed.mark.is_some() || salvaged.unreadable > 0 {
                    warnings.warn(salvaged.warning(&path));
                }
                salvaged.kept
            }
        };
        if kept != found {
            write_whole(&path, &kept).map_err(writing)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(writing)?;
        let mut hash = Xxh3::new();
        hash.update(&kept);
        Ok(Journal { file, bytes: kept.len() as u64, hash, path })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn append(&mut self, line: &impl Serialize) -> Result<(), TrainError> {
        let text = text(line);
        // One write: a reader never sees half a line.
        self.file
            .write_all(&text)
            .map_err(|source| TrainError::Write { path: self.path.clone(), source })?;
        self.bytes += text.len() as u64;
        self.hash.update(&text);
        Ok(())
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn sync(&self) -> Result<(), TrainError> {
        let path = &self.path;
        self.file.sync_data().map_err(|source| TrainError::Write { path: path.clone(), source })
    }

    /// What a checkpoint notes.
    pub(crate) fn mark(&self) -> Mark {
        Mark::new(self.bytes, self.hash.digest())
    }
}

impl Mark {
    pub(crate) fn new(bytes: u64, xxh3: u64) -> Self {
        Mark { bytes, xxh3 }
    }

    /// The part of a file that was there when it was marked, if it is the same.
    pub(crate) fn of<'a>(&self, found: &'a [u8]) -> Option<&'a [u8]> {
        let written = found.get(..usize::try_from(self.bytes).ok()?)?;
        (xxhash_rust::xxh3::xxh3_64(written) == self.xxh3).then_some(written)
    }
}

/// A line as it is written.
pub(crate) fn text(line: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("plain structs always serialise");
    text.push(b'\n');
    text
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESUMED: Resumed = Resumed { mark: None, step: 5, epoch: 2, first: None };

    #[test]
    fn a_resumed_journal_forgets_what_came_after_the_checkpoint() {
        let run = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(run.path()).unwrap();
        journal.append(&serde_json::json!({"step": 4})).unwrap();
        let mark = journal.mark();
        journal.append(&serde_json::json!({"step": 6})).unwrap();
        let path = run.path().join(FILE);
        let mut cut_short = fs::read(&path).unwrap();
        cut_short.extend(b"{\"step\":8,\"ep");
        fs::write(&path, cut_short).unwrap();
        let warnings = Warnings::default();
        let resumed = Resumed { mark: Some(mark), ..RESUMED };
        let mut journal = Journal::resume(run.path(), &resumed, &warnings).unwrap();
        assert_eq!(journal.mark(), mark);
        journal.append(&serde_json::json!({"step": 7})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"step\":4}\n{\"step\":7}\n");
        assert!(warnings.all().is_empty());

        // The mark goes on where it was.
        let resumed = Resumed { mark: Some(journal.mark()), ..RESUMED };
        drop(Journal::resume(run.path(), &resumed, &warnings).unwrap());
        assert!(warnings.all().is_empty());
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_costs_no_other_line() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join(FILE);
        let mut journal = Journal::create(run.path()).unwrap();
        for line in [
            serde_json::json!({"epoch": 0, "validation": {"mse": 1.5}}),
            serde_json::json!({"step": 2, "epoch": 1, "loss": 0.5}),
            serde_json::json!({"epoch": 1, "validation": {"mse": 1.5}}),
            serde_json::json!({"step": 4, "epoch": 2, "loss": 0.5}),
        ] {
            journal.append(&line).unwrap();
        }
        let resumed = Resumed { mark: Some(journal.mark()), ..RESUMED };
        let good = fs::read(&path).unwrap();
        let lines = |text: &[u8]| -> Vec<Vec<u8>> {
            text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
        };
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, bytes).unwrap();
                let warnings = Warnings::default();
                drop(Journal::resume(run.path(), &resumed, &warnings).unwrap());
                let said = warnings.all();
                assert_eq!(said.len(), 1, "bit {bit} of byte {at}");
                assert!(said[0].contains("metrics.jsonl"), "{said:?}");
                let kept = lines(&fs::read(&path).unwrap());
                let lost = lines(&good).iter().filter(|line| !kept.contains(line)).count();
                assert!(lost <= 1, "bit {bit} of byte {at} cost {lost} lines");
            }
        }
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
