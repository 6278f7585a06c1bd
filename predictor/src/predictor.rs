//! [`Predictor`]: the sink at the end of a forecasting line.

use crate::{
    checkpoint::{self, Files},
    contract::{Contract, SCALER, SCHEMA, WEIGHTS},
    error::PredictError,
    forecast_table::ForecastTable,
    output::{OpenOutput, Output},
};
use millstream_data::{DeviceBatch, Phase, Plan};
use millstream_model::{
    Architecture, BatchTensors, Mode, Model, ModelDescription, ModelError, Shape, TensorFile,
    built_in, forecasts, usable,
};
use millstream_stage::{Ending, Flow, Sink};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Something a watcher of a prediction may want to show.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PredictProgress {
    /// The first batch came; nothing has been computed.
    Started {
        /// The stream, with what the user should know of it.
        plan: Arc<Plan>,
    },
    /// A batch was forecast.
    Forecast {
        /// Windows so far.
        windows: u64,
        /// Windows that the stream announced.
        of: u64,
    },
}

/// What a prediction leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PredictReport {
    /// Rows forecast: one per window and step.
    pub rows: u64,
    /// Windows forecast.
    pub windows: u64,
    /// Different series among them.
    pub series: u64,
    /// Series too short for a single window.
    pub skipped: u64,
    /// Of the rows, those past the last one of their series.
    pub to_come: u64,
    /// How long the model itself took, from inputs to forecasts on the host.
    #[serde(skip)]
    pub forward: Duration,
    /// The file, or the table by its URL without a password; `None` when the line was interrupted, and nothing
    /// was left, or the place has no name.
    pub output: Option<PathBuf>,
}

/// Finds the architecture that a `schema.json` describes.
type FindModel<'a> = &'a dyn Fn(&ModelDescription) -> Result<Box<dyn Architecture>, ModelError>;

/// Forecasts every window it is given with a checkpoint's model and writes the result to an [`Output`].
pub struct Predictor {
    contract: Contract,
    architecture: Box<dyn Architecture>,
    /// `None` once they are the model's.
    weights: Option<TensorFile>,
    /// `None` until the first batch has told how large batches are, and where they lie.
    model: Option<Box<dyn Model>>,
    table: ForecastTable,
    output: OpenOutput,
    observer: Box<dyn FnMut(&PredictProgress)>,
    report: PredictReport,
    /// By series code: whether it has come up.
    seen: Vec<bool>,
    forecasts: Vec<f32>,
}

impl Predictor {
    /// Reads the checkpoint and opens the output: a file under a temporary name.
    ///
    /// # Errors
    /// The checkpoint is missing or damaged, its model is none of millstream's own, or the output
    /// cannot be opened.
    pub fn new(
        checkpoint_dir: &Path,
        output: Output,
        observer: Box<dyn FnMut(&PredictProgress)>,
    ) -> Result<Self, PredictError> {
        Predictor::with_models(checkpoint_dir, output, observer, &built_in)
    }

    /// The same with models of your own: `find` gives the one that a checkpoint's `schema.json`
    /// describes.
    ///
    /// # Errors
    /// As for [`Predictor::new`].
    pub fn with_models(
        checkpoint_dir: &Path,
        output: Output,
        observer: Box<dyn FnMut(&PredictProgress)>,
        find: FindModel<'_>,
    ) -> Result<Self, PredictError> {
        let Files { folder, contents: [schema, scaler, bytes] } =
            checkpoint::read(checkpoint_dir, [SCHEMA, SCALER, WEIGHTS])?;
        let contract = Contract::parse(&folder, &schema, &scaler)?;
        let architecture = find(&contract.model)?;
        let weights = TensorFile::parse(folder.join(WEIGHTS), &bytes)?;
        let table = ForecastTable::new(&contract)?;
        Ok(Predictor {
            output: output.open(table.schema())?,
            contract,
            architecture,
            weights: Some(weights),
            model: None,
            table,
            observer,
            report: PredictReport::default(),
            seen: Vec::new(),
            forecasts: Vec::new(),
        })
    }

