//! Leak-proof splits, fitted scalers, and shuffled windows copied into reusable batch slots.
//!
//! [`Normalize`] is the stage: it takes a [`Panel`](millstream_stage::Panel), draws the split
//! ([`Split`]), fits the scalers on training rows only ([`fit`]), scales every row once ([`Rows`]),
//! numbers the windows ([`WindowIndex`]) and fills one slot after another ([`Filler`]), tagged
//! (epoch, phase, index), so that the stream never pauses between epochs or for validation.
//!
//! Each piece can be used alone; none needs libtorch, a GPU or a database:
//!
//! ```
//! use millstream_normalize::{
//!     Filler, Order, Rows, ScaleMethod, Shape, Shuffle, Split, SplitSettings, WindowIndex, fit,
//! };
//! use millstream_stage::{BatchSlot, Panel, PanelSchema, Shard, TimeKind};
//! use std::sync::Arc;
//!
//! // One series of 100 rows with two columns.
//! let schema = PanelSchema {
//!     series_column: None,
//!     time_column: "t".into(),
//!     time_kind: TimeKind::Integer,
//!     columns: vec!["x".into(), "y".into()],
//!     inputs: 2,
//!     series: vec![String::new()],
//!     fingerprint: String::new(),
//! };
//! let values = (0..200).map(|v| v as f32).collect();
//! let shard = Shard::new(vec![0; 100], (0..100).collect(), values, 2);
//! let panel = Panel::new(Arc::new(schema), vec![shard])?;
//!
//! let split = Split::new(&panel, &SplitSettings::default())?;
//! let columns = fit(&panel, &split.train(), ScaleMethod::Zscore);
//! let rows = Rows::new(&panel, &columns, &columns[1..])?;
//! let shape = Shape { lookback: 10, horizon: 1, stride: 1 };
//! let train = WindowIndex::labelled(&rows, shape, split.train_span());
//! assert_eq!(train.len(), 60); // 70 training rows; the first 10 have nothing before them
//!
//! let mut filler = Filler::new(shape, 32);
//! let mut slot = BatchSlot::on_heap(filler.layout(&rows, 32));
//! let order = Order::Shuffled(Shuffle::new(train.len(), 42, 1));
//! filler.fill(&mut slot, &rows, &train, &order, 0);
//! assert_eq!(slot.rows(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod fill;
mod fit;
mod rows;
mod settings;
mod shuffle;
mod split;
mod stage;
mod windows;

pub use crate::{
    error::NormalizeError,
    fill::{Filler, Order},
    fit::{Moments, fit, moments},
    rows::{Rows, SeriesRows},
    settings::{
        Missing, ScaleMethod, ScaleSettings, ShortSeries, SplitSettings, TargetKind,
        TargetSettings, WindowSettings,
    },
    shuffle::Shuffle,
    split::{Span, Split, TrainSplit, parse_time},
    stage::{MakeSlots, Normalize, NormalizeSettings, Purpose, Resume},
    windows::{Shape, Window, WindowIndex},
};
