//! The settings, through the `millstream` command, on a table that trains in a moment.
//!
//! `every_key.rs` walks all keys of `pipeline.toml`; `random.rs` draws whole files at random, and
//! `extremes.rs` goes to the ends of every key.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod every_key;
mod extremes;
mod keys;
mod random;
mod work_folder;
