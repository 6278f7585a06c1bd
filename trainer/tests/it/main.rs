//! What a trainer does with a stream of batches.

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod checkpoints;
mod events;
mod learning;
mod locked;
mod optimizers;
mod own_model;
mod padding;
mod reads;
mod resume;
mod stream;
