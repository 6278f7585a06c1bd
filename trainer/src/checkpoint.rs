//! Checkpoints: a folder that is there whole or not at all.
//!
//! Everything goes into `.last.partial-…`, each file synced, with the checksums of all of them; then
//! it takes the place of the old `last`, as [`replace_folder`] does it. Whoever writes or clears up
//! holds the run's lock.
//!
//! Nothing is read before its checksum was: see [`Opened`].

use crate::{error::TrainError, state::State};
use millstream_data::{
    Checksums, DataSchema, Scaling, partial_folder, replace_folder, restore_folder, sync_folder,
};
use millstream_model::{ModelDescription, Precision, TensorFile, json_reason, reason};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use tch::Tensor;

const WEIGHTS: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const SCHEMA: &str = "schema.json";
const SCALER: &str = "scaler.json";

/// What a checkpoint consists of, besides the checksums of these.
const FILES: [&str; 5] = [WEIGHTS, OPTIMIZER, STATE, SCHEMA, SCALER];

/// The two checkpoints of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointKind {
    /// The latest state, to resume from.
    Last,
    /// The epoch with the lowest validation loss, to predict with.
    Best,
}

/// `schema.json`: the data contract and the model's shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SchemaFile {
    #[serde(flatten)]
    pub(crate) schema: DataSchema,
    pub(crate) model: ModelDescription,
    /// What the model computes with; it was `f32` when this was not said.
    #[serde(default)]
    pub(crate) precision: Precision,
}

/// What goes into a checkpoint. Tensors are on the host.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) names: &'a [String],
    pub(crate) weights: &'a [Tensor],
    pub(crate) optimizer_names: &'a [String],
    pub(crate) optimizer: &'a [Tensor],
    pub(crate) state: &'a State,
    pub(crate) schema: &'a SchemaFile,
    pub(crate) scaling: &'a Scaling,
}

/// The `checkpoints` folder of a run.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
}

impl CheckpointKind {
    fn name(self) -> &'static str {
        match self {
            CheckpointKind::Last => "last",
            CheckpointKind::Best => "best",
        }
    }
}

impl Checkpoints {
    pub(crate) fn new(run_dir: &Path) -> Self {
        Checkpoints { folder: run_dir.join("checkpoints") }
    }

    /// Whether there is anything that could be a checkpoint.
    pub(crate) fn exist(&self) -> bool {
        self.folder.exists()
    }

    /// Where a run's last checkpoint is.
    pub(crate) fn last(run_dir: &Path) -> PathBuf {
        Checkpoints::new(run_dir).path(CheckpointKind::Last)
    }

    pub(crate) fn path(&self, which: CheckpointKind) -> PathBuf {
        self.folder.join(which.name())
    }

    /// Writes a checkpoint in place of the one before it.
    ///
    /// # Errors
    /// [`TrainError::Write`] or [`TrainError::WriteTensors`]; the checkpoint before it stays.
    pub(crate) fn write(
        &self,
        which: CheckpointKind,
        contents: &Contents<'_>,
    ) -> Result<(), TrainError> {
        let _span = tracing::trace_span!("checkpoint").entered();
        self.put(which, |folder| fill(folder, contents))
    }

    /// Puts a new folder in place of a checkpoint.
    fn put(
        &self,
        which: CheckpointKind,
        fill: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let path = self.path(which);
        let partial = partial_folder(&path);
        let put = self
            .make(&partial)
            .map_err(writing(&partial))
            .and_then(|()| fill(&partial))
            .and_then(|()| seal(&partial))
            .and_then(|()| replace_folder(&partial, &path).map_err(writing(&path)));
        if put.is_err() {
            // Best effort, for the disk's sake; the first error is the one to report. A folder that
            // was set aside goes back: whoever predicts next should not depend on a resume.
            drop(restore_folder(&path));
        }
        put
    }

