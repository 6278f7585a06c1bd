//! `events.out.tfevents.*`: what the journal says, for TensorBoard; with the settings as text and, on
//! request, histograms of the weights.
//!
//! A file is a row of records: eight bytes of length, their checksum, the message, its checksum. Each
//! is written in one piece, so a crash leaves a file that can be read. It is on the disk whenever a
//! checkpoint is; the journal, which is there line by line, has all the figures too.
//!
//! Every time that a run goes on it begins a file, as all writers of these files do: a TensorBoard that
//! is looking on finds it. What had been written after the checkpoint goes, so no line is there twice.

use crate::{
    error::TrainError,
    event_messages::{Event, Session, Summary, Value, What},
    journal::{EpochLine, Mark},
};
use millstream_data::{plain_file, sync_folder, write_whole};
use millstream_stage::Warnings;
use prost::Message;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::Xxh3;

/// Around the seconds in a file's name: TensorBoard looks for the first part, and files of others,
/// which we leave alone, do not have the second.
const NAME: (&str, &str) = ("events.out.tfevents.", ".millstream");

/// What of a line is no figure but a place.
const PLACES: [&str; 2] = ["step", "epoch"];

/// The open file.
pub(crate) struct EventFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    hash: Xxh3,
}

/// What the events were when a checkpoint was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventMark {
    /// The last file.
    file: String,
    written: Mark,
}

impl EventFile {
    /// Begins a file in a run folder.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn create(run_dir: &Path) -> Result<Self, TrainError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // They are read in the order of their names.
        let last = names(run_dir).last().and_then(|name| seconds(name)).unwrap_or(0);
        let path = run_dir.join(format!("{}{:010}{}", NAME.0, now.max(last + 1), NAME.1));
        let file = File::create_new(&path)
            .and_then(|file| sync_folder(run_dir).map(|()| file))
            .map_err(|source| TrainError::Write { path: path.clone(), source })?;
        let mut events = EventFile { path, file, bytes: 0, hash: Xxh3::new() };
        events.write(0, What::FileVersion("brain.Event:2".to_owned()))?;
        Ok(events)
    }

    /// Goes on after a checkpoint at `step`, without what a crashed run wrote after it. Checkpoints of
    /// older versions have no mark, and their runs no events.
    ///
    /// # Errors
    /// [`TrainError::Read`], [`TrainError::Write`].
    pub(crate) fn resume(
        run_dir: &Path,
        mark: Option<&EventMark>,
        step: u64,
        warnings: &Warnings,
    ) -> Result<Self, TrainError> {
        if let Some(mark) = mark {
            for later in names(run_dir).iter().filter(|name| **name > mark.file) {
                let path = run_dir.join(later);
                fs::remove_file(&path).map_err(|source| TrainError::Write { path, source })?;
            }
            cut(&run_dir.join(&mark.file), mark.written, warnings)?;
        }
        let mut events = EventFile::create(run_dir)?;
        // For a TensorBoard that has shown what is gone.
        events.write(step + 1, What::Session(Session { status: Session::START }))?;
        Ok(events)
    }

    /// Takes the file of a run back that saved nothing.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn discard(&self) -> Result<(), TrainError> {
        fs::remove_file(&self.path).map_err(self.writing())
    }

    /// Adds values of a step, as one record.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn add(&mut self, step: u64, values: Vec<Value>) -> Result<(), TrainError> {
        if values.is_empty() { Ok(()) } else { self.write(step, What::Summary(Summary { values })) }
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn sync(&self) -> Result<(), TrainError> {
        self.file.sync_data().map_err(self.writing())
    }

    /// What a checkpoint notes.
    pub(crate) fn mark(&self) -> EventMark {
        let name = self.path.file_name().unwrap_or_default();
        let written = Mark::new(self.bytes, self.hash.digest());
        EventMark { file: name.to_string_lossy().into_owned(), written }
    }

    fn write(&mut self, step: u64, what: What) -> Result<(), TrainError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (wall_time, step) = (now.as_secs_f64(), step.cast_signed());
        let record = record(&Event { wall_time, step, what: Some(what) }.encode_to_vec());
        self.file.write_all(&record).map_err(self.writing())?;
        self.bytes += record.len() as u64;
        self.hash.update(&record);
        Ok(())
    }

    fn writing(&self) -> impl FnOnce(io::Error) -> TrainError + use<> {
        let path = self.path.clone();
        |source| TrainError::Write { path, source }
    }
}

/// The numbers of a line, each by its name below that of its part. What is not there is left out.
pub(crate) fn figures(part: &str, line: &impl Serialize) -> Vec<Value> {
    let line = serde_json::to_value(line).expect("plain structs always serialise");
    let fields = line.as_object().into_iter().flatten();
    let numbers = fields.filter_map(|(name, value)| Some((name, value.as_f64()?)));
    let numbers = numbers.filter(|(name, _)| !PLACES.contains(&name.as_str()));
    numbers.map(|(name, value)| Value::scalar(format!("{part}/{name}"), value)).collect()
}

/// The same of an epoch.
pub(crate) fn epoch_figures(line: &EpochLine) -> Vec<Value> {
    let loss = |tag: &str, loss: Option<f64>| loss.map(|loss| Value::scalar(tag, loss));
    let train = loss("train/epoch_loss", line.train_loss);
    let validation = loss("validation/loss", line.validation_loss);
    let losses = train.into_iter().chain(validation);
    losses.chain(figures("validation", &line.validation)).collect()
}

/// The event files of a run, in the order in which they are read.
fn names(run_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(run_dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| seconds(name).is_some()).collect();
    names.sort();
    names
}

fn seconds(name: &str) -> Option<u64> {
    name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.parse().ok()
}

/// Takes a file back to what it was. One that is not what was written stays as it is, with a warning:
/// nothing that a run computes depends on it. One that is gone stays so.
fn cut(path: &Path, mark: Mark, warnings: &Warnings) -> Result<(), TrainError> {
    let found = match plain_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|source| TrainError::Read { path: path.to_owned(), source })?,
    };
    match mark.of(&found) {
        Some(written) if written == found => Ok(()),
        Some(written) => write_whole(path, written)
            .map_err(|source| TrainError::Write { path: path.to_owned(), source }),
        None => {
            let path = path.display();
            warnings.warn(format!(
                "{path} is not what the run wrote, so TensorBoard may show less of it or some of it twice; weights and figures do not depend on it"
            ));
            Ok(())
        }
    }
}

/// A message as a record.
fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = Vec::new();
    for part in [&length, message] {
        record.extend(part);
        record.extend(checksum(part));
    }
    record
}

/// The CRC-32C of some bytes, masked as the format has it: a sum over bytes that hold sums is weak.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

impl std::fmt::Debug for EventFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "event_file_tests.rs"]
mod tests;
