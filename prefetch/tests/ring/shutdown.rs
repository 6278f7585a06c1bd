//! A consumer that stops early, fails or panics leaves no thread, no memory and no hazard behind.

use crate::line::{Manner, Run};
use fake_cuda::{Config, Live, Simulator};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// The names of this process's threads that a line makes.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
    let names = tasks.filter_map(|task| {
        // A thread may end between being listed and being read.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    let ours = ["start", "producer", "prefetch", "prefetch-return", "fake-cuda"];
    names.filter(|name| ours.contains(&name.trim())).collect()
}

/// The threads that stay. The kernel lists a thread for a moment after it was joined, so an answer
/// other than none is asked for again until there can be no doubt.
fn left_over() -> Vec<String> {
    let no_doubt = Instant::now() + Duration::from_secs(10);
    loop {
        let found = threads();
        if found.is_empty() || Instant::now() > no_doubt {
            return found;
        }
        std::thread::yield_now();
    }
}

fn check(manner: Manner, expected: &str) {
    // One at a time, and under `cargo test` other tests run threads of these names too.
    let simulator = Simulator::start(Config { jitter: 200, ..Config::default() });
    assert_eq!(left_over(), [""; 0], "before {manner:?}");
    let outcome =
        catch_unwind(AssertUnwindSafe(|| Run { manner, ..Run::default() }.go(&simulator)));
    let ending = match outcome {
        Ok(Ok(found)) => format!("{} batches", found.seen),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
    };
    assert_eq!(ending, expected);
    assert_eq!(left_over(), [""; 0], "after {manner:?}");
    assert_eq!(simulator.balance(), 0, "{manner:?}");
    assert_eq!(simulator.live(Live::Contexts), 0, "{manner:?}");
    assert_eq!(simulator.hazards(), [""; 0], "{manner:?}");
    assert_eq!(Run::wrong_so_far(), 0, "{manner:?}");
}

#[test]
fn a_consumer_that_takes_all_leaves_nothing() {
    check(Manner::Whole, "100 batches");
}

#[test]
fn a_consumer_that_stops_leaves_nothing() {
    check(Manner::StopsAfter(1), "1 batches");
    check(Manner::StopsAfter(50), "50 batches");
}

#[test]
fn a_consumer_that_fails_leaves_nothing() {
    check(Manner::FailsAfter(0), "on purpose");
    check(Manner::FailsAfter(50), "on purpose");
}

#[test]
fn a_consumer_that_panics_leaves_nothing() {
    check(Manner::PanicsAfter(0), "panic: on purpose");
    check(Manner::PanicsAfter(50), "panic: on purpose");
}
