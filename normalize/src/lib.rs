//! Leak-proof splits, fitted scalers, and shuffled windows copied into reusable batch slots.
//!
//! [`TrainingData`] is the short way: a [`Panel`](millstream_data::Panel) and settings in, iterators
//! over filled batches out.
//!
//! ```
//! use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
//! use millstream_data::Panel;
//! use millstream_normalize::{TrainingData, TrainingSettings};
//! use std::sync::Arc;
//!
//! // One series of 100 rows with two columns.
//! let column = |of: fn(f64) -> f64| {
//!     Arc::new((0..100).map(|t| Some(of(f64::from(t)))).collect::<Float64Array>()) as ArrayRef
//! };
//! let table = RecordBatch::try_from_iter([
//!     ("t", Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef),
//!     ("x", column(f64::sin)),
//!     ("y", column(f64::sqrt)),
//! ])?;
//! let panel = Panel::from_table(&[table], None, "t")?;
//!
//! let mut settings = TrainingSettings { batch_size: 32.try_into()?, ..Default::default() };
//! settings.fit.target.columns = vec!["y".into()];
//! settings.fit.window.lookback = 10.try_into()?;
//! let mut data = TrainingData::new(&panel, &settings)?;
//! assert_eq!(data.plan().windows.train, 60); // 70 training rows; the first 10 show too little
//! for epoch in 1..=3 {
//!     for batch in data.train(epoch) {
//!         let [rows, lookback, features] = batch.inputs_shape();
//!         assert_eq!(batch.inputs().len(), rows * lookback * features);
//!         assert_eq!((batch.targets_shape(), batch.times().len()), ([rows, 1, 1], rows));
//!     }
//!     assert_eq!(data.validation().map(|batch| batch.rows()).sum::<usize>(), 15);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Normalize`] is the stage: in a line it fills batches ahead of who consumes them, tagged (epoch,
//! phase, index), so that the stream never pauses between epochs or for validation. Both do the same:
//! draw the split ([`Split`]), fit the scalers on training rows only ([`fit`]), scale every row once
//! ([`ScaledRows`]), number the windows ([`WindowIndex`]), share them out among batches ([`Batches`]) and
//! fill one slot after another ([`Filler`]). Each of these pieces can be used alone; none needs
//! libtorch, a GPU or a database.

mod apply;
mod batch_maker;
mod batches;
mod between;
mod beyond_fit;
mod cholesky;
mod column_fit;
mod column_rules;
mod column_scales;
mod contract;
mod cross_section;
mod error;
mod fill;
mod fit;
mod folds;
mod forecast_ends;
mod forecasts;
mod hindsight;
mod huge_pages;
mod labels;
mod limit;
mod missing_level;
mod moments;
mod panel_rows;
mod passes;
mod prefetch_hints;
mod prepare;
mod purpose;
mod reference;
mod relative;
mod resolution;
mod ridge;
mod room;
mod rows;
mod scalers;
mod settings;
mod shuffle;
mod split;
mod stage;
mod stale;
mod target_fit;
mod training_data;
mod windows;
mod with_avx2;

pub use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    error::NormalizeError,
    fill::Filler,
    fit::{FitSettings, Fitted, fit},
    limit::Limit,
    panel_rows::SeriesRows,
    purpose::{ForecastTimes, PredictPurpose, Purpose, Resume, TrainPurpose},
    rows::ScaledRows,
    scalers::ScaleMethod,
    settings::{
        PadSide, ScaleGroup, ScalePer, ScaleSettings, ShortSeries, SplitBy, SplitSettings,
        TargetSettings, Walk, WindowOrder, WindowSettings,
    },
    shuffle::Shuffle,
    split::{Span, Split, SplitPart, TrainSplit},
    stage::{MakeSlots, Normalize, NormalizeSettings},
    training_data::{BatchIter, TrainingData, TrainingSettings},
    windows::{LeftOut, Window, WindowIndex, WindowShape},
};
