//! A simulated CUDA driver, for tests only.
//!
//! Built as a `cdylib` with the SONAME `libcuda.so`, it has the driver entry points that `cudarc`
//! calls, so production code runs against it unchanged. Device memory is host memory, each stream
//! is a thread that works through its queue, and time is either real or a virtual clock that makes
//! overlap exact. It counts every call, makes any of them fail on request, and reports a
//! [`Hazard`] whenever two accesses to the same memory are not ordered by the stream and event
//! calls that were made, whether or not they collided this time.
//!
//! Built as an `rlib`, it is how a test loads that library and steers it: [`Simulator`].
//!
//! It computes nothing: a kernel is a declaration of what is read or written, for how long, and
//! optionally a function to run in its place. It does not see channels and locks between host
//! threads: what one thread waited for does not order what another enqueues. That is stricter than
//! the hardware, and what makes a missing event show every time instead of once a month.

mod calls;
mod clock;
mod config;
mod control;
mod driver;
mod entry;
mod event;
mod hazard;
mod host;
mod memory;
mod report;
mod simulator;
mod stream;

pub use crate::{
    calls::Call,
    config::{Code, Config, Fault, FaultKind, Ignore},
    control::{Kernel, Live},
    hazard::Hazard,
    simulator::{Control, Simulator},
};
