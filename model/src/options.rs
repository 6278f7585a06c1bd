//! Which model, and how large: what can be set, and its defaults.
//!
//! Where a value comes from (file, environment, command line) is not known here.

use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// The models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A long short-term memory and a linear head on its last hidden state.
    #[default]
    Lstm,
}

/// The model's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptions {
    /// Size of the hidden state; 64 by default.
    pub hidden: NonZeroUsize,
    /// Recurrent layers on top of each other; 1 by default.
    pub layers: NonZeroUsize,
    /// Dropout between layers; 0 by default, and without effect when there is one layer.
    pub dropout: f64,
}

const fn size(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("a default is not zero")
}

impl Default for ModelOptions {
    fn default() -> Self {
        ModelOptions { hidden: const { size(64) }, layers: NonZeroUsize::MIN, dropout: 0.0 }
    }
}
