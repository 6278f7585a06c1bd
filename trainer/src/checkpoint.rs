//! Checkpoints: a folder that is there whole or not at all.
//!
//! Everything goes into `.last.partial-<pid>`, each file synced; then the old `last` is moved to
//! `.last.old`, the new one moved in, and the old one deleted. A crash between the two moves
//! leaves no `last`; whoever reads next puts `.last.old` back. Two runs in one folder at the same
//! time are not provided for.

use crate::{
    adamw,
    error::TrainError,
    script,
    settings::{ModelKind, ModelOptions},
    state::State,
    tensor_file::{self, TensorFile, sync},
};
use millstream_stage::{DataSchema, Scaling};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use tch::{CModule, Tensor};

/// The two checkpoints of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
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
    pub(crate) model: ModelShape,
}

/// Which model, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelShape {
    pub(crate) kind: ModelKind,
    pub(crate) options: ModelOptions,
}

/// What goes into a checkpoint. Tensors are on the host.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) names: &'a [String],
    pub(crate) weights: &'a [Tensor],
    pub(crate) optimizer: &'a [Tensor],
    pub(crate) script: &'a CModule,
    pub(crate) state: &'a State,
    pub(crate) schema: &'a SchemaFile,
    pub(crate) scaling: &'a Scaling,
}

/// The `checkpoints` folder of a run.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Which::Last => "last",
            Which::Best => "best",
        }
    }
}

impl Checkpoints {
    pub(crate) fn new(run_dir: &Path) -> Self {
        Checkpoints { folder: run_dir.join("checkpoints") }
    }

    pub(crate) fn path(&self, which: Which) -> PathBuf {
        self.folder.join(which.name())
    }

    fn old(&self, which: Which) -> PathBuf {
        self.folder.join(format!(".{}.old", which.name()))
    }

    /// Writes a checkpoint in place of the one before it.
    ///
    /// # Errors
    /// [`TrainError::Write`] or [`TrainError::WriteTensors`]; the checkpoint before it stays.
    pub(crate) fn write(&self, which: Which, contents: &Contents<'_>) -> Result<(), TrainError> {
        let _span = tracing::trace_span!("checkpoint").entered();
        let partial = self.folder.join(format!(".{}.partial-{}", which.name(), std::process::id()));
        remove_folder(&partial)?;
        let written = fill(&partial, contents).and_then(|()| self.replace(which, &partial));
        if written.is_err() {
            // Best effort, for the disk's sake; the first error is the one to report.
            drop(fs::remove_dir_all(&partial));
        }
        written
    }

    fn replace(&self, which: Which, partial: &Path) -> Result<(), TrainError> {
        let (path, old) = (self.path(which), self.old(which));
        if path.exists() {
            remove_folder(&old)?;
            fs::rename(&path, &old).map_err(writing(&old))?;
        }
        fs::rename(partial, &path).map_err(writing(&path))?;
        sync(&self.folder)?;
        remove_folder(&old)
    }

    /// Notes in the last checkpoint that its run is complete. Its weights stay as they are.
    ///
    /// # Errors
    /// [`TrainError::Write`], or that the state cannot be read.
    pub(crate) fn mark_finished(&self) -> Result<(), TrainError> {
        let path = self.path(Which::Last).join("state.json");
        let mut state: State = read_json(&path)?;
        state.finished = true;
        let partial = path.with_extension(format!("json.partial-{}", std::process::id()));
        write_json(&partial, &state)?;
        fs::rename(&partial, &path).map_err(writing(&path))?;
        sync(&self.path(Which::Last))
    }

