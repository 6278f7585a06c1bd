//! A run that is under way: what to do with each batch, and what to do at the end of each pass.
//!
//! This is the training loop, turned inside out: batches are handed in one at a time, already in
//! order. How a batch is learned from is in `learner.rs`; how a run starts, resumes and ends is in
//! `trainer.rs`; what its losses say is in `run_losses.rs`, what it saves in `run_saving.rs`.

use crate::{
    checkpoint::{CheckpointKind, Checkpoints},
    error::TrainError,
    event_file::{EventFile, epoch_figures, figures},
    histogram::histograms,
    journal::{EpochLine, Journal},
    learner::{Group, Learner},
    pass::{Pass, PassResult},
    readback::Readback,
    report::{Baseline, EpochLoss, LogLine, Progress, TrainReport},
    run_saving::snapshot,
    settings::TrainSettings,
    state::{History, LossSum},
};
use millstream_data::{DeviceBatch, Phase, Plan, Tag};
use millstream_model::{BatchTensors, ModelDescription, device};
use millstream_stage::Warnings;
use std::{sync::Arc, time::Instant};
use tch::Tensor;

/// Who wants to know how the run goes.
pub(crate) type Observer = dyn FnMut(&Progress);

/// A run that is under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) settings: TrainSettings,
    pub(crate) plan: Arc<Plan>,
    pub(crate) model: ModelDescription,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) journal: Journal,
    pub(crate) events: EventFile,
    pub(crate) learner: Learner,
    /// The batch that must come next.
    pub(crate) expected: Option<Tag>,
    /// The epoch that is being learned, and how many of its batches the weights have seen.
    pub(crate) epoch: u32,
    pub(crate) done: u64,
    pub(crate) history: History,
    pub(crate) best_validation: Option<f64>,
    pub(crate) best: Option<Vec<Tensor>>,
    pub(crate) readback: Readback,
    pub(crate) last_log: Instant,
    pub(crate) validation: Option<Pass>,
    pub(crate) testing: Option<Pass>,
    pub(crate) test: Option<PassResult>,
    pub(crate) warnings: Warnings,
    /// How often a person was told of windows that were skipped.
    pub(crate) told: u32,
}

impl Run {
    /// Takes the next batch.
    pub(crate) fn accept(
        &mut self,
        batch: DeviceBatch,
        observe: &mut Observer,
    ) -> Result<(), TrainError> {
        let tag = batch.tag();
        if self.history.stopped_after.is_some() && tag.phase != Phase::Test {
            // Made before normalize knew.
            return Ok(());
        }
        if self.expected != Some(tag) {
            let expected = described(self.expected);
            return Err(TrainError::OutOfOrder { expected, found: tag.to_string() });
        }
        self.expected = self.plan.after(tag);
        self.announce(tag, observe);
        let batch = BatchTensors::new(batch)?;
        let found = match tag.phase {
            Phase::Train => {
                self.learn(batch, tag, observe)?;
                None
            }
            Phase::Validation => self.validate(&batch, tag)?,
            Phase::Test => {
                self.test_batch(&batch, tag)?;
                None
            }
            Phase::Predict => unreachable!("no run expects a batch of the predict phase"),
        };
        match found {
            Some(found) if tag.epoch == 0 => self.initial_validation(found, observe),
            found if tag.epoch > 0 && self.plan.ends_epoch(tag) => self.end_epoch(found, observe),
            _ => Ok(()),
        }
    }

    /// Tells of a pass that begins with this batch. A validation of small batches has thousands, and
    /// each word of them would be on the path of a step.
    fn announce(&self, tag: Tag, observe: &mut Observer) {
        let Tag { epoch, phase, index: 0 } = tag else { return };
        let windows = match phase {
            Phase::Validation => self.plan.windows.validation,
            Phase::Test => self.plan.windows.test,
            Phase::Train | Phase::Predict => return,
        };
        if phase == Phase::Test {
            observe(&Progress::Testing);
        }
        observe(&Progress::Evaluating { phase, epoch, windows });
    }

    fn learn(
        &mut self,
        batch: BatchTensors,
        tag: Tag,
        observe: &mut Observer,
    ) -> Result<(), TrainError> {
        let _span = tracing::trace_span!("learn").entered();
        let clock = Instant::now();
        let rows = batch.rows();
        let group = Group::of(&self.plan, self.settings.accumulate.get(), tag.index, rows);
        self.learner.learn(&batch, tag, group)?;
        // Back to its pool now, not after the log line is written.
        drop(batch);
        if group.ends {
            self.done = tag.index + 1;
            self.history.samples += group.windows;
            let (step, steps_total) =
                (self.learner.optimizer.steps(), self.learner.rates.steps_total);
            let samples = self.history.samples;
            observe(&Progress::Step { epoch: tag.epoch, step, steps_total, samples });
            if step % self.settings.log_every == 0 {
                self.log(step, observe)?;
            }
        }
        if self.plan.is_last(tag) {
            self.read_losses()?;
        }
        self.history.train_seconds += clock.elapsed().as_secs_f64();
        Ok(())
    }

