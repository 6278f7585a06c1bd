//! A stream: a queue of work and the thread that does it, in order.
//!
//! Ordering, clocks and hazards are settled when work is enqueued, in `driver.rs`; here the bytes
//! are moved, at some later time, on another thread.

use crate::{
    config::Code,
    event::Event,
    hazard::{Findings, Hazard},
};
use std::{
    collections::VecDeque,
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// What all streams' threads look at.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The code of a lost device; 0 while it works.
    lost: AtomicI32,
    pub(crate) jitter: AtomicU32,
    pub(crate) virtual_clock: AtomicBool,
    findings: Mutex<Findings>,
}

pub(crate) static SHARED: Shared = Shared {
    lost: AtomicI32::new(0),
    jitter: AtomicU32::new(0),
    virtual_clock: AtomicBool::new(true),
    findings: Mutex::new(Findings::new()),
};

impl Shared {
    pub(crate) fn lost(&self) -> Option<Code> {
        match self.lost.load(SeqCst) {
            0 => None,
            code => Some(Code(code)),
        }
    }

    pub(crate) fn lose(&self, code: Code) {
        self.lost.store(code.0, SeqCst);
    }

    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stands in for what a kernel computes: gets what the launcher passed on, and the memory.
pub(crate) type Body = extern "C" fn(user: *mut c_void, data: *mut u8, bytes: usize);

#[derive(Debug)]
pub(crate) enum Work {
    Copy {
        from: usize,
        to: usize,
        bytes: usize,
        nanoseconds: u64,
        /// What the source held when the copy was enqueued; checked where a host might overwrite it.
        hash: Option<u64>,
        /// The device is lost over it.
        fails: Option<Code>,
    },
    Kernel {
        data: usize,
        bytes: usize,
        nanoseconds: u64,
        body: Option<(Body, usize)>,
    },
    Record(Arc<Event>, u64),
    Wait(Arc<Event>, u64),
}

#[derive(Debug, Default)]
struct Queue {
    work: VecDeque<Work>,
    enqueued: u64,
    finished: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
    more: Condvar,
    idle: Condvar,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread behind a stream. Dropping it lets the thread finish its queue and waits for it.
#[derive(Debug)]
pub(crate) struct Worker {
    lane: Arc<Lane>,
    thread: Option<JoinHandle<()>>,
}

/// Something to wait on without holding the driver: all work of a stream up to now.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    lane: Arc<Lane>,
    until: u64,
}

impl Drain {
    pub(crate) fn wait(&self) {
        let mut queue = self.lane.lock();
        while queue.finished < self.until {
            queue = self.lane.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Worker {
    pub(crate) fn start(seed: u64) -> Self {
        let lane = Arc::new(Lane::default());
        let mine = Arc::clone(&lane);
        let thread = thread::Builder::new()
            .name("fake-cuda".to_owned())
            .spawn(move || run(&mine, seed))
            .expect("the system can start one thread per stream");
        Worker { lane, thread: Some(thread) }
    }

    pub(crate) fn push(&self, work: Work) {
        let mut queue = self.lane.lock();
        queue.work.push_back(work);
        queue.enqueued += 1;
        drop(queue);
        self.lane.more.notify_one();
    }

    pub(crate) fn drain(&self) -> Drain {
        Drain { until: self.lane.lock().enqueued, lane: Arc::clone(&self.lane) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.lane.lock().closed = true;
        self.lane.more.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a stream's thread does not panic");
        }
    }
}

fn run(lane: &Lane, seed: u64) {
    let mut random = seed | 1;
    loop {
        let mut queue = lane.lock();
        let work = loop {
            if let Some(work) = queue.work.pop_front() {
                break work;
            }
            if queue.closed {
                return;
            }
            queue = lane.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        dawdle(&mut random);
        perform(work);
        lane.lock().finished += 1;
        lane.idle.notify_all();
    }
}

/// Loses a random bit of time, so that threads meet in ever new orders.
fn dawdle(random: &mut u64) {
    let longest = SHARED.jitter.load(SeqCst);
    if longest == 0 {
        return;
    }
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    match *random % 8 {
        0 => thread::yield_now(),
        1..=3 => (0..(*random >> 8) % u64::from(longest)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

fn perform(work: Work) {
    match work {
        Work::Wait(event, number) => event.wait(number),
        Work::Record(event, number) => event.pass(number),
        Work::Copy { from, to, bytes, nanoseconds, hash, fails } => {
            take_time(nanoseconds);
            if let Some(code) = fails {
                SHARED.lose(code);
            }
            if SHARED.lost().is_some() {
                return;
            }
            // SAFETY: `driver.rs` checked that each range lies in an allocation, or is memory that
            // the caller of a copy vouches for; memory is freed only when all streams are idle.
            // The host may race with this: that is a mistake of the program, reported below.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
            if hash.is_some_and(|expected| expected != hash_of(to, bytes)) {
                SHARED.findings().add(Hazard::HostWrite, || {
                    format!("the host changed {bytes} bytes at {from:#x} before they were copied")
                });
            }
        }
        Work::Kernel { data, bytes, nanoseconds, body } => {
            take_time(nanoseconds);
            if let (None, Some((body, user))) = (SHARED.lost(), body) {
                body(user as *mut c_void, data as *mut u8, bytes);
            }
        }
    }
}

fn take_time(nanoseconds: u64) {
    if nanoseconds == 0 || SHARED.virtual_clock.load(SeqCst) {
        return;
    }
    let end = Instant::now() + Duration::from_nanos(nanoseconds);
    // The system's sleep is only good to some 60 µs; the rest is spent spinning.
    if let Some(long) = Duration::from_nanos(nanoseconds).checked_sub(Duration::from_micros(200)) {
        thread::sleep(long);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// A fingerprint of memory, eight bytes at a time.
pub(crate) fn hash_of(address: usize, bytes: usize) -> u64 {
    // SAFETY: as for the copy above: a range inside an allocation, or vouched for by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}
