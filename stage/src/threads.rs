//! Named thread pools: one per stage, so that a profile or `top -H` says who works.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZeroUsize;

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
    let name = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(move |index| format!("{name}-{index}"))
        .build()
        .expect("the system can start a stage's threads")
}

/// As [`thread_pool`], but the calling thread is one of the pool's threads: `pool.install` then
/// starts at once, where handing work over to a pool from outside allocates every so often. A
/// thread can be part of one pool only; one that is already gets an ordinary pool.
///
/// rayon keeps a few kilobytes for such a pool until the process ends, so this is for threads that
/// live as long as their pool.
///
/// # Panics
/// When the system cannot start the threads.
#[must_use]
pub fn thread_pool_here(name: &str, threads: NonZeroUsize) -> ThreadPool {
    let owned = name.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(move |index| format!("{owned}-{index}"))
        .use_current_thread()
        .build()
        .unwrap_or_else(|_| thread_pool(name, threads))
}
