//! The losses of a run: they stay on the device between two log lines, and are read here, counted, and
//! judged where they are no numbers.

use crate::{
    error::TrainError,
    learner::steps_per_epoch,
    nonfinite::{self, Nonfinite},
    run::Run,
    state::{History, LossSum},
    unread::Found,
};

/// So many times a person is told which windows were skipped.
const TOLD: u32 = 5;

impl Run {
    /// Reads what was found of the steps since the last read. Waits for the device.
    pub(crate) fn read_losses(&mut self) -> Result<(), TrainError> {
        let found = self.learner.unread.read(&mut self.readback)?;
        // Too large for 16 bits is no fault of the data.
        let may_overflow = self.learner.scaler.is_some();
        let mut lost: Option<(u64, &Found)> = None;
        for step in found.chunk_by(|a, b| a.step == b.step) {
            let no_number = step.iter().find(|batch| !batch.loss.is_finite());
            let at_fault =
                no_number.or(step.first().filter(|batch| batch.skipped && !may_overflow));
            match (at_fault, self.settings.nonfinite) {
                (Some(batch), Nonfinite::Stop) => return Err(self.not_finite(batch)),
                (Some(batch), Nonfinite::Skip) => {
                    let (count, first) = lost.unwrap_or((0, batch));
                    lost = Some((count + 1, first));
                    self.history.this_epoch.lost += 1;
                }
                (None, _) => {}
            }
            let History { this_epoch, since_log, skipped, .. } = &mut self.history;
            if step[0].skipped {
                for count in [&mut this_epoch.skipped, &mut since_log.skipped, skipped] {
                    *count += 1;
                }
            }
            for batch in step.iter().filter(|batch| batch.loss.is_finite()) {
                this_epoch.add(batch.loss, batch.windows);
                since_log.add(batch.loss, batch.windows);
            }
        }
        if let Some((count, first)) = lost.filter(|_| self.told < TOLD) {
            self.told += 1;
            let Found { step, .. } = first;
            let (what, windows) = (nonfinite::what(first), self.name(first));
            let epoch = self.epoch;
            self.warnings.warn(format!(
                "{count} steps were skipped, the first of them step {step} of epoch {epoch}, as {what}, of {windows}"
            ));
        }
        Ok(())
    }

    fn not_finite(&self, batch: &Found) -> TrainError {
        let (what, windows) = (nonfinite::what(batch), self.name(batch));
        TrainError::NotFinite { what, step: batch.step, epoch: self.epoch, windows }
    }

    /// Some windows of a batch that was read last.
    fn name(&self, batch: &Found) -> String {
        nonfinite::windows(&self.plan, batch, self.learner.unread.windows_of_last_read())
    }

    pub(crate) fn diverged(&self, part: &'static str, loss: f64) -> TrainError {
        TrainError::Diverged { part, step: self.learner.optimizer.steps(), epoch: self.epoch, loss }
    }

    /// The mean loss of the epoch that is over, if there is one.
    pub(crate) fn take_epoch_loss(&mut self) -> Result<f64, TrainError> {
        let (epoch, LossSum { samples, skipped, lost, .. }) = (self.epoch, self.history.this_epoch);
        let skipped = skipped - lost;
        let steps = steps_per_epoch(&self.plan, self.settings.accumulate.get());
        if samples == 0 {
            return Err(TrainError::NothingLearned { epoch, steps });
        }
        let precision = self.settings.precision;
        if self.learner.scaler.is_some() && skipped > steps / 10 {
            self.warnings.warn(format!(
                "{skipped} of {steps} steps of epoch {epoch} were skipped, as their gradients were not finite in {precision}; lower train.loss_scale, or compute in bf16 or f32 (train.precision)"
            ));
        }
        Ok(self.history.this_epoch.take_mean())
    }
}
