//! What of a run is saved: all that it needs to go on to the same weights. How a checkpoint becomes files is
//! in `checkpoint.rs`.

use crate::{
    checkpoint::{CheckpointKind, Contents, SchemaFile},
    error::TrainError,
    learner::Learner,
    loss_scale,
    run::Run,
    state::{Scheduler, State, StreamShape},
};
use tch::{TchError, Tensor};

/// What the raw weights are called in `optimizer.safetensors`, where the model has averages.
pub(crate) fn raw_names(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("raw.{name}")).collect()
}

impl Run {
    /// Writes the state as these checkpoints.
    pub(crate) fn save(&mut self, order: &[CheckpointKind]) -> Result<(), TrainError> {
        self.events.sync()?;
        self.journal.sync()?;
        let Learner { model, optimizer, average, scaler, .. } = &self.learner;
        let names = &model.parameters().names;
        let mut optimizer_names = optimizer.state_names(names);
        let clones = |tensors: &[Tensor]| -> Vec<Tensor> {
            tensors.iter().map(Tensor::shallow_clone).collect()
        };
        let mut tensors = clones(self.learner.judged());
        tensors.extend(optimizer.state());
        if let Some(scaler) = scaler {
            optimizer_names.extend(loss_scale::STATE.map(str::to_owned));
            tensors.extend(scaler.state());
        }
        if let Some(average) = average {
            optimizer_names.extend(raw_names(names));
            tensors.extend(clones(average.raw(model.parameters())));
        }
        let host = self.readback.tensors(&tensors)?;
        let (weights, optimizer) = host.split_at(names.len());
        let contents = Contents {
            names,
            weights,
            optimizer_names: &optimizer_names,
            optimizer,
            state: &self.state(),
            schema: &self.schema(),
            scaling: &self.plan.scaling,
        };
        order.iter().try_for_each(|which| self.checkpoints.write(*which, &contents))
    }

    fn state(&self) -> State {
        State {
            step: self.learner.optimizer.steps(),
            epoch: self.epoch,
            position: self.done,
            seed: self.settings.seed,
            scheduler: Scheduler {
                kind: self.settings.schedule,
                steps_total: self.learner.rates.steps_total,
            },
            best_validation: self.best_validation,
            finished: false,
            history: self.history.clone(),
            settings: self.settings.clone(),
            stream: StreamShape::of(&self.plan),
            journal: Some(self.journal.mark()),
            events: Some(self.events.mark()),
        }
    }

    fn schema(&self) -> SchemaFile {
        let (schema, model) = (self.plan.schema.clone(), self.model.clone());
        SchemaFile { schema, model, precision: self.settings.precision }
    }
}

/// Copies of these weights.
pub(crate) fn snapshot(weights: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
    let _guard = tch::no_grad_guard();
    let copy = |tensor: &Tensor| {
        let mut copy = tensor.f_detach()?.f_empty_like()?;
        copy.f_copy_(tensor)?;
        Ok(copy)
    };
    weights.iter().map(copy).collect()
}
