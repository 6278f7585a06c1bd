//! [`Predictor`]: the sink at the end of a forecasting line.

use crate::{
    checkpoint::{self, Files},
    contract::{Contract, SCALER, SCHEMA},
    error::PredictError,
    output::{Output, OutputFile},
    table::Table,
};
use millstream_data::{DeviceBatch, Padding, Phase, Place, Plan};
use millstream_model::reason;
use millstream_stage::{Ending, Flow, Sink};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tch::{CModule, Device, Kind, TchError, Tensor};

/// The model's file in a checkpoint.
const SCRIPT: &str = "model.pt";

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
    /// The file; `None` when the line was interrupted, and nothing was left.
    pub output: Option<PathBuf>,
}

/// Forecasts every window it is given with a checkpoint's model and writes the result to a file.
///
/// It runs the checkpoint's TorchScript and knows no model's definition.
pub struct Predictor {
    contract: Contract,
    /// The model's file, and what is in it.
    script: PathBuf,
    bytes: Vec<u8>,
    model: CModule,
    device: Device,
    table: Table,
    output: OutputFile,
    observer: Box<dyn FnMut(&PredictProgress)>,
    report: PredictReport,
    /// By series code: whether it has come up.
    seen: Vec<bool>,
    forecasts: Vec<f32>,
}

impl Predictor {
    /// Loads the model and starts the output file under a temporary name.
    ///
    /// # Errors
    /// The checkpoint is missing or damaged, or the output's folder cannot be written to.
    pub fn new(
        checkpoint_dir: &Path,
        output: Output,
        observer: Box<dyn FnMut(&PredictProgress)>,
    ) -> Result<Self, PredictError> {
        let Files { folder, contents: [schema, scaler, bytes] } =
            checkpoint::read(checkpoint_dir, [SCHEMA, SCALER, SCRIPT])?;
        let contract = Contract::parse(&folder, &schema, &scaler)?;
        let script = folder.join(SCRIPT);
        let model = load(&script, &bytes, Device::Cpu)?;
        let table = Table::new(&contract)?;
        Ok(Predictor {
            output: OutputFile::create(output, table.schema())?,
            contract,
            script,
            bytes,
            model,
            device: Device::Cpu,
            table,
            observer,
            report: PredictReport::default(),
            seen: Vec::new(),
            forecasts: Vec::new(),
        })
    }

    /// Checks the stream and moves the model to it.
    fn start(&mut self, batch: &DeviceBatch) -> Result<(), PredictError> {
        let plan = batch.plan();
        self.contract.check(&plan.schema)?;
        (self.observer)(&PredictProgress::Started { plan: Arc::clone(plan) });
        self.seen = vec![false; plan.panel.series.len()];
        self.report.skipped = plan.windows.short_series;
        self.device = match batch.place() {
            Place::Cpu => Device::Cpu,
            Place::Cuda(index) if !tch::Cuda::is_available() => {
                return Err(PredictError::NoCuda { index });
            }
            Place::Cuda(index) => Device::Cuda(index),
        };
        if self.device != Device::Cpu {
            // Loaded again, not moved: weights are constants of the script, which only loading
            // puts on a device.
            self.model = load(&self.script, &self.bytes, self.device)?;
        }
        Ok(())
    }

    /// Runs the model and brings its forecasts to the host.
    fn forecast(&mut self, batch: &DeviceBatch) -> Result<(), PredictError> {
        let _span = tracing::trace_span!("forecast").entered();
        let _guard = tch::no_grad_guard();
        batch.begin()?;
        let layout = batch.layout();
        let rows = batch.meta().series.len() as i64;
        let size = |value: usize| value as i64;
        let labels = [rows, size(layout.horizon), size(layout.targets)];
        let window = [rows, size(batch.meta().lookback), size(layout.features)];
        let mut inputs = vec![self.part(batch, 0, &window)];
        if self.contract.schema.padding == Padding::Right {
            // Only then does the model need to be told where a window ends.
            assert!(layout.extras.padding, "windows padded on the right have lengths");
            inputs.push(self.part(batch, layout.lengths_at(), &[rows]));
        }
        let forecasts = self.model.forward_ts(&inputs).map_err(|error| PredictError::Forward {
            index: batch.tag().index,
            reason: reason(&error),
        })?;
        if forecasts.size() != labels {
            let (expected, found) = (labels.to_vec(), forecasts.size());
            return Err(PredictError::WrongForecast { expected, found });
        }
        read(&forecasts, &mut self.forecasts);
        batch.finish();
        Ok(())
    }

    /// A tensor over a part of the batch, `start` values into it.
    fn part(&self, batch: &DeviceBatch, start: usize, shape: &[i64]) -> Tensor {
        let end = start + shape.iter().product::<i64>() as usize;
        assert!(end <= batch.layout().values(), "a part lies inside its slot");
        let data = batch.address().wrapping_add(start).cast();
        // SAFETY: the range lies inside the batch's slot (asserted above) on `self.device`, and
        // the batch outlives the tensor: only `forecast` calls this, and all its tensors are gone
        // when it returns, before `accept` drops the batch.
        unsafe { Tensor::from_blob(data, shape, &[], Kind::Float, self.device) }
    }
}

/// The model in the bytes of this file.
fn load(path: &Path, bytes: &[u8], device: Device) -> Result<CModule, PredictError> {
    let failed =
        |error: TchError| PredictError::LoadModel { path: path.to_owned(), reason: reason(&error) };
    let mut model = CModule::load_data_on_device(&mut &bytes[..], device).map_err(failed)?;
    model.f_set_eval().map_err(failed)?;
    Ok(model)
}

/// Copies a tensor into a vector that is reused from batch to batch.
fn read(tensor: &Tensor, into: &mut Vec<f32>) {
    into.resize(tensor.numel(), 0.0);
    tensor.copy_data(into, tensor.numel());
}

impl Sink for Predictor {
    type In = DeviceBatch;
    type Report = PredictReport;
    type Error = PredictError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, PredictError> {
        if self.report.windows == 0 {
            self.start(&batch)?;
        }
        self.forecast(&batch)?;
        let (meta, plan) = (batch.meta(), batch.plan());
        let rows = self.table.rows(meta, plan, &self.forecasts);
        self.output.write(&rows)?;
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
            Ending::Drained => self.report.output = Some(self.output.finish()?),
            // Half the forecasts would look like all of them.
            Ending::Stopped | Ending::Interrupted => drop(self.output),
        }
        Ok(self.report)
    }
}

impl std::fmt::Debug for Predictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predictor")
            .field("script", &self.script)
            .field("device", &self.device)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
