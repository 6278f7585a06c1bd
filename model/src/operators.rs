//! [`Operators`]: which operators libtorch ran for this thread, and how often, by name. For tests and
//! benches: what is counted is the same on any machine, busy or not.
//!
//! Operators that another thread runs are not seen. On the CPU the backward pass is of the thread that
//! asks for it.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char, c_void},
    marker::PhantomData,
    ptr::NonNull,
};

/// As in `cpp/operators.cpp`.
#[repr(C)]
struct CCounts {
    _opaque: [u8; 0],
}

type Tell = extern "C" fn(*mut c_void, *const c_char, i64, i64);

unsafe extern "C" {
    fn millstream_count_operators(large: i64) -> *mut CCounts;
    fn millstream_end_counting(counts: *mut CCounts, tell: Tell, to: *mut c_void);
}

/// What was run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operators {
    by_name: BTreeMap<String, Calls>,
}

/// How often an operator was run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// In all.
    pub all: u64,
    /// With a large tensor among its inputs.
    pub large: u64,
}

/// Ends the count, also where what is counted panics.
struct Counting {
    counts: NonNull<CCounts>,
    found: Operators,
    /// It is of this thread.
    thread: PhantomData<*const ()>,
}

impl Operators {
    /// Runs this and counts. A tensor with at least `large` values is a large one.
    ///
    /// # Panics
    /// Within another count.
    pub fn of<T>(large: usize, run: impl FnOnce() -> T) -> (T, Operators) {
        // SAFETY: it takes any number.
        let counts = unsafe { millstream_count_operators(large as i64) };
        let counts = NonNull::new(counts).expect("nobody counts within a count");
        let mut counting = Counting { counts, found: Operators::default(), thread: PhantomData };
        let result = run();
        let found = counting.end();
        std::mem::forget(counting);
        (result, found)
    }

    /// Calls of the operator of this name, such as `aten::copy_`.
    #[must_use]
    pub fn calls(&self, name: &str) -> Calls {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// Every operator that was run.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Calls)> {
        self.by_name.iter().map(|(name, calls)| (name.as_str(), *calls))
    }
}

impl Counting {
    fn end(&mut self) -> Operators {
        // SAFETY: `counts` is of `millstream_count_operators` on this thread and ends once: here, or where
        // this is dropped. `tell` is called before it returns, with the operators it is given.
        unsafe {
            millstream_end_counting(self.counts.as_ptr(), tell, (&raw mut self.found).cast());
        }
        std::mem::take(&mut self.found)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        drop(self.end());
    }
}

extern "C" fn tell(to: *mut c_void, name: *const c_char, all: i64, large: i64) {
    // SAFETY: `end` gave its own `Operators`, which nobody else touches meanwhile.
    let found = unsafe { &mut *to.cast::<Operators>() };
    // SAFETY: the name is a string that lives for the call.
    let name = unsafe { CStr::from_ptr(name) };
    let calls = Calls { all: all.cast_unsigned(), large: large.cast_unsigned() };
    found.by_name.insert(name.to_string_lossy().into_owned(), calls);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use tch::{Device, Kind, Tensor};

    fn ones(count: i64) -> Tensor {
        Tensor::ones([count], (Kind::Float, Device::Cpu))
    }

    #[test]
    fn a_scalar_that_is_read_and_a_copy_are_counted() {
        let (small, large) = (ones(3), ones(4));
        let (sum, found) = Operators::of(4, || {
            let copies = (small.copy(), large.copy());
            drop(ones(9));
            copies.0.double_value(&[0]) + copies.1.double_value(&[1])
        });
        assert_eq!(sum, 2.0);
        assert_eq!(found.calls("aten::_local_scalar_dense").all, 2);
        assert_eq!(found.calls("aten::copy_"), Calls { all: 2, large: 1 });
        assert_eq!(found.calls("aten::cosh"), Calls::default());
        assert!(found.iter().all(|(name, calls)| name.starts_with("aten::") && calls.all > 0));
    }

    #[test]
    fn the_backward_pass_is_counted_too() {
        let x = ones(4).set_requires_grad(true);
        let loss = (&x * &x).sum(Kind::Float);
        let ((), found) = Operators::of(4, || loss.backward());
        assert!(found.calls("aten::mul").large >= 1, "{found:?}");
    }

    #[test]
    fn a_count_ends_with_a_panic_and_there_is_one_at_a_time() {
        catch_unwind(|| Operators::of(1, || panic!("in between"))).unwrap_err();
        let ((), found) = Operators::of(1, || {
            catch_unwind(|| Operators::of(1, || ())).unwrap_err();
        });
        assert_eq!(found, Operators::default());
    }
}
