//! Leak-proof splits, fitted scalers, and shuffled windows copied into reusable batch slots.
//!
//! [`Normalize`] is the stage: it takes a [`Panel`](millstream_data::Panel), draws the split
//! ([`Split`]), fits the scalers on training rows only ([`fit`]), scales every row once ([`Rows`]),
//! numbers the windows ([`WindowIndex`]), shares them out among batches ([`Batches`]) and fills one
//! slot after another ([`Filler`]), tagged (epoch, phase, index), so that the stream never pauses
//! between epochs or for validation.
//!
//! Each piece can be used alone; none needs libtorch, a GPU or a database:
//!
//! ```
//! use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
//! use millstream_normalize::{
//!     Batches, Filler, FitSettings, Fitted, Rank, Rows, Shape, Split, SplitSettings,
//!     TargetSettings, TrainingOrder, WindowIndex, WindowOrder, WindowSettings, fit, panel_of,
//! };
//! use millstream_data::BatchSlot;
//! use std::{num::NonZeroUsize, sync::Arc};
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
//! let panel = panel_of(&[table], None, "t")?;
//!
//! let settings = FitSettings {
//!     target: TargetSettings { columns: vec!["y".into()], ..Default::default() },
//!     window: WindowSettings { lookback: NonZeroUsize::new(10).unwrap(), ..Default::default() },
//!     ..Default::default()
//! };
//! let split = Split::new(&panel, &SplitSettings::default())?;
//! let Fitted { schema, scaling, .. } = fit(&panel, split.train(), &settings)?;
//! let rows = Rows::new(&panel, &schema, &scaling)?;
//! let shape = Shape::of(&schema, &settings.window);
//! let train = WindowIndex::labelled(&rows, shape, split.train().part());
//! assert_eq!(train.len(), 60); // 70 training rows; the first 10 have nothing before them
//!
//! let epoch = TrainingOrder { order: WindowOrder::Global, drop_last: false, seed: 42, epoch: 1 };
//! let batches = Batches::training(&rows, &train, 32, Rank::ALONE, epoch)?;
//! let mut filler = Filler::new(&rows, shape, schema.padding, 32);
//! let mut slot = BatchSlot::on_heap(filler.layout());
//! filler.fill(&mut slot, &rows, &train, &batches, 0);
//! assert_eq!(slot.rows(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod batches;
mod between;
mod column_fit;
mod column_rules;
mod column_scales;
mod contract;
mod cross_section;
mod error;
mod fill;
mod fit;
mod folds;
mod forecasts;
mod huge_pages;
mod labels;
mod listing;
mod moments;
mod panel_rows;
mod passes;
mod prefetch_hints;
mod prepare;
mod quantiles;
mod reference;
mod relative;
mod resolution;
mod room;
mod rows;
mod settings;
mod shuffle;
mod split;
mod stage;
mod table;
mod windows;
mod with_avx2;

pub use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    error::NormalizeError,
    fill::Filler,
    fit::{FitSettings, Fitted, fit},
    panel_rows::SeriesRows,
    rows::Rows,
    settings::{
        PadSide, ScaleGroup, ScaleMethod, ScalePer, ScaleSettings, ShortSeries, SplitBy,
        SplitSettings, TargetSettings, Walk, WindowOrder, WindowSettings,
    },
    shuffle::Shuffle,
    split::{Part, Span, Split, TrainSplit, parse_time},
    stage::{ForecastTimes, MakeSlots, Normalize, NormalizeSettings, Purpose, Resume},
    table::panel_of,
    windows::{LeftOut, Shape, Window, WindowIndex},
};
