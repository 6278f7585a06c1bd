//! [`Trainer`]: the sink at the end of a training line.
//!
//! It knows nothing until the first batch comes: that batch's plan says what the stream holds, and
//! its place says on which device to compute.

use crate::{
    checkpoint::{CheckpointKind, Checkpoints, SchemaFile},
    error::TrainError,
    event_file::EventFile,
    event_messages::Value,
    first_weights::FirstWeights,
    journal::{self, EpochLine, Journal, Resumed},
    learner::{Learner, steps_per_epoch},
    loss_scale,
    optimizers::STEPS,
    precision_check,
    readback::Readback,
    report::{Progress, TrainReport},
    run::{self, Observer, Run},
    run_lock::{self, RunLock},
    run_saving::raw_names,
    schedules::Rates,
    settings::TrainSettings,
    state::{History, Position, State, StreamShape},
    unchanged::Unchanged,
};
use millstream_data::{DeviceBatch, Phase, Scaling, available_memory, remove_leftovers};
use millstream_model::{Architecture, ModelDescription, Shape, TensorFile, usable};
use millstream_stage::{Ending, Flow, Sink, Warnings};
use std::{path::Path, sync::Arc, time::Instant};
use tch::{Device, Tensor};

/// Trains a model on the batches it is given and leaves checkpoints and metrics in a run folder.
///
/// The stream is validation once (epoch 0), then each epoch's training and validation batches,
/// then the test batches; any part but training may be empty.
pub struct Trainer {
    settings: TrainSettings,
    lock: RunLock,
    /// `None` for the one that the settings name.
    architecture: Option<Box<dyn Architecture>>,
    warnings: Warnings,
    observer: Box<Observer>,
    /// What TensorBoard shows as the settings; `None` for those of the trainer.
    settings_text: Option<String>,
    saved: Option<Saved>,
    /// What a new run begins with, in place of weights drawn by its seed.
    first: Option<FirstWeights>,
    /// `None` until the first batch.
    run: Option<Box<Run>>,
}

/// A checkpoint, read but not yet fitted into a model.
#[derive(Debug)]
struct Saved {
    state: State,
    schema: SchemaFile,
    scaling: Scaling,
    weights: TensorFile,
    optimizer: TensorFile,
    best: Option<TensorFile>,
}

/// Where a run that was interrupted goes on. Whoever reads this to go on should hold the lock from
/// here to there: [`RunLock::position`].
///
/// # Errors
/// [`TrainError::NoCheckpoint`] when the folder has none, [`TrainError::InUse`] when the run is under
/// way, or that its state cannot be read.
pub fn read_position(run_dir: &Path) -> Result<Position, TrainError> {
    RunLock::take(run_dir, &run_lock::program())?.position()
}

impl Trainer {
    /// A new run in this folder, which is made if need be, and goes again if nothing comes of it.
    ///
    /// # Errors
    /// [`TrainError::Setting`] when a setting is out of range, [`TrainError::HoldsARun`] when the
    /// folder has a run already, [`TrainError::InUse`] when somebody is writing there.
    pub fn new(
        settings: TrainSettings,
        run_dir: &Path,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        Trainer::new_in(RunLock::take_new(run_dir, &run_lock::program())?, settings, observer)
    }

    /// The same with a lock that is held already.
    ///
    /// # Errors
    /// As for [`Trainer::new`].
    pub fn new_in(
        lock: RunLock,
        settings: TrainSettings,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        let run_dir = lock.run_dir();
        if Checkpoints::new(run_dir).exist() || run_dir.join(journal::FILE).exists() {
            return Err(TrainError::HoldsARun { path: run_dir.to_owned() });
        }
        Ok(Trainer::made(lock, settings, observer, None))
    }

    /// Goes on with the run in this folder. Fed the batches from its [`read_position`] on, it ends
    /// with the weights of a run that was never interrupted, bit for bit on the CPU with the same
    /// number of threads.
    ///
    /// # Errors
    /// A setting is out of range or differs where it must not ([`TrainError::Changed`]), the run is
    /// under way ([`TrainError::InUse`]), or its checkpoint is missing or damaged.
    pub fn resume(
        settings: TrainSettings,
        run_dir: &Path,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        Trainer::resume_in(RunLock::take(run_dir, &run_lock::program())?, settings, observer)
    }

