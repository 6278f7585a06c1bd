//! Every call of a run made to fail, one run each: a typed error or nothing, never a hang, never a
//! wrong batch, and everything given back.

use crate::line::{BoxError, Found, Run};
use fake_cuda::{Call, Code, Config, Fault, FaultKind, Live, Simulator};
use millstream_data::{DeviceFault, Place};
use millstream_prefetch::{Consumer, CudaError, DeviceChoice, DeviceError, choose};
use std::{sync::mpsc, thread, time::Duration};

const RUN: fn() -> Run = || Run { batches: 8, ..Run::default() };

/// Fails the test when nothing was heard for this long: no run takes anywhere near it.
const HANG: Duration = Duration::from_secs(120);

/// Runs `work` on a thread of its own; what it says between two reports must not take for ever.
fn guarded(work: impl FnOnce(&dyn Fn(String)) + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || work(&|doing| sender.send(doing).expect("a listener")));
    let mut doing = "the first run".to_owned();
    loop {
        match receiver.recv_timeout(HANG) {
            Ok(next) => doing = next,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            // The hung thread cannot be ended, so the process is.
            Err(mpsc::RecvTimeoutError::Timeout) => {
                eprintln!("hung in {doing}");
                std::process::abort();
            }
        }
    }
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Whether an error, or what caused it, is one of the crate's own.
fn is_typed(error: &BoxError) -> bool {
    use crate::line::ConsumerError;
    error.is::<CudaError>()
        || error.is::<DeviceError>()
        || error.is::<DeviceFault>()
        || error
            .downcast_ref::<ConsumerError>()
            .is_some_and(|error| !matches!(error, ConsumerError::OnPurpose))
}

/// One run with one fault.
fn check(fault: Fault) -> Result<Found, BoxError> {
    let simulator = Simulator::start(Config { fault, ..Config::default() });
    let outcome = RUN().go(&simulator);
    match &outcome {
        // The fault hit a call whose failure can be mended, or none.
        Ok(found) => assert_eq!(*found, Found { seen: 8, right: 8, wrong: 0 }, "{fault:?}"),
        Err(error) => assert!(is_typed(error), "{fault:?}: {error:?}"),
    }
    assert_eq!(Run::wrong_so_far(), 0, "{fault:?}");
    let live = [Live::Pinned, Live::Device, Live::Events, Live::Streams];
    assert_eq!(live.map(|what| simulator.live(what)), [0; 4], "{fault:?}");
    assert_eq!(simulator.hazards(), [""; 0], "{fault:?}");
    outcome
}

/// How many calls a run without a fault makes.
fn calls_of_a_run() -> u64 {
    let simulator = Simulator::start(Config::default());
    let before = simulator.all_calls();
    RUN().go(&simulator).unwrap();
    simulator.all_calls() - before
}

#[test]
fn every_call_may_fail_once_or_for_good() {
    guarded(|report| {
        let calls = calls_of_a_run();
        assert!(calls > 100, "a run makes {calls} calls");
        let mut errors = 0;
        for at in 1..=calls {
            for (code, kind) in [
                (Code::OUT_OF_MEMORY, FaultKind::Once),
                (Code::LOST, FaultKind::Lost),
                (Code::ILLEGAL_ADDRESS, FaultKind::WhenRun),
            ] {
                report(format!("call {at} of {calls}: {code:?} {kind:?}"));
                errors += u64::from(check(Fault::any(at, code, kind)).is_err());
            }
        }
        // Nearly all of them must be noticed; what is left is in the clearing up.
        println!("{calls} calls, {} runs, {errors} ended with an error", 3 * calls);
        assert!(errors > 2 * calls, "{errors} errors in {} runs", 3 * calls);
    });
}

#[test]
fn each_copy_and_each_allocation_may_fail() {
    guarded(|report| {
        for (call, times, code, kind) in [
            (Call::cuMemcpyHtoDAsync_v2, 8, Code::ILLEGAL_ADDRESS, FaultKind::WhenRun),
            (Call::cuMemcpyHtoDAsync_v2, 8, Code::INVALID_VALUE, FaultKind::Once),
            (Call::cuMemHostAlloc, 3, Code::OUT_OF_MEMORY, FaultKind::Once),
            (Call::cuMemAlloc_v2, 3, Code::OUT_OF_MEMORY, FaultKind::Once),
            (Call::cuEventSynchronize, 8, Code::LOST, FaultKind::Lost),
        ] {
            for at in 1..=times {
                report(format!("{call:?} {at}"));
                let error = check(Fault::of(call, at, code, kind)).unwrap_err();
                println!("{call:?} {at}: {error}");
            }
        }
    });
}

#[test]
fn a_device_that_is_too_small_is_an_error() {
    let simulator = Simulator::start(Config { memory: 100, ..Config::default() });
    let error = RUN().go(&simulator).unwrap_err();
    assert!(error.to_string().contains("allocate device memory"), "{error}");
    assert_eq!(simulator.balance(), 0);
}

#[test]
fn auto_falls_back_to_the_cpu_whatever_fails_and_says_so() {
    guarded(|report| {
        let look = |fault| {
            let simulator = Simulator::start(Config { fault, ..Config::default() });
            let before = simulator.all_calls();
            let device = choose(DeviceChoice::Auto, Consumer::AnyDevice).unwrap();
            (device, simulator.all_calls() - before)
        };
        // A thread binds the context once, so the first look makes a call more.
        look(Fault::NONE);
        let (device, calls) = look(Fault::NONE);
        assert_eq!((device.place, device.reason.as_str()), (Place::Cuda(0), "cuda:0, fake-cuda"));
        for at in 1..=calls {
            report(format!("call {at} of {calls}"));
            let (device, _) = look(Fault::any(at, Code::OUT_OF_MEMORY, FaultKind::Once));
            let said = device.reason.starts_with("the CPU: the NVIDIA driver failed to ");
            // The last two give the context back, and by then all is known.
            assert!(said || device.place == Place::Cuda(0) && at + 2 > calls, "{at}: {device:?}");
        }
    });
}
