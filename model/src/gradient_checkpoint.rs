//! Gradient checkpointing: of a layer only the inputs are kept, and it is computed again when its
//! gradients are asked for. Memory for time; the gradients are the same, bit for bit on the CPU.
//!
//! As in PyTorch, the second time is the first again: random numbers are drawn from the state of the
//! generator that they had been drawn from, whose own state is then put back, and autocast is as it
//! was.

use crate::{error::ModelError, torch_text};
use std::{
    any::Any,
    ffi::{CStr, c_char, c_void},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
    sync::{Mutex, PoisonError},
};
use tch::Tensor;
use torch_sys::C_tensor;

/// See `cpp/gradient_checkpoint.cpp`.
type Compute =
    extern "C" fn(*mut c_void, *const *mut C_tensor, usize, *mut c_char, usize) -> *mut C_tensor;

unsafe extern "C" {
    fn millstream_checkpoint(
        inputs: *const *mut C_tensor,
        count: usize,
        random: bool,
        owner: *mut c_void,
        compute: Compute,
        release: extern "C" fn(*mut c_void),
        message: *mut c_char,
        message_size: usize,
    ) -> *mut C_tensor;
}

/// A layer of its inputs.
type Layer = Box<dyn Fn(&[Tensor]) -> Result<Tensor, ModelError> + Send>;

/// A layer as the callback has it. libtorch may call back from any thread, and locks the node that
/// does; the lock here costs nothing and needs no such promise.
type Shared = Mutex<Layer>;

