//! `train.loss_scale`: gradients of 16 bits are those of a loss times a number, so that small ones are not
//! lost; they are divided by it before the step. A step whose gradients were too large for 16 bits is
//! skipped and the number halved; after many steps that were not, it is doubled (Micikevicius et al.,
//! 2018).
//!
//! All of it stays on the device: whether a step was skipped is known to the host when it reads losses.

use crate::{error::TrainError, settings::require};
use millstream_model::{Precision, fused};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::{Device, Kind, TchError, Tensor};

/// Where it begins with 16 bits, as in PyTorch.
const FIRST: f64 = 65536.0;
/// Steps in a row without a skip after which it is doubled, as in PyTorch.
const INTERVAL: i64 = 2000;

/// What the loss is multiplied by before its gradients are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum LossScale {
    /// 65536 at first with a precision of `f16`, nothing with the others.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// This number at first, with any precision.
    From(f64),
}

impl LossScale {
    /// The number to begin with; `None` where losses are not scaled.
    #[must_use]
    pub fn first(self, precision: Precision) -> Option<f64> {
        match self {
            LossScale::Auto => (precision == Precision::F16).then_some(FIRST),
            LossScale::None => None,
            LossScale::From(first) => Some(first),
        }
    }

    /// # Errors
    /// [`TrainError::Setting`] where it is no number that gradients could be divided by.
    pub(crate) fn check(self) -> Result<(), TrainError> {
        let LossScale::From(first) = self else { return Ok(()) };
        // Below 1 it would do the opposite, and the squares of small gradients are 0 in 32 bits.
        let is_scale = (first as f32).is_finite() && first >= 1.0;
        require("train.loss_scale", &first, is_scale, "a number from 1 to 3.4e38")
    }
}

impl TryFrom<Value> for LossScale {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match (&value, value.as_f64()) {
            (Value::String(text), _) if text == "auto" => Ok(LossScale::Auto),
            (Value::String(text), _) if text == "none" => Ok(LossScale::None),
            (_, Some(first)) => Ok(LossScale::From(first)),
            _ => Err("write \"auto\", \"none\" or a number from 1"),
        }
    }
}

impl From<LossScale> for Value {
    fn from(scale: LossScale) -> Value {
        match scale {
            LossScale::Auto => "auto".into(),
            LossScale::None => "none".into(),
            LossScale::From(first) => first.into(),
        }
    }
}

/// The names of what a checkpoint keeps of it.
pub(crate) const STATE: [&str; 2] = ["loss_scale", "loss_scale.growth"];

/// The number, on the device.
#[derive(Debug)]
pub(crate) struct Scaler {
    pub(crate) scale: Tensor,
    /// Steps since a skip or since it was doubled.
    growth: Tensor,
}

impl Scaler {
    /// # Errors
    /// When libtorch has no memory for it.
    pub(crate) fn new(first: f64, device: Device) -> Result<Self, TchError> {
        Ok(Scaler {
            scale: Tensor::f_full([1], first, (Kind::Float, device))?,
            growth: Tensor::f_zeros([1], (Kind::Int, device))?,
        })
    }

    /// Takes note of whether a step was skipped.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn update(&mut self, found_inf: &Tensor) -> Result<(), TchError> {
        fused::update_scale(&mut self.scale, &mut self.growth, found_inf, INTERVAL)
    }

    /// What a checkpoint keeps, as [`STATE`] names it.
    pub(crate) fn state(&self) -> [Tensor; 2] {
        [self.scale.shallow_clone(), self.growth.shallow_clone()]
    }

    /// # Errors
    /// When libtorch fails.
    pub(crate) fn restore(&mut self, state: &[Tensor]) -> Result<(), TchError> {
        for (tensor, saved) in [&mut self.scale, &mut self.growth].into_iter().zip(state) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_word_or_a_number() {
        let read = |text: &str| serde_json::from_str::<LossScale>(text);
        for (text, expected) in [
            ("\"auto\"", LossScale::Auto),
            ("\"none\"", LossScale::None),
            ("1024", LossScale::From(1024.0)),
            ("1.5", LossScale::From(1.5)),
        ] {
            let found = read(text).unwrap();
            assert_eq!(found, expected);
            let again = serde_json::to_string(&found).unwrap();
            assert_eq!(read(&again).unwrap(), expected);
            found.check().unwrap();
        }
        for text in ["\"big\"", "true", "[1]", "null"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("write \"auto\", \"none\" or a number from 1"), "{error}");
        }
        for first in [0.0, -1.0, 0.5, 1e39, 1e-30, f64::NAN] {
            let error = LossScale::From(first).check().unwrap_err().to_string();
            assert!(error.starts_with("train.loss_scale is "), "{error}");
        }
    }

    #[test]
    fn only_f16_is_scaled_by_itself() {
        let first = |scale: LossScale| Precision::ALL.map(|precision| scale.first(precision));
        assert_eq!(first(LossScale::Auto), [None, None, Some(65536.0)]);
        assert_eq!(first(LossScale::None), [None; 3]);
        assert_eq!(first(LossScale::From(8.0)), [Some(8.0); 3]);
    }

    #[test]
    fn a_restored_scale_goes_on_where_it_was() {
        let skipped = Tensor::from(1.0f32);
        let mut scaler = Scaler::new(8.0, Device::Cpu).unwrap();
        scaler.update(&skipped).unwrap();
        scaler.update(&Tensor::from(0.0f32)).unwrap();
        let mut again = Scaler::new(1.0, Device::Cpu).unwrap();
        again.restore(&scaler.state()).unwrap();
        assert_eq!(again.scale.double_value(&[0]), 4.0);
        assert_eq!(again.growth.int64_value(&[0]), 1);
    }
}