    /// The same with a lock that is held already.
    ///
    /// # Errors
    /// As for [`Trainer::resume`].
    pub fn resume_in(
        lock: RunLock,
        settings: TrainSettings,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        let checkpoints = Checkpoints::new(lock.run_dir());
        checkpoints.recover()?;
        remove_leftovers(lock.run_dir());
        let last = checkpoints.open_last()?.verify()?;
        let state = last.state()?;
        let path = checkpoints.path(CheckpointKind::Last);
        Unchanged { path: &path }.settings(&state.settings, &settings)?;
        let best = match state.history.best_epoch {
            None => None,
            Some(_) => Some(checkpoints.open(CheckpointKind::Best)?.verify()?.weights()?),
        };
        let saved = Saved {
            state,
            schema: last.schema()?,
            scaling: last.scaling()?,
            weights: last.weights()?,
            optimizer: last.optimizer()?,
            best,
        };
        Ok(Trainer::made(lock, settings, observer, Some(saved)))
    }

    fn made(
        lock: RunLock,
        settings: TrainSettings,
        observer: Box<dyn FnMut(&Progress)>,
        saved: Option<Saved>,
    ) -> Self {
        Trainer {
            settings,
            lock,
            architecture: None,
            warnings: Warnings::default(),
            observer,
            settings_text: None,
            saved,
            first: None,
            run: None,
        }
    }

    /// Trains a model of your own, in place of the one that the settings name: their `model` and
    /// `model_options` are then not read. A run is resumed with the architecture it was begun with.
    #[must_use]
    pub fn with_model(mut self, architecture: impl Architecture + 'static) -> Self {
        self.architecture = Some(Box::new(architecture));
        self
    }

    /// Begins a new run with the weights of the best epoch of the run in this folder, in place of those
    /// that the seed draws. All else is new: the optimizer, the schedule, the scaling. A run that goes
    /// on does so from its own weights.
    ///
    /// # Errors
    /// The run has no such checkpoint, or it is damaged. That it is of another model, or one that is shown
    /// something else, is found with the first batch: [`TrainError::OtherModel`].
    pub fn with_first_weights_of(mut self, run_dir: &Path) -> Result<Self, TrainError> {
        self.first = Some(FirstWeights::of(run_dir)?);
        Ok(self)
    }

    /// Tells these of what a person should know.
    #[must_use]
    pub fn warn_to(mut self, warnings: Warnings) -> Self {
        if let Some(line) = self.lock.warning() {
            warnings.warn(line);
        }
        self.warnings = warnings;
        self
    }

    /// Shows this in TensorBoard as the settings of a new run, as Markdown, in place of the trainer's
    /// own. It must hold no password.
    #[must_use]
    pub fn with_settings_text(mut self, text: impl Into<String>) -> Self {
        self.settings_text = Some(text.into());
        self
    }

    /// Sets everything up for the stream that this batch is of.
    fn start(&mut self, batch: &DeviceBatch) -> Result<Box<Run>, TrainError> {
        let plan = Arc::clone(batch.plan());
        if plan.batches(Phase::Train) == 0 {
            let (windows, batch_size) = (plan.windows.train, plan.batch_size);
            return Err(TrainError::NoTrainingBatch { windows, batch_size });
        }
        let settings = self.settings.clone();
        let architecture = match self.architecture.take() {
            Some(architecture) => architecture,
            None => settings.architecture()?,
        };
        architecture.check()?;
        settings.check_stream(&plan, &*architecture)?;
        let place = usable(batch.place())?;
        let heads = settings.heads();
        let shape = Shape::of(&batch.layout(), &plan.schema, &plan.scaling).with_heads(&heads);
        if place == Device::Cpu
            && let Some(available) = available_memory()
        {
            architecture.check_room(&shape, available)?;
        }
        let mut model = architecture.build(&shape, settings.seed, place)?;
        if let (Some(first), None) = (self.first.take(), &self.saved) {
            let description = ModelDescription::of(&*architecture).with_heads(heads.clone());
            first.put_into(&mut *model, &description, &plan.schema)?;
        }
        let (precision, name) = (settings.precision, architecture.name());
        precision_check::check(precision, &*model, name, &batch.layout(), place)?;
        let per_epoch = steps_per_epoch(&plan, settings.accumulate.get());
        let steps_total = per_epoch.saturating_mul(plan.epochs.into());
        let rates = Rates::new(&settings, per_epoch, steps_total);
        let learner = Learner::new(&settings, model, rates, place)?;
        let saved = self.saved.take();
        let run_dir = self.lock.run_dir();
        let (journal, events) = match &saved {
            None => (Journal::create(run_dir)?, self.create_events()?),
            Some(saved) => {
                let State { step, epoch, journal: mark, ref history, ref events, .. } = saved.state;
                let first = history.first_validation_loss;
                let first = first.map(|loss| EpochLine::before(loss, history.first_validation));
                let resumed = Resumed { mark, step, epoch, first };
                let journal = Journal::resume(run_dir, &resumed, &self.warnings)?;
                (journal, EventFile::resume(run_dir, events.as_ref(), step, &self.warnings)?)
            }
        };
        let mut run = Run {
            expected: plan.first(),
            checkpoints: Checkpoints::new(self.lock.run_dir()),
            journal,
            events,
            learner,
            epoch: 1,
            done: 0,
            history: History::default(),
            best_validation: None,
            best: None,
            readback: Readback::default(),
            last_log: Instant::now(),
            validation: None,
            testing: None,
            test: None,
            warnings: self.warnings.clone(),
            told: 0,
            plan: Arc::clone(&plan),
            model: ModelDescription::of(&*architecture).with_heads(heads),
            settings,
        };
        if let Some(saved) = saved {
            let put = saved.put_into(&mut run);
            // A run that does not go on has no events either.
            put.inspect_err(|_| drop(run.events.discard()))?;
        }
        (self.observer)(&Progress::Started { plan, steps_total });
        Ok(Box::new(run))
    }

