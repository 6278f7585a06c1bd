//! [`RecurrentOptions`]: how large a recurrent model is, whichever [`Cell`] it is made of.

use crate::{
    error::ModelError,
    model::{Architecture, Model, Shape},
    recurrent::{Cell, Layers, Recurrent},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{marker::PhantomData, num::NonZeroUsize};
use tch::Device;

/// How large it is: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, bound = "")]
#[non_exhaustive]
pub struct RecurrentOptions<C> {
    /// Size of the hidden state; 64 by default.
    pub hidden: NonZeroUsize,
    /// Recurrent layers on top of each other; 1 by default.
    pub layers: NonZeroUsize,
    /// Dropout between layers; 0 by default, and without effect when there is one layer.
    pub dropout: f64,
    #[serde(skip)]
    pub(crate) cell: PhantomData<C>,
}

impl<C> Default for RecurrentOptions<C> {
    fn default() -> Self {
        let hidden = const { NonZeroUsize::new(64).expect("a default is not zero") };
        RecurrentOptions { hidden, layers: NonZeroUsize::MIN, dropout: 0.0, cell: PhantomData }
    }
}

impl<C> RecurrentOptions<C> {
    fn layers(&self) -> Layers {
        Layers { hidden: self.hidden, layers: self.layers, dropout: self.dropout }
    }
}

impl<C: Cell> Architecture for RecurrentOptions<C> {
    fn name(&self) -> &str {
        C::NAME
    }

    fn options(&self) -> Value {
        serde_json::to_value(self).expect("plain structs always serialise")
    }

    fn has_heads(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), ModelError> {
        self.layers().check()
    }

    fn idle(&self, option: &str) -> Option<&'static str> {
        self.layers().idle(option)
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        self.layers().check_room::<C>(shape, available)
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        Ok(Box::new(Recurrent::<C>::new(self.layers(), shape, seed, device)?))
    }
}
