//! Learning from one batch: forward, loss, backward, clip, step.
//!
//! Nothing here waits for the device: the loss is added up there and read by whoever logs it.
//! When to log, evaluate or save is decided in `run.rs`.

use crate::{
    clip::clipping_scale, dropout::batch_seed, error::TrainError, optimizers::Optimizer,
    schedules::Rates, settings::TrainSettings,
};
use millstream_data::{Heads, Phase, Plan, Tag};
use millstream_model::{
    BatchTensors, Mode, Model,
    fused::{Scaled, take_gradients},
};
use tch::{Device, Kind, TchError, Tensor};

/// The batches whose gradients make one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    /// Windows in all of them.
    pub(crate) windows: u64,
    /// Whether the batch asked about is the last of them.
    pub(crate) ends: bool,
}

impl Group {
    /// The group that training batch `index`, which has `rows` windows, is in. The last of an epoch
    /// may be smaller; groups never reach across epochs.
    pub(crate) fn of(plan: &Plan, accumulate: u32, index: u64, rows: u64) -> Self {
        if accumulate == 1 {
            // Holds for batches of any size; below, all but the last must be full.
            return Group { windows: rows, ends: true };
        }
        let (accumulate, size) = (u64::from(accumulate), plan.batch_size as u64);
        let start = index - index % accumulate;
        let end = (start + accumulate).min(plan.batches(Phase::Train));
        let windows = end.saturating_mul(size).min(plan.windows.train) - start * size;
        Group { windows, ends: index + 1 == end }
    }
}

/// Steps in one epoch.
pub(crate) fn steps_per_epoch(plan: &Plan, accumulate: u32) -> u64 {
    plan.batches(Phase::Train).div_ceil(u64::from(accumulate))
}

/// A model that learns.
#[derive(Debug)]
pub(crate) struct Learner {
    settings: TrainSettings,
    pub(crate) model: Box<dyn Model>,
    pub(crate) optimizer: Box<dyn Optimizer>,
    pub(crate) rates: Rates,
    heads: Heads,
    /// Loss of the batches since the last step, times their windows.
    pending: Tensor,
    /// The same of every step since it was last read.
    pub(crate) loss: Tensor,
}

impl Learner {
    /// # Errors
    /// When libtorch has no memory for what the optimizer keeps.
    pub(crate) fn new(
        settings: &TrainSettings,
        model: Box<dyn Model>,
        rates: Rates,
        device: Device,
    ) -> Result<Self, TrainError> {
        let zero = || Tensor::f_zeros([1], (Kind::Double, device));
        Ok(Learner {
            settings: settings.clone(),
            heads: settings.heads(),
            optimizer: settings.optimizer.listed().build(model.parameters(), settings)?,
            model,
            rates,
            pending: zero()?,
            loss: zero()?,
        })
    }

    /// The learning rate of the step after `steps`.
    pub(crate) fn rate(&self, steps: u64) -> f64 {
        self.rates.rate(steps)
    }

    /// Learns from a batch; takes a step if it ends its group.
    ///
    /// # Errors
    /// When the model or libtorch fails.
    pub(crate) fn learn(
        &mut self,
        batch: &BatchTensors,
        tag: Tag,
        group: Group,
    ) -> Result<(), TrainError> {
        if self.model.is_random() {
            let seed = batch_seed(self.settings.seed, tag.epoch, tag.index);
            tch::manual_seed(seed.cast_signed());
        }
        let rows = batch.rows() as f64;
        let outputs = self.model.forward(&batch.inputs, Mode::Train)?;
        let loss = self.settings.loss.of_batch(&self.heads, &outputs, batch)?;
        // Weighted by its share of the group's windows: the sum is the gradient of one big batch,
        // even where the last batch of an epoch is smaller.
        loss.f_mul_scalar(rows / group.windows as f64)?.f_backward()?;
        batch.finish();
        let sum = loss.f_detach()?.f_to_kind(Kind::Double)?.f_mul_scalar(rows)?;
        let _ = self.pending.f_add_(&sum)?;
        if group.ends {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), TchError> {
        let rate = self.rate(self.optimizer.steps());
        let parameters = &mut self.model.parameters_mut().tensors;
        let gradients = take_gradients(parameters)?;
        let limit = self.settings.clip_norm;
        let scale = (limit > 0.0).then(|| clipping_scale(&gradients, limit, None)).transpose()?;
        let scaled = Scaled { scale: scale.as_ref(), found_inf: None };
        self.optimizer.step(parameters, &gradients, rate, scaled)?;
        let _ = self.loss.f_add_(&self.pending)?;
        let _ = self.pending.f_zero_()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::plan;

    fn check(index: u64, windows: u64, ends: bool) {
        // 18 windows in batches of 4: five batches, the last with two windows.
        let rows = if index == 4 { 2 } else { 4 };
        let found = Group::of(&plan(1, [18, 0, 0]), 3, index, rows);
        assert_eq!(found, Group { windows, ends }, "batch {index}");
    }

    #[test]
    fn groups_end_with_the_epoch() {
        check(0, 12, false);
        check(2, 12, true);
        check(3, 6, false);
        check(4, 6, true);
        assert_eq!(steps_per_epoch(&plan(1, [18, 0, 0]), 3), 2);
    }

    #[test]
    fn a_batch_that_is_its_own_group_may_have_any_size() {
        let mut plan = plan(1, [18, 0, 0]);
        plan.by_time = true;
        for (index, rows) in [(0, 1), (1, 4), (2, 3)] {
            let found = Group::of(&plan, 1, index, rows);
            assert_eq!(found, Group { windows: rows, ends: true }, "batch {index}");
        }
    }
}