    /// Checks the stream, and builds the model where its batches lie.
    fn start(&mut self, batch: &DeviceBatch) -> Result<Box<dyn Model>, PredictError> {
        let plan = batch.plan();
        self.contract.check(&plan.schema)?;
        self.architecture.check_segments(plan.segments)?;
        (self.observer)(&PredictProgress::Started { plan: Arc::clone(plan) });
        self.seen = vec![false; plan.panel.series.len()];
        self.report.skipped = plan.windows.short_series;
        let Contract { schema, scaling, .. } = &self.contract;
        let shape =
            Shape::of(&batch.layout(), schema, scaling).with_heads(&self.contract.model.heads);
        let mut model = self.architecture.build(&shape, 0, usable(batch.place())?)?;
        let mut weights = self.weights.take().expect("a stream starts once");
        model.parameters_mut().load(&mut weights)?;
        Ok(model)
    }

    /// Runs the model and brings its forecasts to the host.
    fn forecast(&mut self, batch: &BatchTensors) -> Result<(), PredictError> {
        let _span = tracing::trace_span!("forecast").entered();
        let _guard = tch::no_grad_guard();
        let layout = batch.batch().layout();
        let heads = &self.contract.model.heads;
        let sizes = [batch.inputs.rows() as usize, layout.horizon, layout.targets, heads.count()];
        // One head is no dimension.
        let dimensions = if heads.count() == 1 { 3 } else { 4 };
        let labels = &sizes.map(|size| size as i64)[..dimensions];
        let model = self.model.as_ref().expect("the first batch has started the stream");
        let precision = self.contract.precision;
        let begun = Instant::now();
        let outputs = precision
            .forward(&**model, &batch.inputs, Mode::Evaluate)
            .map_err(|source| PredictError::Forward { index: batch.batch().tag().index, source })?;
        if outputs.size() != labels {
            let (expected, found) = (labels.to_vec(), outputs.size());
            return Err(PredictError::WrongForecast { expected, found });
        }
        let forecasts = forecasts(heads, &outputs).map_err(ModelError::from)?;
        self.forecasts.resize(forecasts.numel(), 0.0);
        forecasts.f_copy_data(&mut self.forecasts, forecasts.numel()).map_err(ModelError::from)?;
        self.report.forward += begun.elapsed();
        batch.finish();
        Ok(())
    }
}

impl Sink for Predictor {
    type In = DeviceBatch;
    type Report = PredictReport;
    type Error = PredictError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, PredictError> {
        if self.model.is_none() {
            self.model = Some(self.start(&batch)?);
        }
        let tensors = BatchTensors::new(batch)?;
        self.forecast(&tensors)?;
        let batch = tensors.batch();
        let (meta, plan) = (batch.meta(), batch.plan());
        if !ForecastTable::can_tell(meta, plan) {
            return Err(PredictError::NoLevel { index: batch.tag().index });
        }
        let rows = self.table.rows(meta, plan, &self.forecasts);
        if self.output.write(&rows)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        for code in &meta.series {
            self.seen[*code as usize] = true;
        }
        self.report.rows += rows.num_rows() as u64;
        self.report.windows += meta.series.len() as u64;
        let to_come = meta.target_time.iter().filter(|time| time.is_none()).count();
        self.report.to_come += to_come as u64;
        let of = match batch.tag().phase {
            Phase::Train => plan.windows.train,
            Phase::Validation => plan.windows.validation,
            Phase::Test => plan.windows.test,
            Phase::Predict => plan.predict,
        };
        let windows = self.report.windows;
        (self.observer)(&PredictProgress::Forecast { windows, of });
        Ok(Flow::Continue)
    }

    fn finish(mut self, ending: Ending) -> Result<PredictReport, PredictError> {
        self.report.series = self.seen.iter().filter(|seen| **seen).count() as u64;
        match ending {
            Ending::Drained => self.report.output = self.output.finish()?,
            // Half the forecasts would look like all of them.
            Ending::Stopped | Ending::Interrupted => drop(self.output),
        }
        Ok(self.report)
    }
}

impl std::fmt::Debug for Predictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predictor")
            .field("architecture", &self.architecture)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
