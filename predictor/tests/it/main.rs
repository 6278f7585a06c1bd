//! What a predictor does with a checkpoint and a stream of batches.

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod checkpoints;
mod data;
mod files;
mod forecast_table;
mod own_sink;
mod sample;
