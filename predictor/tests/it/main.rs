//! What a predictor does with a checkpoint and a stream of batches.

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod checkpoints;
mod data;
mod files;
mod forecast_table;
mod forecaster;
mod own_sink;
mod postgres_table;
mod sample;

#[path = "../../../loader/tests/loader/support"]
#[expect(dead_code, reason = "the loader's own, which uses more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}
