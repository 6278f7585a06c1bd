//! Named thread pools: one per stage, so that a profile or `top -H` says who works.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::{error::Error, io, num::NonZeroUsize};

/// The system does not give a stage its threads.
#[derive(Debug, thiserror::Error)]
#[error("the system does not start the {threads} threads of {name}; use fewer")]
pub struct NoThreads {
    /// The stage.
    pub name: String,
    /// How many it wants.
    pub threads: NonZeroUsize,
    /// Why not.
    pub source: io::Error,
}

/// Makes a rayon pool whose threads are called `name-0`, `name-1`, …
///
/// Never send or receive on a channel inside it: a worker that waits can leave the pool with
/// nobody to do the work that would wake it. The stage's driver thread does the channel work and
/// calls `pool.install` for the rest.
///
/// # Panics
/// When the system cannot start the threads.
#[must_use]
pub fn thread_pool(name: &str, threads: NonZeroUsize) -> ThreadPool {
    builder(name, threads).build().expect("the system can start a stage's threads")
}

/// As [`thread_pool`], but the calling thread is one of the pool's threads: `pool.install` then
/// starts at once, where handing work over to a pool from outside allocates every so often. A
/// thread can be part of one pool only; one that is already gets an ordinary pool.
///
/// rayon keeps a few kilobytes for such a pool until the process ends, so this is for threads that
/// live as long as their pool.
///
/// # Errors
/// When the system cannot start the threads.
pub fn thread_pool_here(name: &str, threads: NonZeroUsize) -> Result<ThreadPool, NoThreads> {
    let here = builder(name, threads).use_current_thread().build();
    let is_of_system = |error: &ThreadPoolBuildError| error.source().is_some();
    let made = match here {
        Err(error) if !is_of_system(&error) => builder(name, threads).build(),
        made => made,
    };
    made.map_err(|error| {
        // It names no kind, but has the system's error where that is what failed.
        let source = io::Error::other(error.to_string());
        NoThreads { name: name.to_owned(), threads, source }
    })
}

fn builder(name: &str, threads: NonZeroUsize) -> ThreadPoolBuilder {
    let name = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(move |index| format!("{name}-{index}"))
}
