//! The behaviour of the crate as a whole, in one test program.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod baselines;
mod batches;
mod cases;
mod chosen_forecasts;
mod curves;
mod errors;
mod fits;
mod forecasts;
mod leakage;
mod limits;
mod order;
mod reference;
mod splits;
mod stream;
mod support;
mod threads;
mod training_data;
mod windows;