    fn log(&mut self, step: u64, observe: &mut Observer) -> Result<(), TrainError> {
        self.read_losses()?;
        let seconds = self.last_log.elapsed().as_secs_f64();
        self.last_log = Instant::now();
        let LossSum { samples, skipped, .. } = self.history.since_log;
        let line = LogLine {
            step,
            epoch: self.epoch,
            loss: self.history.since_log.take_mean(),
            learning_rate: self.learner.rate(step - 1),
            samples_per_s: samples as f64 / seconds,
            skipped,
        };
        self.journal.append(&line)?;
        self.events.add(step, figures("train", &line))?;
        observe(&Progress::Log(line));
        Ok(())
    }

    /// Adds a batch to the validation pass; at its end, what it found.
    fn validate(
        &mut self,
        batch: &BatchTensors,
        tag: Tag,
    ) -> Result<Option<PassResult>, TrainError> {
        let windows = self.plan.windows.validation;
        let place = device(batch.batch().place());
        let pass = match self.validation.take() {
            Some(pass) => pass,
            None => Pass::new(&self.plan, windows, place, &self.settings)?,
        };
        self.learner.be_judged()?;
        let pass = self.validation.insert(pass);
        // The naive forecasts do not change with the epochs.
        let baselines = tag.epoch == 0;
        if baselines && tag.index == 0 {
            pass.with_baselines()?;
        }
        forecast(&self.learner, batch, pass)?;
        let ended = self.plan.is_last(tag);
        Ok(ended.then(|| pass.finish(&mut self.readback, baselines)).transpose()?)
    }

    fn test_batch(&mut self, batch: &BatchTensors, tag: Tag) -> Result<(), TrainError> {
        let windows = self.plan.windows.test;
        let place = device(batch.batch().place());
        let pass = match self.testing.take() {
            Some(pass) => pass,
            None => {
                let best = self.best.as_deref();
                let best = best.expect("an epoch ended before the test, so one is best");
                self.learner.model.parameters_mut().restore(best)?;
                let mut pass = Pass::new(&self.plan, windows, place, &self.settings)?;
                pass.with_baselines()?;
                pass
            }
        };
        let pass = self.testing.insert(pass);
        forecast(&self.learner, batch, pass)?;
        if self.plan.is_last(tag) {
            let found = pass.finish(&mut self.readback, true)?;
            let step = self.learner.optimizer.steps();
            self.events.add(step, figures("test", &found.model.overall))?;
            self.test = Some(found);
        }
        Ok(())
    }

    /// The end of the validation pass before the first step.
    fn initial_validation(
        &mut self,
        found: PassResult,
        observe: &mut Observer,
    ) -> Result<(), TrainError> {
        let loss = found.loss.ok_or_else(|| self.diverged("validation", f64::NAN))?;
        self.settings.loss.listed().check_validation(&found.model.overall)?;
        self.history.first_validation_loss = Some(loss);
        self.history.validation_baseline = found.baseline;
        let validation = Some(found.model.overall);
        self.history.first_validation = validation;
        let line = EpochLine::before(loss, validation);
        self.journal.append(&line)?;
        self.events.add(0, epoch_figures(&line))?;
        observe(&line.done());
        Ok(())
    }

