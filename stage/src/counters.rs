//! What each part did and how long it waited: counters that can be read at any moment, and the report
//! made of them.
//!
//! Time is booked whenever a part turns from one activity to another; whoever reads in between adds
//! what the present activity has taken so far. So a part that works for an hour on one item is seen
//! working, and the times of a part add up to how long it has run.

use serde::Serialize;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering, fence},
    },
    time::{Duration, Instant},
};

/// What a part is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Not begun, or ended.
    Idle,
    /// Its work.
    Busy,
    /// Waiting for its first input.
    Start,
    /// Waiting for further input.
    WaitIn,
    /// Waiting for a place to put output.
    WaitOut,
}

/// How many activities there are, and of `since` the bits that say which.
const ACTIVITIES: usize = 5;
const ACTIVITY_BITS: u32 = 3;

/// In place of an activity while its time is being booked.
const BOOKING: u64 = u64::MAX;

/// Live counters of one part. Only the part's own thread writes; anybody may read.
#[derive(Debug)]
pub struct Counters {
    name: String,
    taken: AtomicU64,
    items: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    made: Instant,
    /// The present activity in the low bits, above them when it began, in nanoseconds since `made`.
    present: AtomicU64,
    /// Nanoseconds of each activity, the present one not counted.
    booked: [AtomicU64; ACTIVITIES],
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

/// How full the link between two parts is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkFill {
    /// The part that sends.
    pub from: String,
    /// The part that receives.
    pub to: String,
    /// Items in it.
    pub items: u64,
    /// Items it holds at most.
    pub depth: u64,
}

/// The counters of a whole line, to be read while it runs and after. See
/// [`Pipeline::counters`](crate::Pipeline::counters).
#[derive(Debug, Clone)]
pub struct LineCounters {
    depth: usize,
    /// In line order.
    parts: Arc<Mutex<Vec<Arc<Counters>>>>,
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
    fn new(name: &str) -> Self {
        Counters {
            name: name.to_owned(),
            taken: AtomicU64::new(0),
            items: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            made: Instant::now(),
            present: AtomicU64::new(Activity::Idle as u64),
            booked: [const { AtomicU64::new(0) }; ACTIVITIES],
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
        let spent = self.spent();
        let seconds = |activity: Activity| spent[activity as usize].as_secs_f64();
        StageReport {
            name: self.name.clone(),
            items: read(&self.items),
            rows: read(&self.rows),
            bytes: read(&self.bytes),
            busy_s: seconds(Activity::Busy),
            start_s: seconds(Activity::Start),
            wait_in_s: seconds(Activity::WaitIn),
            wait_out_s: seconds(Activity::WaitOut),
        }
    }

    /// The time of each activity, the present one included.
    fn spent(&self) -> [Duration; ACTIVITIES] {
        loop {
            let present = self.present.load(Ordering::Acquire);
            let mut booked = self.booked.each_ref().map(|time| time.load(Ordering::Relaxed));
            // What was read, the clock too, is of one moment if nothing was booked meanwhile.
            let now = self.now();
            fence(Ordering::Acquire);
            if present != BOOKING && self.present.load(Ordering::Relaxed) == present {
                let (activity, since) = unpack(present);
                booked[activity] += now.saturating_sub(since);
                return booked.map(Duration::from_nanos);
            }
            // The writer may have lost its core in the middle.
            std::thread::yield_now();
        }
    }

    /// Books the time of what the part was doing, and begins something else.
    pub(crate) fn turn_to(&self, activity: Activity) {
        // Seen by all before the clock is read, or a reader could count beyond it what is booked only
        // up to here.
        let (last, since) = unpack(self.present.swap(BOOKING, Ordering::SeqCst));
        let now = self.now();
        add(&self.booked[last], now - since);
        self.present.store(now << ACTIVITY_BITS | activity as u64, Ordering::Release);
    }

    /// Nanoseconds since the counters were made: 73 years of them fit beside an activity.
    fn now(&self) -> u64 {
        self.made.elapsed().as_nanos() as u64
    }

    pub(crate) fn add_taken(&self) {
        add(&self.taken, 1);
    }

    pub(crate) fn add_item(&self, rows: u64, bytes: u64) {
        add(&self.items, 1);
        add(&self.rows, rows);
        add(&self.bytes, bytes);
    }
}

/// Which activity, and since when.
fn unpack(present: u64) -> (usize, u64) {
    ((present & ((1 << ACTIVITY_BITS) - 1)) as usize, present >> ACTIVITY_BITS)
}

/// One thread writes, so this need not be one step for another that does.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl LineCounters {
    pub(crate) fn new(depth: usize) -> Self {
        LineCounters { depth, parts: Arc::default() }
    }

    /// Adds a part behind those that are there.
    pub(crate) fn add(&self, name: &str) -> Arc<Counters> {
        let counters = Arc::new(Counters::new(name));
        self.lock().push(Arc::clone(&counters));
        counters
    }

    /// What each part has done so far, in line order; the sink is among them once the line runs.
    #[must_use]
    pub fn reports(&self) -> Vec<StageReport> {
        self.lock().iter().map(|part| part.report()).collect()
    }

    /// How full each link is, in line order.
    #[must_use]
    pub fn links(&self) -> Vec<LinkFill> {
        let (parts, depth) = (self.lock(), self.depth as u64);
        let fill = |pair: &[Arc<Counters>]| {
            let [from, to] = pair else { unreachable!("windows of two") };
            // In this order: an item is counted as sent after it may have been taken.
            let taken = to.taken.load(Ordering::Relaxed);
            let sent = from.items.load(Ordering::Relaxed);
            let items = sent.saturating_sub(taken).min(depth);
            LinkFill { from: from.name.clone(), to: to.name.clone(), items, depth }
        };
        parts.windows(2).map(fill).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Counters>>> {
        // A panic elsewhere leaves the list as good as it was.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_going_on_counts_and_all_time_is_somebodys() {
        let counters = Counters::new("part");
        for activity in [Activity::Start, Activity::Busy, Activity::WaitOut, Activity::Busy] {
            counters.turn_to(activity);
        }
        let before = counters.report();
        while counters.report().busy_s <= before.busy_s {}
        let after = counters.report();
        assert!(after.wait_out_s == before.wait_out_s && after.start_s == before.start_s);
        counters.turn_to(Activity::Idle);
        let StageReport { busy_s, start_s, wait_in_s, wait_out_s, .. } = counters.report();
        let whole = counters.made.elapsed().as_secs_f64();
        assert!(busy_s + start_s + wait_in_s + wait_out_s <= whole);
        assert_eq!(counters.report().busy_s, busy_s, "what has ended takes no more time");
    }

    #[test]
    fn a_reader_never_sees_time_twice() {
        let counters = Counters::new("part");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..100_000 {
                    counters.turn_to(Activity::Busy);
                    counters.turn_to(Activity::WaitIn);
                }
            });
            let mut last = [Duration::ZERO; ACTIVITIES];
            while !writer.is_finished() {
                let spent = counters.spent();
                let whole = counters.made.elapsed();
                assert!(spent.iter().sum::<Duration>() <= whole, "{spent:?} in {whole:?}");
                assert!(
                    spent.iter().zip(last).all(|(now, last)| *now >= last),
                    "{spent:?} {last:?}"
                );
                last = spent;
            }
        });
    }
}