    /// Makes a folder for a checkpoint in a run folder that is there: a run that was removed does not
    /// come back.
    fn make(&self, partial: &Path) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            Ok(()) => sync_folder(self.folder.parent().unwrap_or(Path::new(".")))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        fs::create_dir(partial)
    }

    /// Notes in the last checkpoint that its run is complete. Its other files stay as they are:
    /// the new folder shares them with the old one.
    ///
    /// # Errors
    /// [`TrainError::Write`], or that the checkpoint cannot be read.
    pub(crate) fn mark_finished(&self) -> Result<(), TrainError> {
        let mut state = self.open_last()?.state()?;
        state.finished = true;
        let last = self.path(CheckpointKind::Last);
        self.put(CheckpointKind::Last, |folder| {
            share(&last, folder, FILES.into_iter().filter(|name| *name != STATE))?;
            write_json(&folder.join(STATE), &state)
        })
    }

    /// Whether a killed process left something beside the checkpoints.
    pub(crate) fn have_leftovers(&self) -> bool {
        let mut entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."))
    }

    /// Clears up after a process that was killed: removes what was half written, and puts a
    /// checkpoint back that was set aside.
    ///
    /// # Errors
    /// [`TrainError::Write`] when it cannot be put back.
    pub(crate) fn put_back(&self) -> Result<(), TrainError> {
        [CheckpointKind::Last, CheckpointKind::Best].into_iter().try_for_each(|which| {
            let path = self.path(which);
            restore_folder(&path).map_err(writing(&path))
        })
    }

    /// The same, to go on with the run. Of the first two checkpoints, which hold the same, the disk
    /// may have had room for `best` alone; then the run goes on from that.
    ///
    /// # Errors
    /// [`TrainError::Write`].
    pub(crate) fn recover(&self) -> Result<(), TrainError> {
        self.put_back()?;
        let best = self.path(CheckpointKind::Best);
        if self.path(CheckpointKind::Last).exists() || !best.exists() {
            return Ok(());
        }
        self.open(CheckpointKind::Best)?.verify()?;
        self.put(CheckpointKind::Last, |folder| share(&best, folder, FILES.into_iter()))
    }

    /// The last checkpoint with its checksums.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`] when there is none, [`TrainError::Damaged`] when it is not what
    /// was written.
    pub(crate) fn open_last(&self) -> Result<Opened, TrainError> {
        let path = self.path(CheckpointKind::Last);
        if !path.exists() {
            return Err(TrainError::NoCheckpoint { path });
        }
        self.open(CheckpointKind::Last)
    }

    /// A checkpoint with its checksums.
    ///
    /// # Errors
    /// [`TrainError::Damaged`] when there are none, or not those that were written.
    pub(crate) fn open(&self, which: CheckpointKind) -> Result<Opened, TrainError> {
        let folder = self.path(which);
        Ok(Opened { checksums: Checksums::read(&folder)?, folder })
    }
}

/// A checkpoint of which every file is checked before it is read.
#[derive(Debug)]
pub(crate) struct Opened {
    folder: PathBuf,
    checksums: Checksums,
}

impl Opened {
    /// Checks all files, those that nobody is about to read too.
    ///
    /// # Errors
    /// [`TrainError::Damaged`] with the first that is not what was written.
    pub(crate) fn verify(self) -> Result<Self, TrainError> {
        for name in FILES {
            self.checksums.read_file(name)?;
        }
        Ok(self)
    }

    /// # Errors
    /// [`TrainError::Damaged`] or [`TrainError::DamagedJson`], as below.
    pub(crate) fn state(&self) -> Result<State, TrainError> {
        self.json(STATE)
    }

    pub(crate) fn schema(&self) -> Result<SchemaFile, TrainError> {
        self.json(SCHEMA)
    }

