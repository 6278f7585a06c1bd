//! The loader from outside: one binary, so that Arrow and Parquet are linked once.

#![allow(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in test functions, not in their helpers"
)]

mod cache;
#[cfg(feature = "parquet")]
mod changes;
#[cfg(feature = "postgres")]
mod column_types;
#[cfg(feature = "postgres")]
mod connect;
#[cfg(feature = "postgres")]
mod crowd;
#[cfg(feature = "parquet")]
mod files;
#[cfg(feature = "postgres")]
mod freshness;
#[cfg(feature = "postgres")]
mod grants;
mod left_out;
#[cfg(feature = "parquet")]
mod odd_files;
#[cfg(feature = "postgres")]
mod peers;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod silence;
#[cfg(feature = "postgres")]
mod snapshot;
#[cfg(feature = "postgres")]
mod stream;
mod support;
#[cfg(feature = "postgres")]
mod tasks;
#[cfg(all(feature = "parquet", feature = "postgres"))]
mod warnings;
