//! [`Report`]: all that a run found, for people and machines alike. The closing table is printed
//! from it, `report.json` and the last line of `--json` are it.

use crate::{memory::peak_rss_mb, predict::Predicted, train::Trained};
use millstream_data::TargetKind;
use millstream_stage::StageReport;
use millstream_trainer::{Baseline, EpochLoss, Figures, Metrics};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// What a run found. Figures that were not reached are null; see [`Metrics`] for what they mean.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    /// The run directory.
    #[serde(serialize_with = "path_as_text")]
    pub(crate) run: &'a Path,
    /// Whether it was cut short, to be resumed.
    pub(crate) interrupted: bool,
    pub(crate) steps: u64,
    /// Training windows seen.
    pub(crate) samples: u64,
    /// The epoch whose weights are in `checkpoints/best`.
    pub(crate) best_epoch: Option<u32>,
    /// By the configured loss, as are the two below.
    pub(crate) train_loss: Option<f64>,
    pub(crate) first_validation_loss: Option<f64>,
    /// Of every epoch.
    pub(crate) losses: &'a [EpochLoss],
    /// What of the targets is forecast: says what `directional_accuracy` counts.
    pub(crate) target_kind: TargetKind,
    /// Validation figures before the first step.
    pub(crate) first_validation: Option<&'a Metrics>,
    /// Validation figures of the best epoch.
    pub(crate) validation: Option<&'a Figures>,
    /// What naive forecasts reach on the validation windows.
    pub(crate) validation_baseline: &'a Baseline,
    /// Test figures of the best epoch.
    pub(crate) test: Option<&'a Figures>,
    /// What naive forecasts reach on the test windows.
    pub(crate) baseline: &'a Baseline,
    /// Training windows per second of training steps.
    pub(crate) samples_per_s: f64,
    /// Share of the time that the trainer waited for data, 0 to 1.
    pub(crate) wait_share: f64,
    /// In the order of the line, as an object by name.
    #[serde(serialize_with = "by_name")]
    pub(crate) stages: Vec<&'a StageReport>,
    pub(crate) seconds: f64,
    pub(crate) peak_rss_mb: f64,
    /// What `predict` gave, where it followed.
    pub(crate) predict: Option<&'a Predicted>,
    /// What a person was warned of.
    pub(crate) warnings: &'a [String],
}

impl<'a> Report<'a> {
    /// Of a run that took `seconds` in all.
    pub(crate) fn new(
        trained: &'a Trained,
        predicted: Option<&'a Predicted>,
        warnings: &'a [String],
        seconds: f64,
    ) -> Self {
        let found = &trained.report;
        let predictor = predicted.iter().flat_map(|predicted| predicted.stages.last());
        Report {
            run: &trained.run,
            interrupted: trained.interrupted,
            steps: found.steps,
            samples: found.samples,
            best_epoch: found.best_epoch,
            train_loss: found.train_loss,
            first_validation_loss: found.first_validation_loss,
            losses: &found.losses,
            target_kind: trained.settings.target.kind,
            first_validation: found.first_validation.as_ref(),
            validation: found.validation.as_ref(),
            validation_baseline: &found.validation_baseline,
            test: found.test.as_ref(),
            baseline: &found.baseline,
            samples_per_s: rate(found.samples, found.train_seconds),
            wait_share: trained.stages.last().map_or(0.0, StageReport::wait_share),
            stages: trained.stages.iter().chain(predictor).collect(),
            seconds,
            peak_rss_mb: peak_rss_mb(),
            predict: predicted,
            warnings,
        }
    }
}

fn rate(samples: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { samples as f64 / seconds } else { 0.0 }
}

fn by_name<S: Serializer>(stages: &[&StageReport], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|stage| (&stage.name, stage)))
}

/// A path in JSON, which is text: what is none in its name is replaced.
pub(crate) fn path_as_text<S: Serializer>(
    path: &impl AsRef<Path>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().display())
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
