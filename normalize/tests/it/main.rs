//! The behaviour of the crate as a whole, in one test program.

mod stream;
mod support;
mod windows;
