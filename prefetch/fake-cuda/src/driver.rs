//! The driver's state, and what each call means for clocks, hazards and queues.
//!
//! Everything is settled here when work is enqueued; `stream.rs` does the work later. One lock
//! guards it all: the simulator is for finding mistakes, not for speed.

use crate::{
    calls::{self, Call},
    clock::VectorClock,
    config::{Code, Config, Fault, FaultKind, Ignore},
    event::Event,
    hazard::{Access, Findings, Hazard},
    host::with_host,
    memory::{Kind, Memory},
    stream::{Drain, SHARED, Work, Worker, hash_of},
};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
};

/// The handle of the legacy default stream.
pub(crate) const DEFAULT_STREAM: usize = 0;

#[derive(Debug)]
struct Stream {
    /// Its place in vector clocks.
    index: usize,
    clock: VectorClock,
    /// When its work so far is done, on the virtual clock.
    now: u64,
    worker: Worker,
}

#[derive(Debug, Default)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) memory: Memory,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Arc<Event>>,
    /// What any host thread has waited for.
    host: VectorClock,
    pub(crate) contexts: u64,
    /// Calls that the fault counts.
    counted: u64,
    /// The next copy is the one that fails when it runs.
    armed: Option<Code>,
    next_handle: usize,
    next_index: usize,
    /// Goes up with every reset, so that threads forget what they waited for before it.
    era: u64,
    /// When the streams that are gone were done.
    latest: u64,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let mut driver = Driver { next_handle: 0x1000, ..Driver::default() };
    driver.configure(Config::from_environment());
    Mutex::new(driver)
});

pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a call: counts it, and fails it if that is asked for.
pub(crate) fn enter(call: Call) -> Result<MutexGuard<'static, Driver>, Code> {
    calls::count(call);
    let mut driver = lock();
    match driver.verdict(call) {
        Code::SUCCESS => Ok(driver),
        code => Err(code),
    }
}

/// Starts a call that gives something back: it always does, and then answers with the code.
pub(crate) fn enter_release(call: Call) -> (MutexGuard<'static, Driver>, Code) {
    calls::count(call);
    let mut driver = lock();
    let code = driver.verdict(call);
    (driver, code)
}

impl Driver {
    pub(crate) fn configure(&mut self, config: Config) {
        self.config = config;
        self.counted = 0;
        self.armed = None;
        SHARED.jitter.store(config.jitter, SeqCst);
        SHARED.virtual_clock.store(config.virtual_clock, SeqCst);
    }

    /// Forgets faults, hazards, clocks, time and contexts; allocations stay. Contexts are lost
    /// where a call fails that cudarc makes between retaining one and owning it.
    ///
    /// Gives the default stream's thread, to be dropped without the lock.
    pub(crate) fn reset(&mut self) -> Option<impl Drop + use<>> {
        self.configure(Config::default());
        self.host = VectorClock::default();
        self.era += 1;
        self.latest = 0;
        SHARED.lose(Code::SUCCESS);
        *SHARED.findings() = Findings::new();
        for stream in self.streams.values_mut() {
            stream.now = 0;
        }
        self.contexts = 0;
        self.streams.remove(&DEFAULT_STREAM).map(|stream| stream.worker)
    }

    fn verdict(&mut self, call: Call) -> Code {
        let Fault { at, only, call: named, code, kind } = self.config.fault;
        if at > 0 && (!only || call == named) {
            self.counted += 1;
            if self.counted == at {
                match kind {
                    FaultKind::Once => return code,
                    FaultKind::Lost => SHARED.lose(code),
                    FaultKind::WhenRun if call == Call::cuMemcpyHtoDAsync_v2 => {
                        self.armed = Some(code);
                    }
                    FaultKind::WhenRun => {
                        SHARED.lose(code);
                        return Code::SUCCESS;
                    }
                }
            }
        }
        match SHARED.lost() {
            Some(code) if needs_device(call) => code,
            _ => Code::SUCCESS,
        }
    }

    /// Brings the default stream up with the first context.
    pub(crate) fn retain_context(&mut self) {
        self.contexts += 1;
        if !self.streams.contains_key(&DEFAULT_STREAM) {
            self.add_stream(DEFAULT_STREAM);
        }
    }

    /// The default stream's thread, to be dropped without the lock, when the last context went.
    pub(crate) fn release_context(&mut self) -> Option<impl Drop + use<>> {
        self.contexts = self.contexts.saturating_sub(1);
        self.latest = self.latest_ns();
        let last = self.contexts == 0;
        last.then(|| self.streams.remove(&DEFAULT_STREAM)).flatten().map(|stream| stream.worker)
    }

    pub(crate) fn create_stream(&mut self) -> usize {
        let handle = self.new_handle();
        self.add_stream(handle);
        handle
    }

