//! [`Trainer`]: the sink at the end of a training line.
//!
//! It knows nothing until the first batch comes: that batch's plan says what the stream holds, and
//! its place says on which device to compute.

use crate::{
    adamw,
    checkpoint::{Checkpoints, SchemaFile, Which},
    error::TrainError,
    journal::{self, Journal},
    learner::{Learner, steps_per_epoch},
    model::Model,
    order,
    readback::Readback,
    report::{Progress, TrainReport},
    run::{self, Observer, Run},
    settings::TrainSettings,
    state::{History, Position, State, StreamShape},
    tensor::usable,
    tensor_file::TensorFile,
    unchanged::Unchanged,
};
use millstream_stage::{DeviceBatch, Ending, Flow, Phase, Scaling, Sink};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// Trains a model on the batches it is given and leaves checkpoints and metrics in a run folder.
///
/// The stream is validation once (epoch 0), then each epoch's training and validation batches,
/// then the test batches; any part but training may be empty.
pub struct Trainer {
    settings: TrainSettings,
    run_dir: PathBuf,
    observer: Box<Observer>,
    saved: Option<Saved>,
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

/// Where a run that was interrupted goes on.
///
/// # Errors
/// [`TrainError::NoCheckpoint`] when the folder has none, or that its state cannot be read.
pub fn read_position(run_dir: &Path) -> Result<Position, TrainError> {
    let checkpoints = Checkpoints::new(run_dir);
    checkpoints.recover(Which::Last)?;
    Ok(checkpoints.open(Which::Last)?.state()?.at())
}

impl Trainer {
    /// A new run in this folder, which is made when the first batch comes.
    ///
    /// # Errors
    /// [`TrainError::Setting`] when a setting is out of range, [`TrainError::HoldsARun`] when the
    /// folder has a run already.
    pub fn new(
        settings: TrainSettings,
        run_dir: PathBuf,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        if Checkpoints::new(&run_dir).exist() || run_dir.join(journal::FILE).exists() {
            return Err(TrainError::HoldsARun { path: run_dir });
        }
        Ok(Trainer { settings, run_dir, observer, saved: None, run: None })
    }

    /// Goes on with the run in this folder. Fed the batches from its [`read_position`] on, it ends
    /// with the weights of a run that was never interrupted, bit for bit on the CPU with the same
    /// number of threads.
    ///
    /// # Errors
    /// A setting is out of range or differs where it must not ([`TrainError::Changed`]), or the
    /// checkpoint is missing or damaged.
    pub fn resume(
        settings: TrainSettings,
        run_dir: PathBuf,
        observer: Box<dyn FnMut(&Progress)>,
    ) -> Result<Self, TrainError> {
        settings.validate()?;
        let checkpoints = Checkpoints::new(&run_dir);
        checkpoints.recover(Which::Last)?;
        let last = checkpoints.open(Which::Last)?.verify()?;
        let state = last.state()?;
        let path = checkpoints.path(Which::Last);
        Unchanged { path: &path }.settings(&state.settings, &settings)?;
        let best = match state.history.best_epoch {
            None => None,
            Some(_) => {
                checkpoints.recover(Which::Best)?;
                Some(checkpoints.open(Which::Best)?.verify()?.weights()?)
            }
        };
        let saved = Saved {
            state,
            schema: last.schema()?,
            scaling: last.scaling()?,
            weights: last.weights()?,
            optimizer: last.optimizer()?,
            best,
        };
        Ok(Trainer { settings, run_dir, observer, saved: Some(saved), run: None })
    }

    /// Sets everything up for the stream that this batch is of.
    fn start(&mut self, batch: &DeviceBatch) -> Result<Box<Run>, TrainError> {
        let plan = Arc::clone(batch.plan());
        if plan.batches(Phase::Train) == 0 {
            let (windows, batch_size) = (plan.windows.train, plan.batch_size);
            return Err(TrainError::NoTrainingBatch { windows, batch_size });
        }
        let settings = self.settings.clone();
        settings.check_stream(&plan)?;
        let place = usable(batch.place())?;
        let (layout, padding) = (batch.layout(), plan.schema.padding);
        let (kind, options) = (settings.model, &settings.model_options);
        let model = Model::new(kind, options, &layout, padding, settings.seed, place);
        let per_epoch = steps_per_epoch(&plan, settings.accumulate.get());
        let steps_total = per_epoch * u64::from(plan.epochs);
        let learner = Learner::new(&settings, model, steps_total, place);
        let saved = self.saved.take();
        let journal = match &saved {
            None => Journal::create(&self.run_dir)?,
            Some(saved) => Journal::resume(&self.run_dir, saved.state.step, saved.state.epoch)?,
        };
        let mut run = Run {
            expected: order::first(&plan),
            checkpoints: Checkpoints::new(&self.run_dir),
            journal,
            learner,
            epoch: 1,
            done: 0,
            history: History::default(),
            best_validation: None,
            best: None,
            readback: Readback::default(),
            unread: 0,
            last_log: Instant::now(),
            validation: None,
            testing: None,
            test: None,
            plan: Arc::clone(&plan),
            settings,
        };
        if let Some(saved) = saved {
            saved.put_into(&mut run)?;
        }
        (self.observer)(&Progress::Started { plan, steps_total });
        Ok(Box::new(run))
    }
}

impl Saved {
    fn put_into(mut self, run: &mut Run) -> Result<(), TrainError> {
        self.check_data(run)?;
        let State { step, epoch, position, best_validation, history, .. } = self.state;
        let parameters = run.learner.model.parameters_mut();
        let weights = self.weights.take(&parameters.names, &parameters.tensors)?;
        if let Some(mut best) = self.best {
            parameters.restore(&best.take(&parameters.names, &parameters.tensors)?);
            run.best = Some(parameters.snapshot());
        }
        parameters.restore(&weights);
        let names = adamw::state_names(&parameters.names);
        let optimizer = &mut run.learner.optimizer;
        optimizer.restore(&self.optimizer.take(&names, &optimizer.state())?, step);
        (run.epoch, run.done) = (epoch, position);
        run.expected = order::resumed(&run.plan, epoch, position);
        (run.history, run.best_validation) = (history, best_validation);
        Ok(())
    }

    /// Refuses to go on with other data, or with the same data prepared in another way.
    fn check_data(&self, run: &Run) -> Result<(), TrainError> {
        let path = run.checkpoints.path(Which::Last);
        let unchanged = Unchanged { path: &path };
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
            .field("run_dir", &self.run_dir)
            .finish_non_exhaustive()
    }
}
