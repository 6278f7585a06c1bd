//! How the simulated device behaves, and which mistakes it is told to make.

use crate::calls::Call;
use std::ffi::{CStr, c_int};

/// A `CUresult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Code(pub c_int);

impl Code {
    /// `CUDA_SUCCESS`
    pub const SUCCESS: Code = Code(0);
    /// `CUDA_ERROR_INVALID_VALUE`
    pub const INVALID_VALUE: Code = Code(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub const OUT_OF_MEMORY: Code = Code(2);
    /// `CUDA_ERROR_NO_DEVICE`
    pub const NO_DEVICE: Code = Code(100);
    /// `CUDA_ERROR_INVALID_DEVICE`
    pub const INVALID_DEVICE: Code = Code(101);
    /// `CUDA_ERROR_INVALID_CONTEXT`
    pub const INVALID_CONTEXT: Code = Code(201);
    /// `CUDA_ERROR_INVALID_HANDLE`
    pub const INVALID_HANDLE: Code = Code(400);
    /// `CUDA_ERROR_NOT_READY`
    pub const NOT_READY: Code = Code(600);
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`
    pub const ILLEGAL_ADDRESS: Code = Code(700);
    /// `CUDA_ERROR_LAUNCH_FAILED`: the device is lost.
    pub const LOST: Code = Code(719);
    /// `CUDA_ERROR_NOT_SUPPORTED`
    pub const NOT_SUPPORTED: Code = Code(801);

    pub(crate) fn name_and_text(self) -> Option<(&'static CStr, &'static CStr)> {
        Some(match self {
            Code::SUCCESS => (c"CUDA_SUCCESS", c"no error"),
            Code::INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
            Code::OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
            Code::NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
            Code::INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
            Code::INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
            Code::INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
            Code::NOT_READY => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
            Code::ILLEGAL_ADDRESS => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"illegal memory access"),
            Code::LOST => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
            Code::NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
            _ => return None,
        })
    }
}

/// How a fault goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FaultKind {
    /// That call fails; the next ones work.
    Once,
    /// That call and every later one fails: the device is lost.
    Lost,
    /// The call itself succeeds; the device is lost when it gets to the work.
    WhenRun,
}

/// A call that is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Fault {
    /// Which call, from 1; 0 for none.
    pub at: u64,
    /// Whether to count calls of `call` only, or all calls.
    pub only: bool,
    /// The call to count, when `only` one.
    pub call: Call,
    /// What it answers.
    pub code: Code,
    /// How it goes on.
    pub kind: FaultKind,
}

impl Fault {
    /// Nothing fails.
    pub const NONE: Fault = Fault {
        at: 0,
        only: false,
        call: Call::cuInit,
        code: Code::SUCCESS,
        kind: FaultKind::Once,
    };

    /// The `at`-th call of all fails.
    #[must_use]
    pub fn any(at: u64, code: Code, kind: FaultKind) -> Self {
        Fault { at, code, kind, ..Fault::NONE }
    }

    /// The `at`-th call of `call` fails.
    #[must_use]
    pub fn of(call: Call, at: u64, code: Code, kind: FaultKind) -> Self {
        Fault { at, only: true, call, code, kind }
    }
}

/// Calls that answer success and do nothing, as if the program had left them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Ignore {
    /// No call is ignored.
    Nothing,
    /// The default stream does not wait for events.
    WaitsOfDefaultStream,
    /// Other streams do not wait for events.
    WaitsOfOtherStreams,
    /// The host does not wait for events.
    EventSynchronize,
}

/// How the simulated device behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Devices there are.
    pub devices: u32,
    /// What `cuDriverGetVersion` says.
    pub driver_version: c_int,
    /// Bytes of device memory.
    pub memory: usize,
    /// Bytes a second of a copy from pinned memory; 0 takes no time.
    pub bandwidth: u64,
    /// Bytes a second of a copy from pageable memory; 0 takes no time.
    pub pageable_bandwidth: u64,
    /// Nanoseconds before a copy starts.
    pub latency_ns: u64,
    /// Whether time is only counted; otherwise streams really take their time.
    pub virtual_clock: bool,
    /// The longest random delay, in turns of a spinning loop, before a stream does anything.
    pub jitter: u32,
    /// What to leave out.
    pub ignore: Ignore,
    /// What is to fail.
    pub fault: Fault,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            devices: 1,
            driver_version: 13_000,
            memory: 1 << 30,
            bandwidth: 0,
            pageable_bandwidth: 0,
            latency_ns: 0,
            virtual_clock: true,
            jitter: 0,
            ignore: Ignore::Nothing,
            fault: Fault::NONE,
        }
    }
}

impl Config {
    /// The defaults, changed by `FAKE_CUDA_MEMORY=bytes` and `FAKE_CUDA_FAULT=call:at:code:kind`
    /// (kind: `once`, `lost`, `when_run`), for a program that a test starts.
    ///
    /// # Panics
    /// When a variable cannot be read.
    pub(crate) fn from_environment() -> Self {
        let mut config = Config::default();
        if let Ok(bytes) = std::env::var("FAKE_CUDA_MEMORY") {
            config.memory = bytes.parse().expect("FAKE_CUDA_MEMORY is a number of bytes");
        }
        if let Ok(text) = std::env::var("FAKE_CUDA_FAULT") {
            config.fault = parse(&text).expect("FAKE_CUDA_FAULT is call:at:code:kind");
        }
        config
    }
}

fn parse(text: &str) -> Option<Fault> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let call = *Call::ALL.iter().find(|call| call.name() == name)?;
    let (at, code) = (parts.next()?.parse().ok()?, Code(parts.next()?.parse().ok()?));
    let kind = match parts.next()? {
        "once" => FaultKind::Once,
        "lost" => FaultKind::Lost,
        "when_run" => FaultKind::WhenRun,
        _ => return None,
    };
    // An unknown number is no `CUresult`, and the caller would take it for one.
    code.name_and_text()?;
    Some(Fault::of(call, at, code, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_can_be_named_in_a_variable() {
        let fault = Fault::of(Call::cuMemAlloc_v2, 3, Code::OUT_OF_MEMORY, FaultKind::Once);
        assert_eq!(parse("cuMemAlloc_v2:3:2:once"), Some(fault));
        for text in ["", "cuNothing:1:2:once", "cuInit:1:2:twice", "cuInit:1:12345:once"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
