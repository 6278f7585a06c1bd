//! The ring beside its floor: the longer of copying and computing, on a simulated device.
//!
//! Time is the simulator's clock, not this machine's: with a copy of 0.9 ms and a kernel of 1 ms a
//! batch cannot take less than 1 ms, and what is measured is how near to it the ring comes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fake_cuda::{Config, Simulator};
use std::time::Duration;

#[path = "../tests/ring/line.rs"]
#[allow(dead_code, reason = "the tests of the ring use more of it")]
mod line;

const COPY_NS: u64 = 900_000;
const KERNEL_NS: u64 = 1_000_000;
const BATCHES: u64 = 200;

/// The device's time for one run of the ring.
fn simulated(copy_ns: u64, kernel_ns: u64) -> Duration {
    let simulator = Simulator::start(Config { latency_ns: copy_ns, ..Config::default() });
    let run = line::Run { batches: BATCHES, kernel_ns, ..line::Run::default() };
    let found = run.go(&simulator).expect("nothing fails");
    assert_eq!((found.right, found.wrong), (BATCHES, 0), "every batch is right");
    Duration::from_nanos(simulator.latest_ns())
}

fn ring(c: &mut Criterion) {
    let mut group = c.benchmark_group("prefetch/ring-simulated");
    // The clock is exact: more samples would only repeat the same number.
    group.throughput(Throughput::Elements(BATCHES)).sample_size(10);
    group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(1));
    group.bench_function("ours", |b| {
        b.iter_custom(|n| (0..n).map(|_| simulated(COPY_NS, KERNEL_NS)).sum());
    });
    // The longer of the two alone: run too, because criterion cannot do with a mere number.
    let longer = COPY_NS.max(KERNEL_NS);
    assert_eq!(simulated(0, longer), Duration::from_nanos(longer * BATCHES), "nothing else counts");
    group.bench_function("floor: max(copy, compute), simulated clock", |b| {
        b.iter_custom(|n| (0..n).map(|_| simulated(0, longer)).sum());
    });
    group.finish();
}

criterion_group!(benches, ring);
criterion_main!(benches);
