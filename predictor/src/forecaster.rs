//! [`Forecaster`]: a checkpoint's model in memory, and forecasts of any batch.

use crate::{
    checkpoint::{self, Files},
    contract::{Contract, SCALER, SCHEMA, WEIGHTS},
    error::PredictError,
    forecast_table::ForecastTable,
    intervals::{Calibration, Interval},
    windows::{Batching, Windows},
};
use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use millstream_data::{BatchLayout, DataSchema, DeviceBatch};
use millstream_model::{
    Architecture, BatchTensors, Model, ModelDescription, ModelError, Shape, TensorFile, built_in,
    evaluate, usable,
};
use std::{
    fmt,
    num::NonZeroUsize,
    path::Path,
    time::{Duration, Instant},
};

/// Finds the architecture that a `schema.json` describes.
pub(crate) type FindModel<'a> =
    &'a dyn Fn(&ModelDescription) -> Result<Box<dyn Architecture>, ModelError>;

/// Windows of a batch, unless somebody says otherwise: as a run's are.
const BATCH_SIZE: NonZeroUsize = NonZeroUsize::new(256).expect("a constant above zero");

/// A trained model, for forecasts within a program: batches in, record batches out, nothing on disk.
///
/// The columns are those of a file of forecasts. A window's forecast does not depend on what else is in its
/// batch ([`evaluate`]), as long as batches have room for as many.
pub struct Forecaster {
    contract: Contract,
    architecture: Box<dyn Architecture>,
    /// `None` once they are the model's.
    weights: Option<TensorFile>,
    /// `None` until the first batch has told how large batches are, and where they lie.
    built: Option<Built>,
    table: ForecastTable,
    /// Where intervals are asked for and not calibrated yet.
    calibration: Option<Calibration>,
    intervals: Vec<Interval>,
    batch_size: NonZeroUsize,
    /// How long the model itself took.
    forward: Duration,
    /// Of the last batch.
    values: Vec<f32>,
}

/// The model, for batches of one layout.
struct Built {
    model: Box<dyn Model>,
    layout: BatchLayout,
}

impl Forecaster {
    /// # Errors
    /// The checkpoint is missing or damaged, or its model is not found.
    pub(crate) fn open(checkpoint_dir: &Path, find: FindModel<'_>) -> Result<Self, PredictError> {
        let Files { folder, contents: [schema, scaler, bytes] } =
            checkpoint::read(checkpoint_dir, [SCHEMA, SCALER, WEIGHTS])?;
        let contract = Contract::parse(&folder, &schema, &scaler)?;
        Ok(Forecaster {
            architecture: find(&contract.model)?,
            weights: Some(TensorFile::parse(folder.join(WEIGHTS), &bytes)?),
            table: ForecastTable::new(&contract, &[])?,
            calibration: None,
            intervals: Vec::new(),
            batch_size: BATCH_SIZE,
            forward: Duration::ZERO,
            built: None,
            values: Vec::new(),
            contract,
        })
    }

    /// Reads a checkpoint with one of millstream's own models.
    ///
    /// # Errors
    /// The checkpoint is missing or damaged, or its model is none of millstream's own.
    pub fn load(checkpoint_dir: &Path) -> Result<Self, PredictError> {
        Forecaster::open(checkpoint_dir, &built_in)
    }

    /// The same with models of your own: `find` gives the one that a checkpoint's `schema.json`
    /// describes.
    ///
    /// # Errors
    /// As for [`Forecaster::load`].
    pub fn load_with_models(
        checkpoint_dir: &Path,
        find: impl Fn(&ModelDescription) -> Result<Box<dyn Architecture>, ModelError>,
    ) -> Result<Self, PredictError> {
        Forecaster::open(checkpoint_dir, &find)
    }

    /// What data it wants, and how that is scaled.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The columns of its forecasts.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    /// Puts intervals of these levels, such as 0.9, around its forecasts; [`calibrate`](Self::calibrate) it
    /// first.
    ///
    /// # Errors
    /// A level is not between 0 and 1 or named twice, or the model's outputs have no units.
    pub fn with_intervals(mut self, levels: &[f64]) -> Result<Self, PredictError> {
        let Contract { schema, model, .. } = &self.contract;
        self.calibration = match levels {
            [] => None,
            _ => Some(Calibration::new(levels, &model.heads, &schema.targets, schema.horizon)?),
        };
        self.table = ForecastTable::new(&self.contract, levels)?;
        self.intervals.clear();
        Ok(self)
    }

    /// Whether it has intervals to calibrate.
    pub(crate) fn wants_calibration(&self) -> bool {
        self.calibration.is_some()
    }

    /// Measures its forecasts against what came, for its intervals. The windows must be none that it has
    /// learned from: those of the validation part.
    ///
    /// # Errors
    /// As for [`forecast_batch`](Self::forecast_batch).
    pub fn calibrate(&mut self, batch: DeviceBatch) -> Result<(), PredictError> {
        let tensors = BatchTensors::new(batch)?;
        self.evaluate(&tensors)?;
        let (meta, plan) = (tensors.batch().meta(), tensors.batch().plan());
        self.can_tell(&tensors)?;
        let Some(calibration) = &mut self.calibration else { return Ok(()) };
        let targets = plan.scaling.targets.len();
        for target in 0..targets {
            let said = self.table.said(&self.values, target, meta, plan);
            let outcomes = meta.outcomes.iter().copied().skip(target).step_by(targets);
            calibration.measure(target, &said, outcomes);
        }
        Ok(())
    }

