//! [`Precision`]: which numbers a model computes with. Its weights are 32-bit in any case; with a
//! smaller type libtorch casts them, and what it knows to need more stays at 32 bits (autocast).
//!
//! What makes small gradients survive 16 bits is not known here: that is the trainer's.

use crate::{
    error::ModelError,
    model::{Mode, Model},
    tensor::Inputs,
};
use serde::{Deserialize, Serialize};
use std::{ffi::c_int, fmt, marker::PhantomData};
use tch::{Device, Kind, Tensor};

/// Which numbers a model computes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits throughout.
    #[default]
    F32,
    /// 16 bits with the range of 32 and 8 bits of precision.
    Bf16,
    /// 16 bits with 11 bits of precision and a largest value of 65504.
    F16,
}

impl Precision {
    /// All of them, the default first.
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::F16];

    /// Forecasts in this precision; the forecasts themselves are 32-bit.
    ///
    /// # Errors
    /// What the model or libtorch says, which has not every operator for every type on every device.
    pub fn forward(
        self,
        model: &dyn Model,
        inputs: &Inputs,
        mode: Mode,
    ) -> Result<Tensor, ModelError> {
        let Some(autocast) = Autocast::new(self, inputs.values.device()) else {
            return model.forward(inputs, mode);
        };
        let forecast = model.forward(inputs, mode)?;
        drop(autocast);
        Ok(forecast.f_to_kind(Kind::Float)?)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        })
    }
}

/// As in `cpp/autocast.cpp`.
#[derive(Debug)]
#[repr(C)]
struct Before {
    device: c_int,
    enabled: bool,
    dtype: c_int,
}

unsafe extern "C" {
    fn millstream_autocast_enter(device: c_int, half: bool, before: *mut Before);
    fn millstream_autocast_leave(before: *const Before);
}

/// Has libtorch compute on this thread in a smaller type as long as this is there, also where it goes by
/// a panic. They may be nested, and end in the opposite order.
#[derive(Debug)]
pub struct Autocast {
    before: Before,
    /// It is of this thread.
    thread: PhantomData<*const ()>,
}

impl Autocast {
    /// `None` for 32 bits, which is what libtorch does by itself.
    #[must_use]
    pub fn new(precision: Precision, device: Device) -> Option<Self> {
        let half = match precision {
            Precision::F32 => return None,
            Precision::Bf16 => false,
            Precision::F16 => true,
        };
        let device = match device {
            Device::Cuda(index) => index as c_int,
            _ => -1,
        };
        let mut before = Before { device, enabled: false, dtype: 0 };
        // SAFETY: `before` is writable for the call; what is changed are variables of this thread.
        unsafe { millstream_autocast_enter(device, half, &raw mut before) };
        Some(Autocast { before, thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: `before` is what `enter` has noted, on this same thread.
        unsafe { millstream_autocast_leave(&raw const self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelKind, ModelOptions, Shape};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The type that a linear layer computes in.
    fn seen() -> Kind {
        let x = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        x.linear(&x, None::<Tensor>).kind()
    }

    fn autocast(precision: Precision) -> Option<Autocast> {
        Autocast::new(precision, Device::Cpu)
    }

    #[test]
    fn guards_are_nested_and_end_with_a_panic_too() {
        assert_eq!(seen(), Kind::Float);
        let outer = autocast(Precision::Bf16);
        assert_eq!(seen(), Kind::BFloat16);
        let inner = autocast(Precision::F16);
        assert_eq!(seen(), Kind::Half);
        assert!(autocast(Precision::F32).is_none());
        drop(inner);
        assert_eq!(seen(), Kind::BFloat16);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _inner = autocast(Precision::F16);
            assert_eq!(seen(), Kind::Float, "not so");
        }));
        assert!(panicked.is_err());
        assert_eq!(seen(), Kind::BFloat16);
        drop(outer);
        assert_eq!(seen(), Kind::Float);
    }

    #[test]
    fn it_is_of_one_thread() {
        let _guard = autocast(Precision::Bf16);
        assert_eq!(std::thread::spawn(seen).join().unwrap(), Kind::Float);
    }

    /// Weights that were cast are not kept when the guard has gone: a step changes them.
    #[test]
    fn a_weight_that_changes_is_cast_again() {
        let mut weight = Tensor::ones([1, 1], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let x = Tensor::ones([1, 1], (Kind::Float, Device::Cpu));
        let times = |weight: &Tensor| {
            let _guard = autocast(Precision::Bf16);
            x.linear(weight, None::<Tensor>).double_value(&[0, 0])
        };
        assert_eq!(times(&weight), 1.0);
        tch::no_grad(|| weight.fill_(3.0).requires_grad());
        assert_eq!(times(&weight), 3.0);
    }

    #[test]
    fn forecasts_are_of_32_bits_and_close_to_those_of_32_bits() {
        let shape = Shape { batch_size: 4, lookback: 30, features: 1, ..Shape::LEAST };
        let values = Tensor::arange(120, (Kind::Float, Device::Cpu)).sin().view([4, 30, 1]);
        let inputs = Inputs { values, lengths: None, mask: None, segments: None };
        for kind in ModelKind::ALL.iter().filter(|kind| kind.name() != "script") {
            let model = kind.architecture(&ModelOptions::default()).unwrap();
            let model = model.build(&shape, 1, Device::Cpu).unwrap();
            let forecast = |precision: Precision| {
                let _guard = tch::no_grad_guard();
                precision.forward(&*model, &inputs, Mode::Evaluate)
            };
            let whole = forecast(Precision::F32).unwrap();
            for precision in [Precision::Bf16, Precision::F16] {
                let found = match forecast(precision) {
                    Ok(found) => found,
                    // libtorch computes an LSTM in 16 bits where the processor does.
                    Err(error) if kind.name() == "lstm" => {
                        println!("SKIPPED: no {precision} of an LSTM on this processor: {error}");
                        continue;
                    }
                    Err(error) => panic!("{} in {precision}: {error}", kind.name()),
                };
                assert_eq!(found.kind(), Kind::Float);
                let difference = (&found - &whole).abs().max().double_value(&[]);
                assert!(difference > 0.0, "{} in {precision} is just f32", kind.name());
                assert!(difference < 0.05, "{} in {precision}: {difference}", kind.name());
            }
        }
    }
}