    pub(crate) fn scaling(&self) -> Result<Scaling, TrainError> {
        self.json(SCALER)
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, TrainError> {
        let text = self.checksums.read_file(name)?;
        serde_json::from_slice(&text).map_err(|error| {
            let (path, reason) = (self.folder.join(name), json_reason(&error));
            TrainError::DamagedJson { path, reason }
        })
    }

    /// # Errors
    /// [`TrainError::Damaged`], or that they are no tensors.
    pub(crate) fn weights(&self) -> Result<TensorFile, TrainError> {
        self.tensors(WEIGHTS)
    }

    pub(crate) fn optimizer(&self) -> Result<TensorFile, TrainError> {
        self.tensors(OPTIMIZER)
    }

    fn tensors(&self, name: &str) -> Result<TensorFile, TrainError> {
        let bytes = self.checksums.read_file(name)?;
        Ok(TensorFile::parse(self.folder.join(name), &bytes)?)
    }
}

/// Writes every file of a checkpoint.
fn fill(folder: &Path, contents: &Contents<'_>) -> Result<(), TrainError> {
    let Contents { names, weights, optimizer_names, optimizer, state, schema, scaling } = contents;
    write_tensors(&folder.join(WEIGHTS), names, weights)?;
    write_tensors(&folder.join(OPTIMIZER), optimizer_names, optimizer)?;
    write_json(&folder.join(STATE), state)?;
    write_json(&folder.join(SCHEMA), schema)?;
    write_json(&folder.join(SCALER), scaling)
}

/// Writes the checksums of a folder's files beside them.
fn seal(folder: &Path) -> Result<(), TrainError> {
    let mut checksums = Checksums::default();
    for name in FILES {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|source| TrainError::Read { path, source })?;
        checksums.add(name, &bytes);
    }
    write_bytes(&folder.join(Checksums::FILE), checksums.to_text().as_bytes())?;
    sync(folder)
}

fn writing(path: &Path) -> impl FnOnce(io::Error) -> TrainError {
    let path = path.to_owned();
    move |source| TrainError::Write { path, source }
}

/// Has files of one checkpoint in another too.
fn share<'a>(
    from: &Path,
    to: &Path,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), TrainError> {
    for name in names {
        let (from, to) = (from.join(name), to.join(name));
        // Not every file system has links; a copy is on the disk only once it was synced.
        fs::hard_link(&from, &to)
            .or_else(|_| fs::copy(&from, &to).and_then(|_| fs::File::open(&to)?.sync_all()))
            .map_err(writing(&to))?;
    }
    Ok(())
}

/// Writes tensors under these names and waits until they are on the disk.
fn write_tensors(path: &Path, names: &[String], tensors: &[Tensor]) -> Result<(), TrainError> {
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(tensors).collect();
    Tensor::write_safetensors(&named, path)
        .map_err(|error| TrainError::WriteTensors { path: path.into(), reason: reason(&error) })?;
    sync(path)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain structs always serialise");
    text.push(b'\n');
    write_bytes(path, &text)
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    fs::write(path, bytes).map_err(writing(path))?;
    sync(path)
}

/// Waits until a file or folder that was written before is on the disk.
fn sync(path: &Path) -> Result<(), TrainError> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(writing(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_in_the_words_of_the_system() {
        let tensor = Tensor::from_slice(&[1.0f32, 2.0]);
        let error = write_tensors(Path::new("/dev/full"), &["a".into()], &[tensor]).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
    }

    #[test]
    fn a_crash_between_the_two_moves_is_repaired() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(run.path());
        let old = run.path().join("checkpoints/.last.old");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("state.json"), "{}").unwrap();
        let partial = run.path().join("checkpoints/.last.partial-1");
        fs::create_dir(&partial).unwrap();
        assert!(checkpoints.have_leftovers());
        checkpoints.recover().unwrap();
        assert!(checkpoints.path(CheckpointKind::Last).join("state.json").exists());
        assert!(!checkpoints.have_leftovers());
    }

    #[test]
    fn nothing_to_recover_is_said_with_the_place() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(run.path());
        checkpoints.recover().unwrap();
        let error = checkpoints.open_last().unwrap_err().to_string();
        assert!(error.contains("checkpoints/last; nothing to resume"), "{error}");
    }
}
