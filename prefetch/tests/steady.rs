//! Steady state: no allocation anywhere, and no wait on the consumer's thread.
//!
//! A test program of its own, with one test in it: allocations of other tests would count too.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

#[path = "ring/line.rs"]
#[allow(dead_code, reason = "the tests of the ring use more of it")]
mod line;

use fake_cuda::{Call, Config, Simulator};
use line::{Run, synchronize};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts the allocations of every thread of this program. The simulator, a library of its own,
/// has an allocator of its own.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// What happened between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// On the heap, by any thread.
    heap: u64,
    /// Pinned and device memory, events and streams, by any thread.
    device: u64,
    /// Calls on the consumer's thread that wait for the device.
    waits: u64,
}

impl Counts {
    fn now(simulator: &Simulator) -> Self {
        let allocating = Call::ALL.iter().filter(|call| call.allocates());
        Counts {
            heap: ALLOCATIONS.load(Relaxed),
            device: allocating.map(|call| simulator.calls(*call)).sum(),
            waits: simulator.calls_here(Call::synchronises),
        }
    }

    fn least(self, other: Counts) -> Self {
        Counts {
            heap: self.heap.min(other.heap),
            device: self.device.min(other.device),
            waits: self.waits.min(other.waits),
        }
    }

    fn since(self, start: Counts) -> Self {
        Counts {
            heap: self.heap - start.heap,
            device: self.device - start.device,
            waits: self.waits - start.waits,
        }
    }
}

/// The least that is counted over 1,000 batches, of four times 1,000 after 200 to warm up;
/// `mischief` happens once in each. What is done per batch shows in all four; what a thread sets
/// up when it first has to wait, which may be late, shows in one.
fn steady(mischief: impl Fn()) -> Counts {
    let simulator = Simulator::start(Config::default());
    let mut marks = [None; 5];
    let mut watch = |batch: u64| match batch.checked_sub(200).map(|b| (b / 1_000, b % 1_000)) {
        Some((window, 0)) => marks[window as usize] = Some(Counts::now(&simulator)),
        Some((_, 500)) => mischief(),
        _ => {}
    };
    let found = Run { batches: 4_201, ..Run::default() }.go_watched(&simulator, &mut watch);
    assert_eq!(found.unwrap().right, 4_201);
    let marks = marks.map(|mark| mark.expect("as many batches as windows need"));
    let windows = marks.windows(2).map(|pair| pair[1].since(pair[0]));
    windows.reduce(Counts::least).expect("there are four")
}

#[test]
fn steady_state_allocates_nothing_and_the_consumer_never_waits() {
    assert_eq!(steady(|| {}), Counts { heap: 0, device: 0, waits: 0 });

    // The same with one of each done on purpose: the counters do count.
    let mischief = || {
        drop(black_box(vec![1_u8; 64]));
        synchronize().unwrap();
        // SAFETY: a context is current on this thread, which has begun a batch.
        let memory = unsafe { cudarc::driver::result::malloc_sync(64) }.unwrap();
        // SAFETY: allocated just now.
        unsafe { cudarc::driver::result::free_sync(memory) }.unwrap();
    };
    // Freeing device memory waits for the device too.
    assert_eq!(steady(mischief), Counts { heap: 1, device: 2, waits: 2 });
}
