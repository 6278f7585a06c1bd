//! The entry points: the C functions of the driver that cudarc loads by name.
//!
//! Only their C shape is here; what they mean is in `driver.rs`. A pointer to a result is an
//! optional reference, which has the same shape in C, so nothing here is unsafe.

#![allow(non_snake_case, reason = "these are the names of the C functions")]

use crate::{
    calls::Call,
    config::{Code, Ignore},
    driver::{Copy, DEFAULT_STREAM, Driver, enter, enter_release, lock},
    hazard::Hazard,
    host::{self, CONTEXT, need_context},
    memory::Kind,
    report,
    stream::SHARED,
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    mem::MaybeUninit,
    ptr::NonNull,
};

/// Where a call puts its result.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

const NAME: &CStr = c"fake-cuda";
const NON_BLOCKING: c_uint = 1;

fn put<T>(out: Out<'_, T>, value: T) -> Result<(), Code> {
    out.ok_or(Code::INVALID_VALUE)?.write(value);
    Ok(())
}

pub(crate) fn answer(work: impl FnOnce() -> Result<(), Code>) -> Code {
    work().err().unwrap_or(Code::SUCCESS)
}

/// What a wait answers: the device may have been lost meanwhile.
fn after_waiting() -> Result<(), Code> {
    SHARED.lost().map_or(Ok(()), Err)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Code {
    answer(|| match enter(Call::cuInit)?.config.devices {
        0 => Err(Code::NO_DEVICE),
        _ => Ok(()),
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Out<'_, c_int>) -> Code {
    answer(|| put(version, enter(Call::cuDriverGetVersion)?.config.driver_version))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Out<'_, c_int>) -> Code {
    answer(|| put(count, enter(Call::cuDeviceGetCount)?.config.devices.cast_signed()))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<'_, c_int>, ordinal: c_int) -> Code {
    answer(|| {
        let devices = enter(Call::cuDeviceGet)?.config.devices.cast_signed();
        if ordinal < 0 || ordinal >= devices {
            return Err(Code::INVALID_DEVICE);
        }
        put(device, ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: Option<NonNull<c_char>>, size: c_int, _device: c_int) -> Code {
    answer(|| {
        drop(enter(Call::cuDeviceGetName)?);
        let (name, text) = (name.ok_or(Code::INVALID_VALUE)?, NAME.to_bytes_with_nul());
        if usize::try_from(size).is_ok_and(|size| size >= text.len()) {
            let source = NonNull::from_ref(text).cast();
            // SAFETY: the caller gives `size` bytes to write to, and the text fits in them.
            unsafe { name.cast::<u8>().copy_from_nonoverlapping(source, text.len()) };
            return Ok(());
        }
        Err(Code::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: Out<'_, c_int>, _name: c_uint, _device: c_int) -> Code {
    // None that is asked for, memory pools above all, is there.
    answer(|| {
        drop(enter(Call::cuDeviceGetAttribute)?);
        put(value, 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, _device: c_int) -> Code {
    answer(|| {
        enter(Call::cuDevicePrimaryCtxRetain)?.retain_context();
        put(context, CONTEXT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Code {
    let (mut driver, code) = enter_release(Call::cuDevicePrimaryCtxRelease_v2);
    let worker = driver.release_context();
    drop(driver);
    if worker.is_some() {
        drop(worker);
        report::write();
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: Out<'_, usize>) -> Code {
    answer(|| {
        drop(enter(Call::cuCtxGetCurrent)?);
        put(context, host::current_context())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> Code {
    answer(|| {
        drop(enter(Call::cuCtxSetCurrent)?);
        host::set_current_context(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSynchronize() -> Code {
    answer(|| {
        let driver = enter(Call::cuCtxSynchronize)?;
        need_context()?;
        let (drains, (clock, now)) = (driver.drain_all(), driver.all_clocks());
        drop(driver);
        drains.iter().for_each(crate::stream::Drain::wait);
        lock().host_waited(&clock, now);
        after_waiting()
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) -> Code {
    answer(|| {
        let driver = enter(Call::cuMemGetInfo_v2)?;
        need_context()?;
        put(free, driver.config.memory.saturating_sub(driver.memory.used()))?;
        put(total, driver.config.memory)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(address: Out<'_, usize>, bytes: usize, _flags: c_uint) -> Code {
    answer(|| allocate(Call::cuMemHostAlloc, Kind::Pinned, address, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: Out<'_, usize>, bytes: usize) -> Code {
    answer(|| allocate(Call::cuMemAlloc_v2, Kind::Device, address, bytes))
}

fn allocate(call: Call, kind: Kind, address: Out<'_, usize>, bytes: usize) -> Result<(), Code> {
    let mut driver = enter(call)?;
    need_context()?;
    let limit = driver.config.memory;
    put(address, driver.memory.add(kind, bytes, limit)?)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(address: usize) -> Code {
    free(Call::cuMemFreeHost, Kind::Pinned, address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: usize) -> Code {
    free(Call::cuMemFree_v2, Kind::Device, address)
}

fn free(call: Call, kind: Kind, address: usize) -> Code {
    let (mut driver, code) = enter_release(call);
    if code == Code::SUCCESS && need_context().is_err() {
        return Code::INVALID_CONTEXT;
    }
    match driver.free(kind, address) {
        Ok((drains, allocation)) => {
            drop(driver);
            drains.iter().for_each(crate::stream::Drain::wait);
            drop(allocation);
            code
        }
        Err(wrong) => wrong,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Out<'_, usize>, flags: c_uint) -> Code {
    answer(|| {
        let mut driver = enter(Call::cuStreamCreate)?;
        need_context()?;
        // A blocking stream waits for the default stream in ways that are not simulated.
        if flags != NON_BLOCKING {
            return Err(Code::NOT_SUPPORTED);
        }
        put(stream, driver.create_stream())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: usize) -> Code {
    let (mut driver, code) = enter_release(Call::cuStreamDestroy_v2);
    let worker = driver.remove_stream(stream);
    drop(driver);
    match worker {
        Ok(worker) => {
            drop(worker);
            code
        }
        Err(wrong) => wrong,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: usize) -> Code {
    answer(|| {
        let driver = enter(Call::cuStreamSynchronize)?;
        need_context()?;
        synchronise(driver, stream)
    })
}

/// Waits until a stream has come to the end of what was enqueued.
pub(crate) fn synchronise(
    driver: std::sync::MutexGuard<'static, Driver>,
    stream: usize,
) -> Result<(), Code> {
    let (drain, clock, now) = driver.drain(stream)?;
    drop(driver);
    drain.wait();
    lock().host_waited(&clock, now);
    after_waiting()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) -> Code {
    answer(|| enter(Call::cuStreamWaitEvent)?.wait(stream, event))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: Out<'_, usize>, _flags: c_uint) -> Code {
    answer(|| {
        let mut driver = enter(Call::cuEventCreate)?;
        need_context()?;
        put(event, driver.create_event())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: usize) -> Code {
    let (mut driver, code) = enter_release(Call::cuEventDestroy_v2);
    driver.remove_event(event).err().unwrap_or(code)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: usize, stream: usize) -> Code {
    answer(|| enter(Call::cuEventRecord)?.record(event, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: usize) -> Code {
    answer(|| {
        let mut driver = enter(Call::cuEventQuery)?;
        let event = driver.event(event)?;
        if !event.has_passed(event.latest()) {
            return Err(Code::NOT_READY);
        }
        let state = event.state();
        driver.host_waited(&state.clock, state.virtual_ns);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: usize) -> Code {
    answer(|| {
        let driver = enter(Call::cuEventSynchronize)?;
        let event = driver.event(event)?;
        if driver.config.ignore == Ignore::EventSynchronize {
            return Ok(());
        }
        let state = event.state();
        let (clock, now) = (state.clock.clone(), state.virtual_ns);
        drop(state);
        let number = event.latest();
        drop(driver);
        event.wait(number);
        lock().host_waited(&clock, now);
        after_waiting()
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: Out<'_, f32>, from: usize, to: usize) -> Code {
    answer(|| {
        let driver = enter(Call::cuEventElapsedTime_v2)?;
        let (from, to) = (driver.event(from)?, driver.event(to)?);
        let (from, to) = (from.state(), to.state());
        let nanoseconds = if driver.config.virtual_clock {
            to.virtual_ns.saturating_sub(from.virtual_ns) as f32
        } else {
            let (Some(from), Some(to)) = (from.real, to.real) else { return Err(Code::NOT_READY) };
            to.saturating_duration_since(from).as_nanos() as f32
        };
        put(milliseconds, nanoseconds / 1e6)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) -> Code {
    let copy = Copy { from, to, bytes, to_device: true };
    answer(|| copy_async(Call::cuMemcpyHtoDAsync_v2, copy, stream))
}

fn copy_async(call: Call, copy: Copy, stream: usize) -> Result<(), Code> {
    let mut driver = enter(call)?;
    need_context()?;
    if driver.copy(copy, stream)? {
        return Ok(());
    }
    SHARED.findings().add(Hazard::Unpinned, || {
        format!("an asynchronous copy of {} bytes with pageable memory", copy.bytes)
    });
    // The driver goes through memory of its own, and the caller waits for it.
    synchronise(driver, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) -> Code {
    answer(|| {
        let mut driver = enter(Call::cuMemcpyHtoD_v2)?;
        need_context()?;
        driver.copy(Copy { from, to, bytes, to_device: true }, DEFAULT_STREAM)?;
        synchronise(driver, DEFAULT_STREAM)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) -> Code {
    let copy = Copy { from, to, bytes, to_device: false };
    answer(|| copy_async(Call::cuMemcpyDtoHAsync_v2, copy, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: Code, text: Out<'_, *const c_char>) -> Code {
    answer(|| put(text, code.name_and_text().ok_or(Code::INVALID_VALUE)?.0.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) -> Code {
    answer(|| put(text, code.name_and_text().ok_or(Code::INVALID_VALUE)?.1.as_ptr()))
}