    /// The events of a new run, which begin with its settings.
    fn create_events(&self) -> Result<EventFile, TrainError> {
        let mut events = EventFile::create(self.lock.run_dir())?;
        let text = self.settings_text.clone().unwrap_or_else(|| {
            let json = serde_json::to_string_pretty(&self.settings);
            format!("```json\n{}\n```", json.expect("plain structs always serialise"))
        });
        events.add(0, vec![Value::text("settings", &text)])?;
        Ok(events)
    }
}

impl Saved {
    fn put_into(mut self, run: &mut Run) -> Result<(), TrainError> {
        self.check_data(run)?;
        let State { step, epoch, position, best_validation, history, .. } = self.state;
        let Learner { model, optimizer, average, scaler, .. } = &mut run.learner;
        let parameters = model.parameters_mut();
        if let Some(mut best) = self.best {
            parameters.load(&mut best)?;
            run.best = Some(parameters.snapshot()?);
        }
        parameters.load(&mut self.weights)?;
        if let Some(average) = average {
            // What is kept as the model is the average.
            average.restore(&parameters.tensors)?;
            let raw = self.optimizer.take(&raw_names(&parameters.names), &parameters.tensors)?;
            parameters.restore(&raw)?;
        }
        let names = optimizer.state_names(&parameters.names);
        self.optimizer.fill_in(STEPS, Tensor::f_from_slice(&[step as f32])?);
        optimizer.restore(&self.optimizer.take(&names, &optimizer.state())?, step)?;
        if let Some(scaler) = scaler {
            let names = loss_scale::STATE.map(str::to_owned);
            scaler.restore(&self.optimizer.take(&names, &scaler.state())?)?;
        }
        (run.epoch, run.done) = (epoch, position);
        run.expected = run.plan.resumed(epoch, position);
        (run.history, run.best_validation) = (history, best_validation);
        run.learner.rates.note(&run.history.losses);
        Ok(())
    }

    /// Refuses to go on with other data, or with the same data prepared in another way.
    fn check_data(&self, run: &Run) -> Result<(), TrainError> {
        let path = run.checkpoints.path(CheckpointKind::Last);
        let unchanged = Unchanged { path: &path };
        unchanged.model(&self.schema.model, &run.model)?;
        unchanged.schema(&self.schema.schema, &run.plan.schema)?;
        unchanged.stream(&self.state.stream, &StreamShape::of(&run.plan))?;
        unchanged.scaling(&self.scaling, &run.plan.scaling)
    }
}

impl Sink for Trainer {
    type In = DeviceBatch;
    type Report = TrainReport;
    type Error = TrainError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, TrainError> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.start(&batch)?,
        };
        self.run.insert(run).accept(batch, &mut *self.observer)?;
        Ok(Flow::Continue)
    }

    fn finish(self, ending: Ending) -> Result<TrainReport, TrainError> {
        match (self.run, ending) {
            (Some(mut run), Ending::Drained) => {
                run.complete()?;
                Ok(run.report())
            }
            (Some(mut run), Ending::Stopped | Ending::Interrupted) => {
                run.interrupt()?;
                Ok(run.report())
            }
            (None, Ending::Drained) => match self.saved {
                // A run without test windows that had ended already: nothing is left to come.
                Some(saved) if saved.state.finished => {
                    Ok(run::report(saved.state.history, saved.state.step))
                }
                _ => Err(TrainError::EmptyStream),
            },
            (None, Ending::Stopped | Ending::Interrupted) => {
                let (history, step) = self
                    .saved
                    .map_or_else(Default::default, |saved| (saved.state.history, saved.state.step));
                Ok(run::report(history, step))
            }
        }
    }
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("settings", &self.settings)
            .field("run_dir", &self.lock.run_dir())
            .finish_non_exhaustive()
    }
}
