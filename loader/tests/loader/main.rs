//! The loader from outside: one binary, so that Arrow and Parquet are linked once.

#![allow(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in test functions, not in their helpers"
)]

mod cache;
mod changes;
mod column_types;
mod connect;
mod crowd;
mod files;
mod freshness;
mod grants;
mod odd_files;
mod peers;
mod postgres;
mod silence;
mod snapshot;
mod stream;
mod support;
mod tasks;
mod warnings;