    /// Clears up after a crash: removes what was half written, and puts the old checkpoint back
    /// where there is no other.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`] when there is neither.
    pub(crate) fn recover(&self, which: Which) -> Result<(), TrainError> {
        let (path, old) = (self.path(which), self.old(which));
        let half_written = format!(".{}.partial-", which.name());
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&half_written) {
                remove_folder(&entry.path())?;
            }
        }
        if path.exists() {
            return Ok(());
        }
        match fs::rename(&old, &path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(TrainError::NoCheckpoint { path })
            }
            Err(source) => Err(TrainError::Write { path, source }),
        }
    }

    /// # Errors
    /// [`TrainError::Read`] or [`TrainError::DamagedJson`].
    pub(crate) fn state(&self) -> Result<State, TrainError> {
        read_json(&self.path(Which::Last).join("state.json"))
    }

    /// # Errors
    /// [`TrainError::Read`] or [`TrainError::DamagedJson`].
    pub(crate) fn schema(&self) -> Result<SchemaFile, TrainError> {
        read_json(&self.path(Which::Last).join("schema.json"))
    }

    /// # Errors
    /// [`TrainError::DamagedTensors`].
    pub(crate) fn weights(&self, which: Which) -> Result<TensorFile, TrainError> {
        TensorFile::read(self.path(which).join("model.safetensors"))
    }

    /// # Errors
    /// [`TrainError::DamagedTensors`].
    pub(crate) fn optimizer(&self) -> Result<TensorFile, TrainError> {
        TensorFile::read(self.path(Which::Last).join("optimizer.safetensors"))
    }
}

/// Writes every file of a checkpoint into a new folder.
fn fill(folder: &Path, contents: &Contents<'_>) -> Result<(), TrainError> {
    fs::create_dir_all(folder).map_err(writing(folder))?;
    let Contents { names, weights, optimizer, script, state, schema, scaling } = contents;
    tensor_file::write(&folder.join("model.safetensors"), names, weights)?;
    let moments = adamw::state_names(names);
    tensor_file::write(&folder.join("optimizer.safetensors"), &moments, optimizer)?;
    write_bytes(&folder.join("model.pt"), &script::to_bytes(script)?)?;
    write_json(&folder.join("state.json"), state)?;
    write_json(&folder.join("schema.json"), schema)?;
    write_json(&folder.join("scaler.json"), scaling)?;
    sync(folder)
}

fn writing(path: &Path) -> impl FnOnce(io::Error) -> TrainError {
    let path = path.to_owned();
    move |source| TrainError::Write { path, source }
}

fn remove_folder(path: &Path) -> Result<(), TrainError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(path)(error)),
        _ => Ok(()),
    }
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

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let text = fs::read(path).map_err(|source| TrainError::Read { path: path.into(), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| TrainError::DamagedJson { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_between_the_two_moves_is_repaired() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(run.path());
        let old = checkpoints.old(Which::Last);
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("state.json"), "{}").unwrap();
        let partial = run.path().join("checkpoints/.last.partial-1");
        fs::create_dir(&partial).unwrap();
        checkpoints.recover(Which::Last).unwrap();
        assert!(checkpoints.path(Which::Last).join("state.json").exists());
        assert!(!old.exists() && !partial.exists());
    }

    #[test]
    fn nothing_to_recover_is_said_with_the_place() {
        let run = tempfile::tempdir().unwrap();
        let error = Checkpoints::new(run.path()).recover(Which::Last).unwrap_err().to_string();
        assert!(error.contains("checkpoints/last; nothing to resume"), "{error}");
    }

    #[test]
    fn an_older_checkpoint_gives_way() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(run.path());
        for text in ["one", "two"] {
            let partial = run.path().join("checkpoints/.best.partial-1");
            fs::create_dir_all(&partial).unwrap();
            fs::write(partial.join("state.json"), text).unwrap();
            checkpoints.replace(Which::Best, &partial).unwrap();
        }
        let path = checkpoints.path(Which::Best).join("state.json");
        assert_eq!(fs::read_to_string(path).unwrap(), "two");
        assert_eq!(fs::read_dir(&checkpoints.folder).unwrap().count(), 1, "nothing is left over");
    }
}
