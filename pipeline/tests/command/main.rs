//! The `millstream` command as a user runs it, on small tables.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod answers;
mod bench;
mod figures;
mod flips;
mod forecasts;
mod line;
mod locked;
