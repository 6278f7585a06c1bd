//! Copies run while the device computes: by the simulator's virtual clock, so exactly.

use crate::line::{LAYOUT, Run, synchronize};
use cudarc::driver::{CudaContext, result, sys};
use fake_cuda::{Config, Kernel, Simulator};

const BATCHES: u64 = 200;
/// Nanoseconds of a kernel.
const KERNEL: u64 = 1_000_000;

/// The device's time for the ring with this depth, and for the serial program beside it.
fn times(copy_ns: u64, depth: usize) -> (u64, u64) {
    let config = Config { latency_ns: copy_ns, ..Config::default() };
    let simulator = Simulator::start(config);
    let found = Run { batches: BATCHES, depth, kernel_ns: KERNEL, ..Run::default() };
    let found = found.go(&simulator).unwrap();
    assert_eq!((found.right, found.wrong), (BATCHES, 0));
    assert_eq!(simulator.hazards(), [""; 0]);
    let ring = simulator.latest_ns();
    drop(simulator);
    (ring, serial(config))
}

/// What a program without a ring does: copy, wait, compute, wait.
fn serial(config: Config) -> u64 {
    let simulator = Simulator::start(config);
    let context = CudaContext::new(0).unwrap();
    context.bind_to_thread().unwrap();
    let values = vec![0.0_f32; LAYOUT.values()];
    let bytes = size_of_val(values.as_slice());
    // SAFETY: a context is current.
    let pinned = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.unwrap();
    // SAFETY: as above.
    let device = unsafe { result::malloc_sync(bytes) }.unwrap();
    // SAFETY: both have this many bytes.
    unsafe { pinned.cast::<u8>().write_bytes(0, bytes) };
    // SAFETY: as above.
    let source = unsafe { std::slice::from_raw_parts(pinned.cast::<u8>(), bytes) };
    for _ in 0..BATCHES {
        // SAFETY: both have this many bytes.
        unsafe { result::memcpy_htod_sync(device, source) }.unwrap();
        let kernel = Kernel {
            stream: 0,
            data: device,
            bytes,
            write: false,
            nanoseconds: KERNEL,
            body: None,
            user: std::ptr::null_mut(),
        };
        // SAFETY: there is no body.
        unsafe { simulator.launch(&kernel) }.unwrap();
        synchronize().unwrap();
    }
    let elapsed = simulator.latest_ns();
    // SAFETY: allocated above, and the device is idle.
    unsafe { result::free_sync(device) }.unwrap();
    // SAFETY: as above.
    unsafe { result::free_host(pinned) }.unwrap();
    elapsed
}

#[test]
fn a_run_takes_as_long_as_the_longer_of_copy_and_compute() {
    println!("copy/compute  ring, ms  serial, ms  bound, ms  ring/bound");
    for ratio in [0.1, 0.5, 0.9, 1.1, 2.0] {
        let copy = (ratio * KERNEL as f64) as u64;
        let (ring, serial) = times(copy, 3);
        let bound = copy.max(KERNEL) * BATCHES + copy + KERNEL;
        let ms = |ns: u64| ns as f64 / 1e6;
        let share = ring as f64 / bound as f64;
        let (ring_ms, serial_ms, bound_ms) = (ms(ring), ms(serial), ms(bound));
        println!("{ratio:12} {ring_ms:9.1} {serial_ms:11.1} {bound_ms:10.1} {share:11.4}");
        assert!(share <= 1.05, "copy/compute {ratio}: {ring_ms} ms, the bound is {bound_ms} ms");
        assert_eq!(serial, (copy + KERNEL) * BATCHES, "the serial program adds the two up");
    }
}

#[test]
fn with_one_slot_nothing_overlaps() {
    let (ring, serial) = times(KERNEL, 1);
    assert_eq!(ring, serial);
}
