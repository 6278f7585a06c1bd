//! The ring on the simulated driver: the production code, with nothing replaced but libcuda.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod edges;
mod faults;
mod line;
mod overlap;
mod reuse;
mod shutdown;
