//! What is trained on, and how: the program's defaults on a table as wide as a market's.

use crate::harness::Failure;
use millstream_loader::{GenerateSettings, SourceSettings};
use millstream_normalize::{FitSettings, NormalizeSettings, Rank, TrainPurpose};
use millstream_prefetch::PrefetchSettings;
use millstream_trainer::TrainSettings;
use std::{num::NonZeroUsize, path::Path};

/// The column that is forecast.
pub(crate) const TARGET: &str = "close_pct";

/// Everything a line needs.
pub(crate) struct Settings {
    pub(crate) source: SourceSettings,
    pub(crate) prefetch: PrefetchSettings,
    pub(crate) train: TrainSettings,
    pub(crate) train_threads: NonZeroUsize,
    normalize_threads: NonZeroUsize,
}

impl Settings {
    /// One epoch: what a run does only once weighs the most there.
    pub(crate) fn new(cache: &Path) -> Result<Self, Failure> {
        let generate = GenerateSettings {
            series: 60.try_into()?,
            features: 104.try_into()?,
            short: 0.0,
            ..GenerateSettings::default()
        };
        let cache = cache.to_str().ok_or("the folder for the cache has no plain name")?.to_owned();
        // Shared out as the program does it.
        let cores = std::thread::available_parallelism()?;
        let quarter = NonZeroUsize::new(cores.get() / 4).unwrap_or(NonZeroUsize::MIN);
        let mut train = TrainSettings::default();
        train.epochs = 1;
        Ok(Settings {
            source: SourceSettings { cache, generate, ..SourceSettings::default() },
            prefetch: PrefetchSettings::default(),
            train,
            train_threads: cores,
            normalize_threads: quarter,
        })
    }

    pub(crate) fn normalize(&self) -> NormalizeSettings {
        let mut fit = FitSettings::default();
        fit.target.columns = vec![TARGET.to_owned()];
        NormalizeSettings {
            fit,
            batch_size: self.train.batch_size,
            rank: Rank::ALONE,
            threads: self.normalize_threads,
            purpose: TrainPurpose {
                epochs: self.train.epochs,
                seed: self.train.seed,
                ..TrainPurpose::default()
            }
            .into(),
            ..NormalizeSettings::default()
        }
    }
}
