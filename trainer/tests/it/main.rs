//! What a trainer does with a stream of batches.

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod averages;
mod checkpoints;
mod early_stop;
mod events;
mod first_weights;
mod learning;
mod locked;
mod nonfinite;
mod operators;
mod optimizers;
mod own_model;
mod padding;
mod precision;
mod reads;
mod resume;
mod stream;