/// What `layer` makes of these inputs. It is called now, without gradients, and again when gradients
/// are asked for; all that has one must be among the inputs. `random` says whether it draws random
/// numbers.
///
/// # Errors
/// What the layer or libtorch says. The second time, `backward` says it.
pub(crate) fn checkpointed(
    inputs: &[&Tensor],
    random: bool,
    layer: impl Fn(&[Tensor]) -> Result<Tensor, ModelError> + Send + 'static,
) -> Result<Tensor, ModelError> {
    let pointers: Vec<*mut C_tensor> =
        inputs.iter().map(|input| input.as_ptr().cast_mut()).collect();
    let layer: Layer = Box::new(layer);
    let owner = Box::into_raw(Box::new(Shared::new(layer))).cast();
    let mut message: [c_char; 512] = [0; 512];
    // SAFETY: the tensors are borrowed for the call, which copies their handles and does not change
    // them. `owner` is a `Shared`, which is what `compute` and `release` take; the callee takes it over
    // on every path and gives it to `release` once, when `compute` will not be called with it again.
    // `message` is live for the call, with its length.
    let output = unsafe {
        millstream_checkpoint(
            pointers.as_ptr(),
            pointers.len(),
            random,
            owner,
            compute,
            release,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if output.is_null() {
        // SAFETY: the callee wrote a NUL-terminated string that fits, and the array was zeroed.
        let reason = unsafe { CStr::from_ptr(message.as_ptr()) };
        let reason = torch_text::first_sentence(&reason.to_string_lossy());
        return Err(ModelError::Torch { reason });
    }
    // SAFETY: `output` is a fresh `new at::Tensor`, and nobody else will free it.
    Ok(unsafe { Tensor::from_ptr(output) })
}

/// Computes the layer. A panic ends here: it must not unwind through libtorch.
extern "C" fn compute(
    owner: *mut c_void,
    inputs: *const *mut C_tensor,
    count: usize,
    message: *mut c_char,
    message_size: usize,
) -> *mut C_tensor {
    let run = || {
        // SAFETY: `owner` is the `Shared` of `checkpointed`, which is released after the last call.
        let layer = unsafe { &*owner.cast::<Shared>() };
        // SAFETY: the caller has `count` live tensors there, which it owns; these are handles of ours.
        let inputs: Vec<Tensor> = unsafe { slice::from_raw_parts(inputs, count) }
            .iter()
            .map(|input| unsafe { Tensor::clone_from_ptr(*input) })
            .collect();
        let layer = layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer(&inputs).map_err(|error| reason(&error))
    };
    let computed = catch_unwind(AssertUnwindSafe(run));
    match computed.unwrap_or_else(|panic| Err(format!("a layer panicked: {}", said(&*panic)))) {
        Ok(mut output) => {
            let pointer = output.as_mut_ptr();
            // The caller's from here on.
            std::mem::forget(output);
            pointer
        }
        Err(reason) => {
            // SAFETY: the caller has so many bytes there, zeroed; the last of them is left alone, so
            // that the text ends.
            let mut room = unsafe { slice::from_raw_parts_mut(message.cast(), message_size - 1) };
            // What does not fit is left out.
            drop(room.write(reason.as_bytes()));
            std::ptr::null_mut()
        }
    }
}

/// What an error of a layer says, without the words that are put before it once more.
fn reason(error: &ModelError) -> String {
    match error {
        ModelError::Torch { reason } => reason.clone(),
        error => error.to_string(),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why")
}

/// Drops a layer. libtorch may call it on any thread.
extern "C" fn release(owner: *mut c_void) {
    const fn may_cross_threads<T: Send + Sync>() {}
    const { may_cross_threads::<Shared>() };
    // SAFETY: `owner` came from `Box::into_raw` in `checkpointed` and is released once.
    drop(unsafe { Box::from_raw(owner.cast::<Shared>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    use tch::{Device, Kind};

    fn tensor(seed: i64, size: &[i64]) -> Tensor {
        tch::manual_seed(seed);
        Tensor::randn(size, (Kind::Float, Device::Cpu)).set_requires_grad(true)
    }

    /// Dropout of a linear layer, whose steps keep three tensors.
    fn layer(inputs: &[Tensor]) -> Result<Tensor, ModelError> {
        let hidden = inputs[0].f_matmul(&inputs[1])?.f_tanh()?;
        Ok(hidden.f_dropout(0.5, true)?.f_mul(&inputs[0])?)
    }

    /// The output, the gradients and the next random number, by two layers in a row.
    fn learned(checkpoint: bool) -> Vec<Tensor> {
        let (x, weight) = (tensor(1, &[5, 4]), tensor(2, &[4, 4]));
        tch::manual_seed(3);
        let apply = |x: &Tensor| match checkpoint {
            true => checkpointed(&[x, &weight], true, layer).unwrap(),
            false => layer(&[x.shallow_clone(), weight.shallow_clone()]).unwrap(),
        };
        let output = apply(&apply(&x));
        let between = Tensor::rand([1], (Kind::Float, Device::Cpu));
        output.square().sum(Kind::Float).backward();
        let after = Tensor::rand([1], (Kind::Float, Device::Cpu));
        vec![output.detach(), x.grad(), weight.grad(), between, after]
    }

    #[test]
    fn gradients_and_random_numbers_are_those_without() {
        for (with, without) in learned(true).iter().zip(&learned(false)) {
            assert!(with.equal(without), "{with} is not {without}");
        }
    }

    #[test]
    fn what_needs_no_gradient_gets_none() {
        let (x, weight) = (tensor(1, &[5, 4]).detach(), tensor(2, &[4, 4]));
        checkpointed(&[&x, &weight], true, layer).unwrap().sum(Kind::Float).backward();
        assert!(weight.grad().defined() && !x.grad().defined());
        let output = tch::no_grad(|| checkpointed(&[&x, &weight], true, layer).unwrap());
        assert!(!output.requires_grad());
    }

    /// Counts how often it was dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A layer is released once, when this has made use of what it gave.
    fn check_released(layer: fn(&[Tensor]) -> Result<Tensor, ModelError>, use_it: fn(Tensor)) {
        let released = Arc::new(AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&released));
        let x = tensor(1, &[4, 4]);
        let output = checkpointed(&[&x, &x], true, move |inputs| {
            let _ = &counted;
            layer(inputs)
        });
        if let Ok(output) = output {
            assert_eq!(released.load(Ordering::Relaxed), 0, "it may be called again");
            use_it(output);
        }
        assert_eq!(released.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_layer_is_released_once_whatever_becomes_of_it() {
        check_released(layer, |output| output.sum(Kind::Float).backward());
        check_released(layer, drop);
        check_released(layer, |output| std::thread::spawn(move || drop(output)).join().unwrap());
        check_released(|_| Err(ModelError::Unknown { kind: "x".into() }), drop);
        let output = tch::no_grad(|| checkpointed(&[&tensor(1, &[4, 4])], false, |_| panic!("x")));
        assert!(output.is_err());
    }

    /// What is said when the layer fails the first time, or the second.
    fn check_fails(layer: fn() -> Result<Tensor, ModelError>, expected: &str) {
        let x = tensor(1, &[2, 2]);
        let error = checkpointed(&[&x], false, move |_| layer()).unwrap_err().to_string();
        assert_eq!(error, format!("libtorch: {expected}"));
        let calls = AtomicUsize::new(0);
        let output = checkpointed(&[&x], false, move |inputs| {
            let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            if first { Ok(inputs[0].f_exp()?) } else { layer() }
        });
        let error = output.unwrap().sum(Kind::Float).f_backward().unwrap_err();
        assert_eq!(ModelError::from(error).to_string(), format!("libtorch: {expected}"));
    }

    #[test]
    fn what_a_layer_says_is_an_error_both_times() {
        check_fails(
            || Err(ModelError::Unknown { kind: "x".into() }),
            "there is no model \"x\" here; \
                    forecast with the program that trained it",
        );
        check_fails(|| panic!("at {}", 3), "a layer panicked: at 3");
        let long = |_: &[Tensor]| Err(ModelError::Unknown { kind: "x".repeat(9999) });
        let error = checkpointed(&[&tensor(1, &[1])], false, long).unwrap_err().to_string();
        assert!(error.len() > 400 && error.len() < 600, "{error}");
    }

    #[test]
    fn a_second_derivative_is_refused() {
        let x = tensor(1, &[4, 4]);
        let output = checkpointed(&[&x, &x], true, layer).unwrap().sum(Kind::Float);
        let error = Tensor::f_run_backward(&[output], &[x], true, true).unwrap_err();
        assert!(error.to_string().contains("has no second derivative"), "{error}");
    }
}
