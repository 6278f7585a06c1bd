//! What each stage did and how long it waited: live counters, and the report made of them.

use serde::Serialize;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Live counters of one stage. A progress bar may read them from another thread at any time.
#[derive(Debug)]
pub struct Counters {
    name: String,
    items: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    busy: AtomicU64,
    start: AtomicU64,
    wait_in: AtomicU64,
    wait_out: AtomicU64,
}

/// What a stage did, in plain numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageReport {
    /// The stage's name in the line.
    #[serde(skip)]
    pub name: String,
    /// Items it emitted (a sink: accepted).
    pub items: u64,
    /// Rows in those items.
    pub rows: u64,
    /// Bytes in those items.
    pub bytes: u64,
    /// Seconds of work.
    pub busy_s: f64,
    /// Seconds until the first item arrived: the line's start-up, not its steady state.
    pub start_s: f64,
    /// Seconds spent waiting for input after the first item.
    pub wait_in_s: f64,
    /// Seconds spent waiting for a place to put output.
    pub wait_out_s: f64,
}

impl StageReport {
    /// Share of its running time that the stage waited for input, once it had begun.
    #[must_use]
    pub fn wait_share(&self) -> f64 {
        let total = self.busy_s + self.wait_in_s + self.wait_out_s;
        if total > 0.0 { self.wait_in_s / total } else { 0.0 }
    }
}

impl Counters {
    pub(crate) fn new(name: &str) -> Self {
        Counters {
            name: name.to_owned(),
            items: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            start: AtomicU64::new(0),
            wait_in: AtomicU64::new(0),
            wait_out: AtomicU64::new(0),
        }
    }

    /// The stage's name in the line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The figures so far.
    #[must_use]
    pub fn report(&self) -> StageReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let seconds = |counter: &AtomicU64| Duration::from_nanos(read(counter)).as_secs_f64();
        StageReport {
            name: self.name.clone(),
            items: read(&self.items),
            rows: read(&self.rows),
            bytes: read(&self.bytes),
            busy_s: seconds(&self.busy),
            start_s: seconds(&self.start),
            wait_in_s: seconds(&self.wait_in),
            wait_out_s: seconds(&self.wait_out),
        }
    }

    pub(crate) fn add_item(&self, rows: u64, bytes: u64) {
        self.items.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_busy(&self, time: Duration) {
        add(&self.busy, time);
    }

    pub(crate) fn set_start(&self, time: Duration) {
        add(&self.start, time);
    }

    pub(crate) fn add_wait_in(&self, time: Duration) {
        add(&self.wait_in, time);
    }

    pub(crate) fn add_wait_out(&self, time: Duration) {
        add(&self.wait_out, time);
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    // 584 years of nanoseconds fit.
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// A running stopwatch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Clock(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
