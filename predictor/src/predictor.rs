//! [`Predictor`]: the sink at the end of a forecasting line.

use crate::{
    error::PredictError,
    forecaster::{FindModel, Forecaster},
    output::{OpenOutput, Output},
    preview::Preview,
};
use arrow::array::RecordBatch;
use millstream_data::{DeviceBatch, Phase, Plan};
use millstream_model::built_in;
use millstream_stage::{Ending, Flow, Sink};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Some of the rows, the first and the last of them, to be shown.
    #[serde(skip)]
    pub preview: Vec<RecordBatch>,
}

/// Forecasts every window it is given with a checkpoint's model and writes the result to an [`Output`].
pub struct Predictor {
    forecaster: Forecaster,
    output: OpenOutput,
    observer: Box<dyn FnMut(&PredictProgress)>,
    report: PredictReport,
    preview: Preview,
    /// By series code: whether it has come up; empty until the first batch has come.
    seen: Vec<bool>,
}

impl Predictor {
    /// Reads a checkpoint for forecasts within a program.
    ///
    /// # Errors
    /// As for [`Forecaster::load`].
    pub fn load(checkpoint_dir: &Path) -> Result<Forecaster, PredictError> {
        Forecaster::load(checkpoint_dir)
    }

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
        Predictor::of(Forecaster::open(checkpoint_dir, find)?, output, observer)
    }

    /// The same of what has been loaded. Where it has [intervals](Forecaster::with_intervals), batches of
    /// the validation pass that come before the others are what they are calibrated by, and are not
    /// written.
    ///
    /// # Errors
    /// The output cannot be opened.
    pub fn of(
        forecaster: Forecaster,
        output: Output,
        observer: Box<dyn FnMut(&PredictProgress)>,
    ) -> Result<Self, PredictError> {
        Ok(Predictor {
            output: output.open(forecaster.schema())?,
            forecaster,
            observer,
            report: PredictReport::default(),
            preview: Preview::default(),
            seen: Vec::new(),
        })
    }

    /// Tells of the stream that begins.
    fn start(&mut self, plan: &Arc<Plan>) {
        (self.observer)(&PredictProgress::Started { plan: Arc::clone(plan) });
        self.seen = vec![false; plan.panel.series.len()];
        self.report.skipped = plan.windows.short_series;
    }
}

impl Sink for Predictor {
    type In = DeviceBatch;
    type Report = PredictReport;
    type Error = PredictError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, PredictError> {
        let (plan, phase) = (Arc::clone(batch.plan()), batch.tag().phase);
        if self.seen.is_empty() {
            self.forecaster.check(&plan.schema)?;
            self.start(&plan);
        }
        if phase == Phase::Validation && self.forecaster.wants_calibration() {
            self.forecaster.calibrate(batch)?;
            return Ok(Flow::Continue);
        }
        let series = batch.meta().series.clone();
        let to_come = batch.meta().target_time.iter().filter(|time| time.is_none()).count();
        let rows = self.forecaster.forecast_batch(batch)?;
        if self.output.write(&rows)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        for code in &series {
            self.seen[*code as usize] = true;
        }
        self.preview.see(&rows);
        self.report.rows += rows.num_rows() as u64;
        self.report.windows += series.len() as u64;
        self.report.to_come += to_come as u64;
        let of = match phase {
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
        self.report.forward = self.forecaster.forward();
        self.report.series = self.seen.iter().filter(|seen| **seen).count() as u64;
        self.report.preview = self.preview.rows();
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
            .field("forecaster", &self.forecaster)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
