//! Learning from one batch: forward, loss, backward, clip, step.
//!
//! Nothing here waits for the device: losses stay there until somebody logs them.
//! When to log, evaluate or save is decided in `run.rs`.

use crate::{
    average::Average, dropout::batch_seed, error::TrainError, loss_scale::Scaler,
    optimizers::Optimizer, schedules::Rates, settings::TrainSettings, unread::Unread,
};
use millstream_data::{Heads, Phase, Plan, Tag};
use millstream_model::{
    BatchTensors, Evaluated, Mode, Model, ModelError, evaluate,
    fused::{Checked, Scaled, check_gradients, take_gradients},
};
use tch::{Device, TchError, Tensor};

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
    /// `None` where losses are not scaled.
    pub(crate) scaler: Option<Scaler>,
    /// `None` where weights are not averaged.
    pub(crate) average: Option<Average>,
    /// Of the batches since somebody has read them.
    pub(crate) unread: Unread,
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
        let (first, parameters) =
            (settings.loss_scale.first(settings.precision), model.parameters());
        let average =
            (settings.ema > 0.0).then(|| Average::new(parameters, settings.ema)).transpose()?;
        Ok(Learner {
            settings: settings.clone(),
            heads: settings.heads(),
            optimizer: settings.optimizer.listed().build(parameters, settings)?,
            scaler: first.map(|first| Scaler::new(first, device)).transpose()?,
            average,
            model,
            rates,
            unread: Unread::default(),
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
        if let Some(average) = &mut self.average {
            average.take_out(self.model.parameters_mut())?;
        }
        if self.model.is_random() {
            let seed = batch_seed(self.settings.seed, tag.epoch, tag.index);
            tch::manual_seed(seed.cast_signed());
        }
        let outputs = self.settings.precision.forward(&*self.model, &batch.inputs, Mode::Train)?;
        let loss = self.settings.loss.of_batch(&self.heads, &outputs, batch)?;
        let rows = batch.rows();
        // Weighted by its share of the group's windows: the sum is the gradient of one big batch, even
        // where the last batch of an epoch is smaller.
        let share = (rows != group.windows).then(|| rows as f64 / group.windows as f64);
        let weighted = share.map(|share| loss.f_mul_scalar(share)).transpose()?;
        let weighted = weighted.as_ref().unwrap_or(&loss);
        match &self.scaler {
            None => weighted.f_backward()?,
            Some(scaler) => weighted.f_mul(&scaler.scale)?.f_backward()?,
        }
        batch.finish();
        let meta = batch.batch().meta();
        self.unread.add(self.optimizer.steps() + 1, &meta.series, &meta.time, loss.f_detach()?);
        if group.ends {
            self.step()?;
        }
        Ok(())
    }

    /// Forecasts a batch that is not learned from.
    ///
    /// # Errors
    /// When the model or libtorch fails.
    pub(crate) fn evaluate(&self, batch: &BatchTensors) -> Result<Evaluated, ModelError> {
        evaluate(&*self.model, self.settings.precision, &self.heads, batch)
    }

    /// A step that changes nothing where a loss or a gradient is no number; only the device knows.
    fn step(&mut self) -> Result<(), TchError> {
        let rate = self.rate(self.optimizer.steps());
        let parameters = &mut self.model.parameters_mut().tensors;
        let gradients = take_gradients(parameters)?;
        let scale = self.scaler.as_ref().map(|scaler| &scaler.scale);
        let Checked { scale, found_inf } =
            check_gradients(&gradients, self.unread.pending(), self.settings.clip_norm, scale)?;
        let scaled = Scaled { scale: scale.as_ref(), found_inf: Some(&found_inf) };
        self.optimizer.step(parameters, &gradients, rate, scaled)?;
        if let Some(scaler) = &mut self.scaler {
            scaler.update(&found_inf)?;
        }
        if let Some(average) = &mut self.average {
            average.update(parameters, self.optimizer.steps())?;
        }
        self.unread.step_taken(found_inf)
    }

    /// Gives the model the weights to forecast with.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn be_judged(&mut self) -> Result<(), ModelError> {
        match &mut self.average {
            None => Ok(()),
            Some(average) => average.put_in(self.model.parameters_mut()),
        }
    }

    /// The weights to forecast with.
    pub(crate) fn judged(&self) -> &[Tensor] {
        match &self.average {
            None => &self.model.parameters().tensors,
            Some(average) => average.tensors(),
        }
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