    fn end_epoch(
        &mut self,
        found: Option<PassResult>,
        observe: &mut Observer,
    ) -> Result<(), TrainError> {
        let epoch = self.epoch;
        let train_loss = self.take_epoch_loss()?;
        self.settings.loss.listed().check_epoch(train_loss)?;
        let validation_loss = match &found {
            None => None,
            Some(found) => Some(found.loss.ok_or_else(|| self.diverged("validation", f64::NAN))?),
        };
        self.history.losses.push(EpochLoss { epoch, train_loss, validation_loss });
        self.learner.rates.note(&self.history.losses);
        let validation = found.as_ref().map(|found| found.model.overall);
        // With nothing to judge by, the latest weights are the best there are.
        let improved = match (validation_loss, self.best_validation) {
            (Some(now), Some(best)) => now < best,
            _ => true,
        };
        if improved {
            self.best_validation = validation_loss;
            self.history.best_epoch = Some(epoch);
            self.history.validation = found.map(|found| found.model);
            self.best = Some(snapshot(self.learner.judged())?);
        }
        let train_loss = Some(train_loss);
        let line = EpochLine { epoch, train_loss, validation_loss, validation };
        self.journal.append(&line)?;
        self.show_epoch(&line)?;
        let stop = self.stops_early(epoch);
        (self.epoch, self.done) = (if stop.is_some() { self.plan.epochs } else { epoch } + 1, 0);
        self.history.stopped_after = stop.map(|_| epoch);
        // Best first: a crash in between leaves a `last` that will redo this epoch and find it
        // best again, never a `last` that believes in a best that is not there.
        let order = if improved {
            &[CheckpointKind::Best, CheckpointKind::Last][..]
        } else {
            &[CheckpointKind::Last]
        };
        self.save(order)?;
        observe(&line.done());
        if let Some(best_epoch) = stop {
            self.plan.end_training();
            self.expected = self.plan.test();
            observe(&Progress::StoppedEarly { epoch, best_epoch });
        }
        Ok(())
    }

    /// The best epoch, where the validation loss has not fallen since for so long that this one is the
    /// last.
    fn stops_early(&self, epoch: u32) -> Option<u32> {
        let (patience, best) = (self.settings.early_stop, self.history.best_epoch?);
        let is_over = patience > 0 && epoch - best >= patience && epoch < self.plan.epochs;
        is_over.then_some(best)
    }

    /// Shows TensorBoard what an epoch has brought.
    fn show_epoch(&mut self, line: &EpochLine) -> Result<(), TrainError> {
        let step = self.learner.optimizer.steps();
        self.events.add(step, epoch_figures(line))?;
        if !self.settings.histograms {
            return Ok(());
        }
        let parameters = self.learner.model.parameters();
        let weights = self.readback.tensors(self.learner.judged())?;
        self.events.add(step, histograms(&parameters.names, &weights)?)
    }

    /// The whole stream came.
    pub(crate) fn complete(&mut self) -> Result<(), TrainError> {
        if self.expected.is_some() {
            return Err(TrainError::EndedEarly { expected: described(self.expected) });
        }
        self.events.sync()?;
        self.checkpoints.mark_finished()
    }

    /// The stream was cut short on request: saves where to go on. Before the first step there is
    /// nothing to go on from but the seed, and a run that resumed there would lack its look at
    /// validation before training; so nothing is left of it.
    pub(crate) fn interrupt(&mut self) -> Result<(), TrainError> {
        if self.learner.optimizer.steps() == 0 {
            self.events.discard()?;
            return self.journal.discard();
        }
        if self.epoch > self.plan.epochs {
            // Only the test was left; the last epoch's end has saved all there is, and the model
            // may hold the best weights by now instead of the last.
            return Ok(());
        }
        self.read_losses()?;
        self.save(&[CheckpointKind::Last])
    }

    pub(crate) fn report(self) -> TrainReport {
        let mut report = report(self.history, self.learner.optimizer.steps());
        report.device_reads = self.readback.reads();
        if let Some(test) = self.test {
            report.test = Some(test.model);
            report.baseline = test.baseline;
        }
        report
    }
}

/// What a run has found so far, as a report.
pub(crate) fn report(history: History, steps: u64) -> TrainReport {
    TrainReport {
        saved: steps > 0,
        steps,
        train_loss: history.losses.last().map(|loss| loss.train_loss),
        first_validation_loss: history.first_validation_loss,
        first_validation: history.first_validation,
        validation: history.validation,
        validation_baseline: history.validation_baseline,
        test: None,
        baseline: Baseline::default(),
        best_epoch: history.best_epoch,
        stopped_after: history.stopped_after,
        skipped: history.skipped,
        samples: history.samples,
        train_seconds: history.train_seconds,
        losses: history.losses,
        device_reads: 0,
    }
}

/// A batch that should come, as an error names it.
fn described(expected: Option<Tag>) -> String {
    expected.map_or_else(|| "the end of the stream".to_owned(), |tag| tag.to_string())
}

/// Adds the forecasts of a batch to a pass.
fn forecast(learner: &Learner, batch: &BatchTensors, pass: &mut Pass) -> Result<(), TrainError> {
    let _span = tracing::trace_span!("evaluate").entered();
    let _guard = tch::no_grad_guard();
    pass.add(batch, &learner.evaluate(batch)?)?;
    batch.finish();
    Ok(())
}
