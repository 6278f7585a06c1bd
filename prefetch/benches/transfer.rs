//! What a copy costs: from pageable or pinned memory, waited for or not, by size.
//!
//! Three tables. On the CPU a copy is a memcpy, measured on this machine. On the simulated device
//! it takes what the simulator is told, and the figures are labelled so: they show what the ring
//! is for, not what a GPU does. On a real device, where a driver is found, the same calls are
//! measured; that part has never been run.
//!
//! `bench-stages` does not run it: none of its cases has a floor to be judged by.

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use fake_cuda::{Config, Simulator};
use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

const MIB: usize = 1 << 20;
const SIZES: [usize; 5] = [MIB / 16, MIB / 4, MIB, 4 * MIB, 16 * MIB];

/// PCIe 4.0 with 16 lanes in round numbers, for the simulator.
const DEVICE: fn() -> Config = || Config {
    memory: 256 * MIB,
    bandwidth: 24_000_000_000,
    pageable_bandwidth: 8_000_000_000,
    latency_ns: 8_000,
    ..Config::default()
};

/// Copies of each kind, one after another.
const COPIES: usize = 20;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    println!("\nmemcpy on the CPU, measured here");
    println!("{:>10}  {:>10}", "KiB", "GB/s");
    for bytes in SIZES {
        let rate = memcpy_rate(bytes, if quick { 20 } else { 200 });
        println!("{:>10}  {rate:>10.2}", bytes >> 10);
    }

    // First, while no other driver is loaded; a process can have only one.
    if let Ok(devices) = millstream_prefetch::cuda_devices()
        && let Some(device) = devices.first()
    {
        println!("\n{}, measured by the host's clock", device.name);
        let start = Instant::now();
        table(&|| start.elapsed());
        return;
    }
    let simulator = Simulator::start(DEVICE());
    println!("\nSIMULATED device, 24 GB/s pinned, 8 GB/s pageable, 8 µs latency, virtual clock");
    table(&|| Duration::from_nanos(simulator.host_ns()));
    println!(
        "caller waits: the share of the copies' time that the calling thread could not use\n\
         an asynchronous copy from pageable memory waits all the same: {} hazards reported",
        simulator.count(fake_cuda::Hazard::Unpinned)
    );
}

fn memcpy_rate(bytes: usize, rounds: u32) -> f64 {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let best = (0..rounds).map(|_| {
        let start = Instant::now();
        black_box(&mut to).copy_from_slice(black_box(&from));
        start.elapsed()
    });
    bytes as f64 / best.min().unwrap_or_default().as_nanos().max(1) as f64
}

/// How a copy is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Blocking,
    Async,
}

fn table(now: &dyn Fn() -> Duration) {
    println!("{:>10}  {:>9} {:>9}  {:>12} {:>13}", "KiB", "memory", "copy", "GB/s", "caller waits");
    for bytes in SIZES {
        for pinned in [false, true] {
            for way in [Way::Blocking, Way::Async] {
                let (rate, waits) = transfer(bytes, pinned, way, now).expect("the device copies");
                println!(
                    "{:>10}  {:>9} {:>9}  {rate:>12.2} {:>12.0}%",
                    bytes >> 10,
                    if pinned { "pinned" } else { "pageable" },
                    if way == Way::Async { "async" } else { "blocking" },
                    waits * 100.0
                );
            }
        }
    }
}

/// Bytes a nanosecond, and the share of that time in which the caller was held up.
fn transfer(
    bytes: usize,
    pinned: bool,
    way: Way,
    now: &dyn Fn() -> Duration,
) -> Result<(f64, f64), DriverError> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let memory = Memory::new(bytes, pinned)?;
    let start = now();
    let mut held_up = Duration::ZERO;
    for _ in 0..COPIES {
        held_up += memory.copy(way, &stream, now)?;
    }
    stream.synchronize()?;
    let took = (now() - start).as_nanos().max(1) as f64;
    Ok(((bytes * COPIES) as f64 / took, held_up.as_nanos() as f64 / took))
}

/// A source on the host and a destination on the device.
struct Memory {
    pageable: Vec<u8>,
    pinned: *mut u8,
    device: sys::CUdeviceptr,
    bytes: usize,
}

impl Memory {
    /// A context must be current on this thread.
    fn new(bytes: usize, pinned: bool) -> Result<Self, DriverError> {
        // SAFETY: a context is current; the memory is written before it is read.
        let device = unsafe { result::malloc_sync(bytes) }?;
        let mut memory =
            Memory { pageable: Vec::new(), pinned: std::ptr::null_mut(), device, bytes };
        if pinned {
            // SAFETY: a context is current.
            let start = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }?;
            memory.pinned = start.cast();
            // SAFETY: allocated with this size just now.
            unsafe { memory.pinned.write_bytes(1, bytes) };
        } else {
            memory.pageable = vec![1; bytes];
        }
        Ok(memory)
    }

    fn source(&self) -> &[u8] {
        if self.pinned.is_null() {
            return &self.pageable;
        }
        // SAFETY: allocated with this size, initialised, and freed when dropped.
        unsafe { std::slice::from_raw_parts(self.pinned, self.bytes) }
    }

    /// Copies, and gives the time that passed on the caller's clock until the call returned.
    fn copy(
        &self,
        way: Way,
        stream: &Arc<CudaStream>,
        now: &dyn Fn() -> Duration,
    ) -> Result<Duration, DriverError> {
        let (device, start) = (self.device, now());
        match way {
            // SAFETY: both have this many bytes.
            Way::Blocking => unsafe { result::memcpy_htod_sync(device, self.source()) }?,
            Way::Async => {
                // SAFETY: as above, and the source is kept until the stream was waited for.
                unsafe { result::memcpy_htod_async(device, self.source(), stream.cu_stream()) }?;
            }
        }
        Ok(now() - start)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; the stream was waited for. Nothing can be done on errors.
        let _ = unsafe { result::free_sync(self.device) };
        if !self.pinned.is_null() {
            // SAFETY: as above.
            let _ = unsafe { result::free_host(self.pinned.cast()) };
        }
    }
}
