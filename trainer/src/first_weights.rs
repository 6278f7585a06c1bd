//! The weights that a new run begins with, where they are those of another run and not drawn by its seed.

use crate::{
    checkpoint::{CheckpointKind, Checkpoints, SchemaFile},
    error::TrainError,
};
use millstream_data::DataSchema;
use millstream_model::{Model, ModelDescription, TensorFile};
use std::path::{Path, PathBuf};

/// The weights of another run's best epoch.
#[derive(Debug)]
pub(crate) struct FirstWeights {
    path: PathBuf,
    schema: SchemaFile,
    weights: TensorFile,
}

impl FirstWeights {
    /// Of the run in this folder.
    ///
    /// # Errors
    /// It has no such checkpoint, or that is damaged.
    pub(crate) fn of(run_dir: &Path) -> Result<Self, TrainError> {
        let checkpoints = Checkpoints::new(run_dir);
        let path = checkpoints.path(CheckpointKind::Best);
        if !path.exists() {
            return Err(TrainError::NoCheckpoint { path });
        }
        let best = checkpoints.open(CheckpointKind::Best)?.verify()?;
        Ok(FirstWeights { path, schema: best.schema()?, weights: best.weights()? })
    }

    /// Makes them those of a model that is shown what this schema says.
    ///
    /// # Errors
    /// They are of another model, or of one that is shown something else.
    pub(crate) fn put_into(
        mut self,
        model: &mut dyn Model,
        description: &ModelDescription,
        schema: &DataSchema,
    ) -> Result<(), TrainError> {
        let saved = &self.schema;
        if saved.model != *description || saved.schema.hash() != schema.hash() {
            return Err(TrainError::OtherModel { path: self.path });
        }
        Ok(model.parameters_mut().load(&mut self.weights)?)
    }
}
