//! [`Report`]: all that a run found, for people and machines alike. The closing table is printed
//! from it, `report.json` and the last line of `--json` are it.

use crate::{forecast::Predicted, memory::peak_rss_mb};
use millstream_data::TargetKind;
use millstream_normalize::Limit;
use millstream_stage::StageReport;
use millstream_trainer::{Baseline, EpochLoss, Figures, Metrics, TrainReport};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// What a run found. Figures that were not reached are `None`, null in JSON; see [`Metrics`] for what
/// they mean.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The run's folder; empty, and null in JSON, where nothing was kept.
    #[serde(serialize_with = "path_or_null")]
    pub run: PathBuf,
    /// Whether it was cut short, to be resumed.
    pub interrupted: bool,
    /// How much of each pass it saw.
    pub limit: Limit,
    /// Steps taken, those before a resume included.
    pub steps: u64,
    /// Training windows seen.
    pub samples: u64,
    /// The epoch whose weights are in `checkpoints/best`.
    pub best_epoch: Option<u32>,
    /// The epoch after which training ended, where the validation loss no longer fell.
    pub stopped_after: Option<u32>,
    /// Steps that changed nothing, as a loss or a gradient was no number or too large for 16 bits.
    pub skipped: u64,
    /// Mean loss of the last complete epoch, by the configured loss, as are those below.
    pub train_loss: Option<f64>,
    /// Validation loss before the first step.
    pub first_validation_loss: Option<f64>,
    /// Of every epoch.
    pub losses: Vec<EpochLoss>,
    /// What of the targets is forecast: says what `directional_accuracy` counts.
    pub target_kind: TargetKind,
    /// Validation figures before the first step.
    pub first_validation: Option<Metrics>,
    /// Validation figures of the best epoch.
    pub validation: Option<Figures>,
    /// What naive forecasts reach on the validation windows.
    pub validation_baseline: Baseline,
    /// Test figures of the best epoch.
    pub test: Option<Figures>,
    /// What naive forecasts reach on the test windows.
    pub baseline: Baseline,
    /// Training windows per second of training steps.
    pub samples_per_s: f64,
    /// Share of the time that the trainer waited for data, 0 to 1.
    pub wait_share: f64,
    /// In the order of the line; in JSON an object by name.
    #[serde(serialize_with = "by_name")]
    pub stages: Vec<StageReport>,
    /// From the start to the last of it.
    pub seconds: f64,
    /// The most memory that the process has had.
    pub peak_rss_mb: f64,
    /// What the forecasts of the test part gave, where they were made.
    pub predict: Option<Predicted>,
    /// What a person was warned of.
    pub warnings: Vec<String>,
}

impl Report {
    /// What training found, before it is [closed](Self::close).
    pub(crate) fn new(
        run: PathBuf,
        interrupted: bool,
        target_kind: TargetKind,
        found: TrainReport,
        stages: Vec<StageReport>,
    ) -> Self {
        Report {
            run,
            interrupted,
            steps: found.steps,
            samples: found.samples,
            best_epoch: found.best_epoch,
            stopped_after: found.stopped_after,
            skipped: found.skipped,
            train_loss: found.train_loss,
            first_validation_loss: found.first_validation_loss,
            losses: found.losses,
            target_kind,
            first_validation: found.first_validation,
            validation: found.validation,
            validation_baseline: found.validation_baseline,
            test: found.test,
            baseline: found.baseline,
            samples_per_s: rate(found.samples, found.train_seconds),
            wait_share: stages.last().map_or(0.0, StageReport::wait_share),
            stages,
            ..Report::default()
        }
    }

    /// Forgets the folder, of which nothing is kept.
    pub(crate) fn forget_folder(&mut self) {
        self.run = PathBuf::new();
        if let Some(predicted) = &mut self.predict {
            (predicted.run, predicted.output) = (PathBuf::new(), None);
        }
    }

    /// Adds what `predict` gave, and its last stage.
    pub(crate) fn add_forecasts(&mut self, predicted: Predicted) {
        self.stages.extend(predicted.stages.last().cloned());
        self.predict = Some(predicted);
    }

    /// Notes what is known at the end alone.
    pub(crate) fn close(&mut self, warnings: Vec<String>, seconds: f64) {
        (self.warnings, self.seconds) = (warnings, seconds);
        self.peak_rss_mb = peak_rss_mb();
    }
}

fn rate(samples: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { samples as f64 / seconds } else { 0.0 }
}

fn by_name<S: Serializer>(stages: &[StageReport], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|stage| (&stage.name, stage)))
}

/// A path in JSON, which is text: what is none in its name is replaced.
pub(crate) fn path_as_text<S: Serializer>(
    path: &impl AsRef<Path>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().display())
}

/// The same of a path that may be empty.
fn path_or_null<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    if path.as_os_str().is_empty() {
        serializer.serialize_none()
    } else {
        path_as_text(&path, serializer)
    }
}

/// The same of a path that need not be there.
pub(crate) fn some_path_as_text<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => path_as_text(path, serializer),
        None => serializer.serialize_none(),
    }
}
