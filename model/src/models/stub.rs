//! A second model, for tests of what only shows where there are several.

use crate::{Architecture, Model, ModelError, Shape};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::Device;

/// Its options.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StubOptions {
    /// As the LSTM has one.
    pub dropout: f64,
    /// Its own.
    pub kernel: u32,
}

impl Architecture for StubOptions {
    fn name(&self) -> &str {
        "stub"
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).unwrap()
    }

    fn build(&self, _: &Shape, _: u64, _: Device) -> Result<Box<dyn Model>, ModelError> {
        unimplemented!("nothing forecasts with it")
    }
}
