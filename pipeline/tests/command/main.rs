//! The `millstream` command as a user runs it, on small tables.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod answers;
mod backtest;
mod bench;
mod bytes;
mod chosen;
mod evaluation;
mod export;
mod figures;
mod flips;
mod forecasts;
mod interrupts;
mod line;
mod locked;
mod memory;
mod models;
mod outputs;
mod running;
mod secrets;
mod signals;
mod table_crashes;
mod tensorboard;
mod to_postgres;
mod trials;

#[path = "../../../loader/tests/loader/support"]
#[expect(dead_code, reason = "the loader's tests use more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}