    fn add_stream(&mut self, handle: usize) {
        let index = self.next_index;
        self.next_index += 1;
        let worker = Worker::start(0x5eed + index as u64);
        let stream = Stream { index, clock: VectorClock::default(), now: 0, worker };
        self.streams.insert(handle, stream);
    }

    /// The stream's thread, to be dropped without the lock.
    pub(crate) fn remove_stream(&mut self, handle: usize) -> Result<impl Drop + use<>, Code> {
        if handle == DEFAULT_STREAM {
            return Err(Code::INVALID_HANDLE);
        }
        self.latest = self.latest_ns();
        self.streams.remove(&handle).map(|stream| stream.worker).ok_or(Code::INVALID_HANDLE)
    }

    fn new_handle(&mut self) -> usize {
        self.next_handle += 0x10;
        self.next_handle
    }

    pub(crate) fn create_event(&mut self) -> usize {
        let handle = self.new_handle();
        self.events.insert(handle, Arc::default());
        handle
    }

    pub(crate) fn remove_event(&mut self, handle: usize) -> Result<(), Code> {
        self.events.remove(&handle).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn event(&self, handle: usize) -> Result<Arc<Event>, Code> {
        self.events.get(&handle).cloned().ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn live_streams(&self) -> usize {
        self.streams.keys().filter(|handle| **handle != DEFAULT_STREAM).count()
    }

    pub(crate) fn live_events(&self) -> usize {
        self.events.len()
    }

    /// The latest time that any stream, gone or not, has had work for.
    pub(crate) fn latest_ns(&self) -> u64 {
        self.streams.values().map(|stream| stream.now).fold(self.latest, u64::max)
    }

    /// How far the calling thread has waited, on the virtual clock.
    pub(crate) fn host_ns(&self) -> u64 {
        with_host(self.era, |host| host.now)
    }

    /// One more operation on a stream: it starts after all the calling thread has waited for.
    fn begin(&mut self, stream: usize) -> Result<(&mut Stream, u64), Code> {
        let era = self.era;
        let stream = self.streams.get_mut(&stream).ok_or(Code::INVALID_HANDLE)?;
        with_host(era, |host| {
            stream.clock.join(&host.clock);
            stream.now = stream.now.max(host.now);
        });
        let tick = stream.clock.tick(stream.index);
        Ok((stream, tick))
    }

    pub(crate) fn record(&mut self, event: usize, stream: usize) -> Result<(), Code> {
        let event = self.event(event)?;
        let (stream, _) = self.begin(stream)?;
        let number = event.record(&stream.clock, stream.now);
        stream.worker.push(Work::Record(event, number));
        Ok(())
    }

    pub(crate) fn wait(&mut self, stream: usize, event: usize) -> Result<(), Code> {
        let ignored = match self.config.ignore {
            Ignore::WaitsOfDefaultStream => stream == DEFAULT_STREAM,
            Ignore::WaitsOfOtherStreams => stream != DEFAULT_STREAM,
            Ignore::Nothing | Ignore::EventSynchronize => false,
        };
        let event = self.event(event)?;
        if ignored {
            return Ok(());
        }
        let (stream, _) = self.begin(stream)?;
        let state = event.state();
        stream.clock.join(&state.clock);
        stream.now = stream.now.max(state.virtual_ns);
        drop(state);
        let number = event.latest();
        stream.worker.push(Work::Wait(event, number));
        Ok(())
    }

    /// Enqueues a copy; whether the host's side of it is pinned.
    pub(crate) fn copy(&mut self, copy: Copy, stream: usize) -> Result<bool, Code> {
        let Copy { from, to, bytes, to_device } = copy;
        let (host, device) = if to_device { (from, to) } else { (to, from) };
        let (host, device) = (host..host + bytes, device..device + bytes);
        if self.memory.holding(Kind::Device, &device).is_none() {
            SHARED.findings().add(Hazard::OutOfBounds, || {
                format!(
                    "a copy of {bytes} bytes to or from {:#x}, outside of the device's memory",
                    device.start
                )
            });
            return Err(Code::INVALID_VALUE);
        }
        let pinned = self.memory.holding(Kind::Pinned, &host).is_some();
        let what = if to_device { "a copy to the device" } else { "a copy to the host" };
        let fails = self.armed.take();
        let nanoseconds = self.copy_ns(bytes, pinned);
        let (stream, tick) = self.begin(stream)?;
        stream.now += nanoseconds;
        let hash = (to_device && pinned).then(|| hash_of(from, bytes));
        stream.worker.push(Work::Copy { from, to, bytes, nanoseconds, hash, fails });
        let (index, clock) = (stream.index, stream.clock.clone());
        let mut access = |kind, range, write| {
            self.access(kind, Access { range, write, stream: index, tick, what }, &clock);
        };
        access(Kind::Device, device, to_device);
        if pinned {
            access(Kind::Pinned, host, !to_device);
        }
        Ok(pinned)
    }

    fn copy_ns(&self, bytes: usize, pinned: bool) -> u64 {
        let rate = if pinned { self.config.bandwidth } else { self.config.pageable_bandwidth };
        let moving = (bytes as u64 * 1_000_000_000).checked_div(rate).unwrap_or(0);
        self.config.latency_ns + moving
    }

    /// A kernel that reads, or writes, a range of device memory.
    pub(crate) fn kernel(
        &mut self,
        stream: usize,
        data: usize,
        bytes: usize,
        write: bool,
        nanoseconds: u64,
        body: Option<(crate::stream::Body, usize)>,
    ) -> Result<(), Code> {
        let range = data..data + bytes;
        if self.memory.holding(Kind::Device, &range).is_none() {
            SHARED.findings().add(Hazard::OutOfBounds, || {
                format!("a kernel on {bytes} bytes at {data:#x}, outside of the device's memory")
            });
            return Err(Code::INVALID_VALUE);
        }
        let (stream, tick) = self.begin(stream)?;
        stream.now += nanoseconds;
        stream.worker.push(Work::Kernel { data, bytes, nanoseconds, body });
        let (index, clock) = (stream.index, stream.clock.clone());
        let access = Access { range, write, stream: index, tick, what: "a kernel" };
        self.access(Kind::Device, access, &clock);
        Ok(())
    }

    fn access(&mut self, kind: Kind, access: Access, clock: &VectorClock) {
        let (range, what, stream) = (access.range.clone(), access.what, access.stream);
        let Some(allocation) = self.memory.holding(kind, &range) else { return };
        if let Some(other) = allocation.history.add(access, clock) {
            SHARED.findings().add(Hazard::Unordered, || {
                format!(
                    "{what} on stream {stream} at {:#x} is not ordered after {} on stream {}",
                    range.start, other.what, other.stream
                )
            });
        }
    }

    /// The host is about to write to pinned memory.
    pub(crate) fn host_write(&mut self, address: usize, bytes: usize) {
        let (range, host) = (address..address + bytes, &self.host);
        let Some(allocation) = self.memory.holding(Kind::Pinned, &range) else { return };
        // A lost device uses no memory any more.
        if SHARED.lost().is_none()
            && let Some(other) = allocation.history.unfinished(&range, host)
        {
            SHARED.findings().add(Hazard::HostWrite, || {
                format!("the host writes to {address:#x} while {} may still use it", other.what)
            });
        }
    }

    /// Takes an allocation out. What is returned is waited for, then dropped, without the lock.
    pub(crate) fn free(
        &mut self,
        kind: Kind,
        address: usize,
    ) -> Result<(Vec<Drain>, impl Drop + use<>), Code> {
        let allocation = self.memory.remove(kind, address).ok_or(Code::INVALID_VALUE)?;
        if SHARED.lost().is_none()
            && let Some(other) = allocation.history.unfinished(&allocation.range(), &self.host)
        {
            SHARED.findings().add(Hazard::FreeInUse, || {
                format!("{address:#x} is freed while {} may still use it", other.what)
            });
        }
        Ok((self.drain_all(), allocation))
    }

    pub(crate) fn drain(&self, stream: usize) -> Result<(Drain, VectorClock, u64), Code> {
        let stream = self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?;
        Ok((stream.worker.drain(), stream.clock.clone(), stream.now))
    }

    pub(crate) fn drain_all(&self) -> Vec<Drain> {
        self.streams.values().map(|stream| stream.worker.drain()).collect()
    }

    pub(crate) fn all_clocks(&self) -> (VectorClock, u64) {
        let mut clock = VectorClock::default();
        for stream in self.streams.values() {
            clock.join(&stream.clock);
        }
        (clock, self.latest_ns())
    }

    /// The calling thread has waited for all that `clock` knows.
    pub(crate) fn host_waited(&mut self, clock: &VectorClock, now: u64) {
        self.host.join(clock);
        with_host(self.era, |host| {
            host.clock.join(clock);
            host.now = host.now.max(now);
        });
    }
}

/// A copy between host and device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: usize,
    pub(crate) to_device: bool,
}

/// Calls that answer even when the device is lost.
fn needs_device(call: Call) -> bool {
    !matches!(
        call,
        Call::cuInit
            | Call::cuDriverGetVersion
            | Call::cuDeviceGetCount
            | Call::cuDeviceGet
            | Call::cuDeviceGetName
            | Call::cuDeviceGetAttribute
            | Call::cuCtxGetCurrent
            | Call::cuCtxSetCurrent
    )
}
