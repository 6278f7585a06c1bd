//! What flows along a millstream line.
//!
//! The [`Panel`] is the data set once, row-major, sorted by series and time; a [`Shard`] is a piece of
//! it. Batches are cut from it: normalize fills a [`BatchSlot`] on a
//! [`Lease`](millstream_stage::Lease), prefetch hands it on as a [`DeviceBatch`], and dropping that
//! returns the slot. Every batch carries the [`Plan`] of its stream and a [`Tag`] that says where in it
//! the batch stands; a [`Scaling`] tells how values became what they are, and how they go back.
//!
//! Here too, because every crate must agree on them: [`time`] (what a time is as text), [`table`] (any
//! Arrow table as a panel), [`nearest_name`] (what was meant), [`NamePattern`] (which columns a glob means),
//! [`ForecastColumns`] (what forecasts are called), [`Checksums`], and the one way to write a
//! file ([`WholeFile`]) or a folder ([`replace_folder`]) whole or not at all. Nothing here reads a
//! source, fits a scale or knows a model.
//!
//! ```
//! use millstream_data::{BatchLayout, BatchSlot, Extras};
//!
//! let layout = BatchLayout {
//!     batch_size: 2, lookback: 3, features: 4, horizon: 1, targets: 1, extras: Extras::NONE,
//! };
//! let mut slot = BatchSlot::on_heap(layout);
//! let (parts, meta) = slot.parts_mut();
//! parts.inputs.fill(0.5);
//! parts.targets.fill(1.0);
//! meta.series = vec![0, 0];
//! assert_eq!((slot.rows(), slot.values()[layout.targets_at()]), (2, 1.0));
//! ```

mod batch_layout;
mod batch_slot;
mod bytes;
mod checksums;
mod curve;
pub mod decimal;
mod device_batch;
mod early_end;
mod forecast_columns;
mod heads;
mod memory;
mod name_hints;
mod names;
mod order;
mod panel;
pub mod plain_file;
mod plan;
mod random;
mod ridge;
mod scaling;
mod shard;
pub mod table;
pub mod time;
mod whole_file;
mod whole_folder;

pub use crate::{
    batch_layout::{BatchLayout, Extras},
    batch_slot::{BatchMeta, BatchParts, BatchSlot, HostMemory},
    bytes::Bytes,
    checksums::{ChecksumError, Checksums},
    curve::Curve,
    device_batch::{DeviceBatch, DeviceFault, DeviceMemory, DeviceSlot, Place},
    forecast_columns::{
        ForecastColumns, IntervalColumns, SameName, TargetColumns, is_said_by_a_model, level_after,
    },
    heads::{Heads, MEDIAN},
    memory::available_memory,
    name_hints::{column_hint, likeness, list_names, nearest_by, nearest_name},
    names::{NameError, NamePattern},
    panel::{ColumnKind, Panel, PanelError, PanelSchema, Piece},
    plan::{
        BatchCounts, DataSchema, Padding, PartBorders, Phase, Plan, Tag, TargetKind, WindowCounts,
    },
    random::SplitMix64,
    ridge::Ridge,
    scaling::{
        ColumnScaling, CrossSection, Fit, Missing, Reference, Relative, Scaling, SeriesFits,
    },
    shard::{Shard, shard_schema},
    table::TableError,
    time::TimeKind,
    whole_file::{WholeFile, has_partial_files, is_at, remove_leftovers, sync_folder, write_whole},
    whole_folder::{folder_aside, make_folder, partial_folder, replace_folder, restore_folder},
};
