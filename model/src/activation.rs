//! [`Activation`]: what stands between two linear layers.

use serde::{Deserialize, Serialize};
use tch::{TchError, Tensor};

/// What stands between two linear layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// `x * Φ(x)`, with the exact distribution function.
    #[default]
    Gelu,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    pub(crate) fn apply(self, values: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Activation::Gelu => values.f_gelu("none"),
            Activation::Relu => values.f_relu(),
        }
    }
}