    /// Refuses a batch of differences that does not say from where they count.
    fn can_tell(&self, batch: &BatchTensors) -> Result<(), PredictError> {
        let batch = batch.batch();
        match ForecastTable::can_tell(batch.meta(), batch.plan()) {
            true => Ok(()),
            false => Err(PredictError::NoLevel { index: batch.tag().index }),
        }
    }

    /// Windows that go through the model at a time where they come by themselves, 256 by default. Their
    /// forecasts have the same bits as in a run's file where this is its `train.batch_size`.
    #[must_use]
    pub fn batch_size(mut self, windows: NonZeroUsize) -> Self {
        self.batch_size = windows;
        self
    }

    /// Forecasts windows in user units, on the CPU: a row for every window and step. What comes of them is
    /// not known, and so their outcomes and the times of these are null.
    ///
    /// # Errors
    /// The windows are not as large as the model's, miss what it cannot do without, or are not enough by
    /// themselves: values that are compared among series or within a window are prepared by
    /// millstream-normalize. Or the model fails.
    pub fn forecast(&mut self, windows: &Windows) -> Result<RecordBatch, PredictError> {
        // The model changes with every batch; what is read of its contract does not.
        let contract = self.contract.clone();
        let batching = Batching::new(&contract, windows, self.batch_size.get())?;
        let batches = (0..batching.count())
            .map(|index| self.forecast_batch(batching.batch(index)?))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = concat_batches(self.schema(), &batches);
        Ok(rows.expect("the batches of one table have its columns"))
    }

    /// Forecasts the windows of a batch that somebody has prepared by the model's
    /// [contract](Forecaster::contract), as millstream-normalize does it: a row for every window and step.
    ///
    /// # Errors
    /// The batch is not what the model was trained on, has another layout than the ones before it, the
    /// model fails, or too little was calibrated for the intervals.
    pub fn forecast_batch(&mut self, batch: DeviceBatch) -> Result<RecordBatch, PredictError> {
        if let Some(calibration) = self.calibration.take() {
            self.intervals = calibration.finish()?;
        }
        let tensors = BatchTensors::new(batch)?;
        self.evaluate(&tensors)?;
        self.can_tell(&tensors)?;
        let (meta, plan) = (tensors.batch().meta(), tensors.batch().plan());
        Ok(self.table.rows(meta, plan, &self.values, &self.intervals))
    }

    /// How long the model itself took so far, from inputs to forecasts on the host.
    pub(crate) fn forward(&self) -> Duration {
        self.forward
    }

    /// Refuses batches that are not what the model was trained on.
    pub(crate) fn check(&self, schema: &DataSchema) -> Result<(), PredictError> {
        self.contract.check(schema)
    }

    /// Holds a batch against the model, which is built where the first one lies.
    ///
    /// # Errors
    /// It is not what the model was trained on, or has another layout than the ones before it.
    fn build(&mut self, batch: &DeviceBatch) -> Result<(), PredictError> {
        let layout = batch.layout();
        if let Some(built) = &self.built {
            return match built.layout == layout {
                true => Ok(()),
                false => Err(PredictError::OtherLayout { expected: built.layout, found: layout }),
            };
        }
        let plan = batch.plan();
        self.check(&plan.schema)?;
        self.architecture.check_segments(plan.segments)?;
        let Contract { schema, scaling, .. } = &self.contract;
        let shape = Shape::of(&layout, schema, scaling).with_heads(&self.contract.model.heads);
        let mut model = self.architecture.build(&shape, 0, usable(batch.place())?)?;
        let mut weights = self.weights.take().expect("a model is built once");
        model.parameters_mut().load(&mut weights)?;
        self.built = Some(Built { model, layout });
        Ok(())
    }

    /// Runs the model and brings its forecasts to the host.
    fn evaluate(&mut self, batch: &BatchTensors) -> Result<(), PredictError> {
        self.build(batch.batch())?;
        let _span = tracing::trace_span!("forecast").entered();
        let _guard = tch::no_grad_guard();
        let layout = batch.batch().layout();
        let Contract { model: ModelDescription { heads, .. }, precision, .. } = &self.contract;
        let Built { model, .. } = self.built.as_ref().expect("it has just been built");
        let begun = Instant::now();
        let evaluated = evaluate(&**model, *precision, heads, batch)
            .map_err(|source| PredictError::Forward { index: batch.batch().tag().index, source })?;
        let sizes = [batch.rows() as usize, layout.horizon, layout.targets, heads.count()];
        // One head is no dimension.
        let dimensions = if heads.count() == 1 { 3 } else { 4 };
        let labels = &sizes.map(|size| size as i64)[..dimensions];
        if evaluated.outputs.size() != labels {
            let (expected, found) = (labels.to_vec(), evaluated.outputs.size());
            return Err(PredictError::WrongForecast { expected, found });
        }
        let forecasts = &evaluated.forecasts;
        self.values.resize(forecasts.numel(), 0.0);
        forecasts.f_copy_data(&mut self.values, forecasts.numel()).map_err(ModelError::from)?;
        self.forward += begun.elapsed();
        batch.finish();
        Ok(())
    }
}

impl fmt::Debug for Forecaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forecaster")
            .field("architecture", &self.architecture)
            .finish_non_exhaustive()
    }
}
