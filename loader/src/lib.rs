//! The loader: a table to a panel.
//!
//! [`Loader`] is the source at the start of every millstream line. It reads rows from PostgreSQL,
//! Parquet or CSV, or makes them up, as [`SourceSettings`] say, sorts them by series and time, and
//! emits one [`Panel`](millstream_data::Panel): the data set once, row-major, missing values as
//! NaN. Numbers are rounded to the nearest `f64`, then to `f32`.
//!
//! Panels are cached on disk as uncompressed Arrow IPC files and memory-mapped, so that every run
//! but the first starts at once. [`import`] reads a source anew and replaces the cached panel;
//! [`verify`] checks the cached bytes. Everything that can go wrong is a [`LoadError`].
//!
//! The features `postgres` and `parquet`, both on by default, are the sources of these names and what
//! they need; with `postgres` come `PostgresReader`, `Columns`, `copy_commands`, `CopyError` and `PostgresError`.
//!
//! Deliberately not here: windows, splits and scaling (normalize's business), and any guess about
//! what a bad cell might have meant.
//!
//! ```
//! use millstream_loader::{GenerateSettings, Loader, SourceSettings};
//! use millstream_stage::Source;
//!
//! let settings = SourceSettings {
//!     generate: GenerateSettings { series: 3.try_into()?, ..GenerateSettings::default() },
//!     cache: String::new(), // off
//!     ..SourceSettings::default()
//! };
//! let mut loader = Loader::new(settings, vec!["close_pct".to_owned()]);
//! let panel = loader.next()?.expect("a loader emits one panel");
//! assert_eq!(panel.schema().series, ["S000", "S001", "S002"]);
//! assert_eq!(panel.schema().columns[..2], ["close_pct", "f001"]);
//! assert_eq!(panel.schema().format_time(panel.shards()[0].times()[0]).len(), "2015-01-05".len());
//! assert!(loader.next()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod cache_damage;
mod cache_folder;
mod checksum;
mod columns;
mod error;
mod files;
mod filter;
mod loader;
mod manifest;
mod mapped_file;
mod order;
mod progress;
mod record_batch_rows;
mod refresh;
mod request;
mod row_warnings;
mod rows;
mod settings;
mod shard_file;
mod sources;
mod table;
mod text_number;
mod utc_offsets;

// Shared with normalize: what is said of times, numbers and names there holds here.
#[cfg(feature = "postgres")]
use millstream_data::decimal;
use millstream_data::time;

pub use crate::{
    cache_damage::CacheDamage,
    error::LoadError,
    loader::{ImportReport, Loader, import, verify},
    progress::{LoadProgress, Observer, Origin},
    refresh::Refresh,
    settings::SourceSettings,
    sources::{SourceKind, generate::GenerateSettings, server_version},
};

#[cfg(feature = "postgres")]
pub use crate::sources::postgres::{Columns, PostgresReader, copy::CopyError, copy_commands};

/// What goes wrong with a server, inside [`LoadError::Postgres`].
#[cfg(feature = "postgres")]
pub use millstream_postgres::PostgresError;

/// For `loader/fuzz` only.
#[cfg(all(fuzzing, feature = "postgres"))]
#[doc(hidden)]
pub fn fuzz_copy(data: &[u8]) {
    sources::postgres::copy::fuzz::decode(data);
}
