//! The control table: what a test may ask of the loaded driver, besides CUDA.
//!
//! One exported function gives a table of functions, so that the two sides, which are compiled
//! from the same source, cannot disagree on a name. A program under test needs one function only,
//! [`fake_cuda_read_and_wait`], under its own name.

use crate::{
    calls,
    config::{Code, Config},
    driver::{DEFAULT_STREAM, lock},
    entry::{answer, cuCtxSynchronize, synchronise},
    memory::Kind,
    stream::{Body, SHARED},
};
use std::ffi::c_void;

/// What is alive in the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Live {
    /// Pinned host allocations.
    Pinned,
    /// Device allocations.
    Device,
    /// Events.
    Events,
    /// Streams, besides the default stream.
    Streams,
    /// Contexts.
    Contexts,
}

/// A kernel: what it touches, for how long, and what runs in its place.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Kernel {
    /// The stream's handle; 0 is the default stream.
    pub stream: usize,
    /// The device memory it touches.
    pub data: u64,
    /// How much of it.
    pub bytes: usize,
    /// Whether it writes there.
    pub write: bool,
    /// How long it takes.
    pub nanoseconds: u64,
    /// Run by the stream in place of the kernel, with `user`, the memory and its size.
    pub body: Option<extern "C" fn(*mut c_void, *mut u8, usize)>,
    /// Handed to `body`; must be good until the stream has come to the kernel.
    pub user: *mut c_void,
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct ControlTable {
    pub(crate) reset: extern "C" fn(),
    pub(crate) configure: extern "C" fn(&Config),
    pub(crate) calls: extern "C" fn(usize) -> u64,
    pub(crate) thread_calls: extern "C" fn(usize) -> u64,
    pub(crate) hazards: extern "C" fn(usize) -> u64,
    pub(crate) hazard_text: extern "C" fn(usize, &mut [u8; 512]) -> usize,
    pub(crate) live: extern "C" fn(Live) -> u64,
    pub(crate) latest_ns: extern "C" fn() -> u64,
    pub(crate) host_ns: extern "C" fn() -> u64,
    pub(crate) launch: extern "C" fn(&Kernel) -> Code,
    pub(crate) synchronize: extern "C" fn() -> Code,
    pub(crate) host_write: extern "C" fn(usize, usize),
}

static TABLE: ControlTable = ControlTable {
    reset,
    configure,
    calls: calls_in_all,
    thread_calls,
    hazards,
    hazard_text,
    live,
    latest_ns,
    host_ns,
    launch,
    synchronize: cuCtxSynchronize,
    host_write,
};

/// The name under which a test finds the table.
pub(crate) const SYMBOL: &[u8] = b"fake_cuda_control";

#[unsafe(no_mangle)]
extern "C" fn fake_cuda_control() -> &'static ControlTable {
    &TABLE
}

/// A kernel on the default stream that reads `bytes` bytes at `data`: the declaration of a program
/// whose computation the simulator does not see. It computes on the host, where no stream can hold it
/// up, so the kernel is waited for here, and not by a call that a program on a real device would not make.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_read_and_wait(data: u64, bytes: usize) -> Code {
    let (stream, user) = (DEFAULT_STREAM, std::ptr::null_mut());
    let read = Kernel { stream, data, bytes, write: false, nanoseconds: 0, body: None, user };
    match launch(&read) {
        Code::SUCCESS => answer(|| synchronise(lock(), stream)),
        code => code,
    }
}

extern "C" fn reset() {
    let worker = lock().reset();
    drop(worker);
}

extern "C" fn configure(config: &Config) {
    lock().configure(*config);
}

extern "C" fn calls_in_all(call: usize) -> u64 {
    calls::in_all(call)
}

extern "C" fn thread_calls(call: usize) -> u64 {
    calls::on_this_thread(call)
}

extern "C" fn hazards(hazard: usize) -> u64 {
    SHARED.findings().count(hazard)
}

/// Writes the text of one hazard and gives its length; 0 when there are no more.
extern "C" fn hazard_text(index: usize, text: &mut [u8; 512]) -> usize {
    let findings = SHARED.findings();
    let bytes = findings.texts().get(index).map_or(&[][..], |text| text.as_bytes());
    let length = bytes.len().min(text.len());
    text[..length].copy_from_slice(&bytes[..length]);
    length
}

extern "C" fn live(what: Live) -> u64 {
    count(what)
}

pub(crate) fn count(what: Live) -> u64 {
    let driver = lock();
    match what {
        Live::Pinned => driver.memory.count(Kind::Pinned) as u64,
        Live::Device => driver.memory.count(Kind::Device) as u64,
        Live::Events => driver.live_events() as u64,
        Live::Streams => driver.live_streams() as u64,
        Live::Contexts => driver.contexts,
    }
}

extern "C" fn latest_ns() -> u64 {
    lock().latest_ns()
}

extern "C" fn host_ns() -> u64 {
    lock().host_ns()
}

extern "C" fn launch(kernel: &Kernel) -> Code {
    let Kernel { stream, data, bytes, write, nanoseconds, body, user } = *kernel;
    if let Some(code) = SHARED.lost() {
        return code;
    }
    let body = body.map(|body| (body as Body, user as usize));
    let launched = lock().kernel(stream, data as usize, bytes, write, nanoseconds, body);
    launched.err().unwrap_or(Code::SUCCESS)
}

extern "C" fn host_write(address: usize, bytes: usize) {
    lock().host_write(address, bytes);
}
