//! The behaviour of the crate as a whole, in one test program.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod stream;
mod support;
mod windows;
