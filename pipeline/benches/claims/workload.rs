//! The data: a market that the loader makes up, and its windows.

use crate::harness::Failure;
use millstream_data::{DataSchema, Panel, Scaling};
use millstream_loader::{GenerateSettings, Loader, SourceSettings};
use millstream_normalize::{
    Batches, Filler, FitSettings, Fitted, Rank, ScaledRows, Split, SplitSettings, TrainingOrder,
    WindowIndex, WindowOrder, WindowShape, fit,
};
use millstream_stage::Source;
use std::num::NonZeroUsize;

/// How much is worked on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) series: usize,
    /// Rows of a series, where series are long.
    pub(crate) rows: usize,
    pub(crate) rounds: usize,
    /// Rounds of training, a step each.
    pub(crate) lessons: usize,
    /// Rows of the table in PostgreSQL.
    pub(crate) table_rows: usize,
}

impl Size {
    pub(crate) const FULL: Size =
        Size { series: 400, rows: 1000, rounds: 31, lessons: 100, table_rows: 300_000 };
    pub(crate) const QUICK: Size =
        Size { series: 100, rows: 1000, rounds: 15, lessons: 20, table_rows: 60_000 };
}

/// Columns, all of them inputs; the first is the target.
pub(crate) const FEATURES: usize = 105;

/// Windows of a batch.
pub(crate) const BATCH: usize = 256;

/// The column that is forecast.
pub(crate) const TARGET: &str = "close_pct";

/// Where the loader gets the panel from.
pub(crate) fn source(series: usize, rows: usize) -> Result<SourceSettings, Failure> {
    let generate = GenerateSettings {
        series: series.try_into()?,
        rows: rows.try_into()?,
        features: (FEATURES - 1).try_into()?,
        short: 0.0,
        ..GenerateSettings::default()
    };
    Ok(SourceSettings { generate, cache: String::new(), ..SourceSettings::default() })
}

/// Loads a panel.
pub(crate) fn load(source: SourceSettings) -> Result<Panel, Failure> {
    let mut loader = Loader::new(source, vec![TARGET.to_owned()]);
    loader.next()?.ok_or_else(|| "a loader emits one panel".into())
}

/// The made-up market.
pub(crate) fn panel(series: usize, rows: usize) -> Result<Panel, Failure> {
    load(source(series, rows)?)
}

/// Windows of 60 rows, z-scores, a missing input becomes zero: the defaults.
pub(crate) fn settings() -> FitSettings {
    let mut settings = FitSettings::default();
    settings.target.columns = vec![TARGET.to_owned()];
    settings
}

/// A split that learns from every row.
pub(crate) fn learn_from_all() -> SplitSettings {
    SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() }
}

/// A number of threads.
pub(crate) fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("a pool has a thread")
}

/// A panel made ready to be cut into windows, as normalize does it.
pub(crate) struct Windows {
    pub(crate) rows: ScaledRows,
    pub(crate) schema: DataSchema,
    pub(crate) scaling: Scaling,
    pub(crate) train: WindowIndex,
    pub(crate) validation: WindowIndex,
    shape: WindowShape,
}

impl Windows {
    /// On the pool it is called in.
    pub(crate) fn new(
        panel: &Panel,
        split: &SplitSettings,
        settings: &FitSettings,
    ) -> Result<Self, Failure> {
        let split = Split::new(panel, split)?;
        let Fitted { schema, scaling, .. } = fit(panel, split.train(), settings)?;
        let rows = ScaledRows::new(panel, &schema, &scaling)?;
        let shape = WindowShape::of(&schema, &settings.window);
        let train = WindowIndex::labelled(&rows, shape, split.train().part());
        let validation = WindowIndex::labelled(&rows, shape, &split.validation);
        Ok(Windows { rows, schema, scaling, train, validation, shape })
    }

    pub(crate) fn filler(&self) -> Filler {
        Filler::new(&self.rows, self.shape, self.schema.padding, BATCH)
    }

    /// The batches of an epoch, shuffled and all of them full.
    pub(crate) fn epoch(&self) -> Result<Batches, Failure> {
        let order =
            TrainingOrder { order: WindowOrder::Global, drop_last: true, seed: 42, epoch: 1 };
        Ok(Batches::training(&self.rows, &self.train, BATCH, Rank::ALONE, order)?)
    }
}
