//! What a model is: an [`Architecture`], which says how large, and the [`Model`] that is built of it.
//!
//! Those of this crate are listed in `models.rs`. One of your own implements the same two traits: it
//! then trains, is kept, resumed and forecast with as they are. How to learn is not known here.

use crate::{
    error::ModelError,
    evaluate::evaluated_rows,
    parameters::Parameters,
    target_column::{OwnInput, TargetColumn},
    tensor::Inputs,
};
use millstream_data::{BatchLayout, DataSchema, Extras, Heads, Padding, Scaling};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, fmt::Debug};
use tch::{Device, Tensor};

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To learn: dropout is on.
    Train,
    /// To forecast.
    Evaluate,
}

/// What a model is between.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The most windows that it is shown at once: those of a full batch, filled up for
    /// [`evaluate`](crate::evaluate). A batch may have fewer.
    pub batch_size: usize,
    /// Rows of a window; where they are padded on the right, a batch may have fewer.
    pub lookback: usize,
    /// Values in a row.
    pub features: usize,
    /// Steps forecast.
    pub horizon: usize,
    /// Target columns.
    pub targets: usize,
    /// Outputs of each step of each target; 1 but for losses that want more.
    pub heads: usize,
    /// Where windows are padded.
    pub padding: Padding,
    /// The target columns, in order, and which of the inputs is their own past.
    pub target_columns: Cow<'static, [TargetColumn]>,
}

/// A network with its parameters.
pub trait Model: Debug + Send {
    /// Forecasts `[rows, horizon, targets]`, scaled, from a batch of at most
    /// [`batch_size`](Shape::batch_size) windows; where the shape has several heads, outputs
    /// `[rows, horizon, targets, heads]`, of which [`forecasts`](crate::forecasts) makes forecasts.
    ///
    /// # Errors
    /// What libtorch says: use its fallible functions (`f_…`), the others panic.
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError>;

    /// What it learns.
    fn parameters(&self) -> &Parameters;

    /// The same, to be changed.
    fn parameters_mut(&mut self) -> &mut Parameters;

    /// Whether training draws random numbers, as dropout does: libtorch's generator is then seeded
    /// for every batch, so that a resumed run draws the same.
    fn is_random(&self) -> bool {
        true
    }

    /// Forecasts in evaluation mode, in operations whose trace holds for any number of rows. For a
    /// model whose `forward` has sizes of its own in it, such as states made once.
    ///
    /// # Errors
    /// As for [`Model::forward`].
    fn forward_traced(&self, inputs: &Inputs) -> Result<Tensor, ModelError> {
        self.forward(inputs, Mode::Evaluate)
    }

    /// What a trace takes after the values: lengths where windows are padded on the left too, and
    /// segments. Lengths of windows that are padded on the right it takes in any case.
    fn traced_with(&self) -> Extras {
        Extras::NONE
    }

    /// What it is as TorchScript, with its weights, where it is one by itself; others are traced.
    ///
    /// # Errors
    /// When it cannot be written.
    fn as_torchscript(&self) -> Result<Option<Vec<u8>>, ModelError> {
        Ok(None)
    }
}

/// Which model, and how large: what can be said of it before it is built.
pub trait Architecture: Debug + Send + Sync {
    /// What it is called, in `train.model` and in `schema.json`.
    fn name(&self) -> &str;

    /// Its own settings, for `schema.json`.
    fn options(&self) -> Value;

    /// Whether it reads the segment column; one that no model reads is refused.
    fn reads_segments(&self) -> bool {
        false
    }

    /// Whether windows may be filled up: it reads their lengths or mask, or takes zeros for rows as a
    /// recurrence may. Such windows are refused where not.
    fn reads_padding(&self) -> bool {
        true
    }

    /// Whether it makes as many outputs of every step and target as its shape has heads. Losses that want
    /// more than one are refused where not.
    fn has_heads(&self) -> bool {
        false
    }

    /// Refuses data whose segments are numbered from 0 to below `found`, where it has no room for so
    /// many; 0 says that there is no segment column.
    ///
    /// # Errors
    /// [`ModelError::Setting`] with the option that is too small.
    fn check_segments(&self, found: usize) -> Result<(), ModelError> {
        let _ = found;
        Ok(())
    }

    /// Refuses options out of their range.
    ///
    /// # Errors
    /// [`ModelError::Setting`] with the first of them.
    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    /// Of an option that has no effect beside the others, what it would need; it is refused if set.
    fn idle(&self, option: &str) -> Option<&'static str> {
        let _ = option;
        None
    }

    /// Refuses to be built where training cannot fit into so many bytes.
    ///
    /// # Errors
    /// [`ModelError::Setting`] with the largest value that would fit.
    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        let _ = (shape, available);
        Ok(())
    }

    /// The model, its weights drawn from `seed` and from nothing else.
    ///
    /// # Errors
    /// When libtorch has no memory for it.
    fn build(&self, shape: &Shape, seed: u64, device: Device)
    -> Result<Box<dyn Model>, ModelError>;
}

impl Architecture for Box<dyn Architecture> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn options(&self) -> Value {
        (**self).options()
    }

    fn reads_segments(&self) -> bool {
        (**self).reads_segments()
    }

    fn reads_padding(&self) -> bool {
        (**self).reads_padding()
    }

    fn has_heads(&self) -> bool {
        (**self).has_heads()
    }

    fn check_segments(&self, found: usize) -> Result<(), ModelError> {
        (**self).check_segments(found)
    }

    fn check(&self) -> Result<(), ModelError> {
        (**self).check()
    }

    fn idle(&self, option: &str) -> Option<&'static str> {
        (**self).idle(option)
    }

    fn check_room(&self, shape: &Shape, available: u64) -> Result<(), ModelError> {
        (**self).check_room(shape, available)
    }

    fn build(
        &self,
        shape: &Shape,
        seed: u64,
        device: Device,
    ) -> Result<Box<dyn Model>, ModelError> {
        (**self).build(shape, seed, device)
    }
}

/// What `schema.json` says of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// Its [name](Architecture::name).
    pub kind: String,
    /// Its [options](Architecture::options).
    pub options: Value,
    /// What its outputs stand for; left out where they are forecasts, as in all older files.
    #[serde(default, skip_serializing_if = "Heads::are_values")]
    pub heads: Heads,
}

impl ModelDescription {
    /// The description of an architecture whose outputs are forecasts.
    #[must_use]
    pub fn of(architecture: &dyn Architecture) -> Self {
        ModelDescription {
            kind: architecture.name().to_owned(),
            options: architecture.options(),
            heads: Heads::default(),
        }
    }

    /// The same, whose outputs stand for this.
    #[must_use]
    pub fn with_heads(self, heads: Heads) -> Self {
        ModelDescription { heads, ..self }
    }
}

/// The target of [`Shape::LEAST`].
const ONE_TARGET: &[TargetColumn] =
    &[TargetColumn { name: String::new(), own_input: OwnInput::Level(0) }];

impl Shape {
    /// A model's shape for batches of this layout, which hold the columns of this schema, scaled so.
    #[must_use]
    pub fn of(layout: &BatchLayout, schema: &DataSchema, scaling: &Scaling) -> Self {
        let BatchLayout { lookback, features, horizon, targets, .. } = *layout;
        let batch_size = evaluated_rows(layout.batch_size);
        let padding = schema.padding;
        let target_columns = TargetColumn::all(schema, scaling).into();
        Shape {
            batch_size,
            lookback,
            features,
            horizon,
            targets,
            heads: 1,
            padding,
            target_columns,
        }
    }

    /// The same with room for these.
    #[must_use]
    pub fn with_heads(self, heads: &Heads) -> Self {
        Shape { heads: heads.count(), ..self }
    }

    /// The least there can be: what is known of the data before any was seen. A value, and its own past.
    pub const LEAST: Shape = Shape {
        batch_size: 1,
        lookback: 1,
        features: 1,
        horizon: 1,
        targets: 1,
        heads: 1,
        padding: Padding::None,
        target_columns: Cow::Borrowed(ONE_TARGET),
    };

    /// Values that a model makes of a window.
    #[must_use]
    pub fn labels(&self) -> usize {
        self.horizon * self.targets * self.heads
    }

    /// The shape of what a model makes of any number of windows.
    #[must_use]
    pub fn outputs(&self) -> Vec<i64> {
        let sizes = [self.horizon, self.targets, self.heads].map(|size| size as i64);
        // One head is no dimension.
        let sizes = if self.heads == 1 { &sizes[..2] } else { &sizes };
        std::iter::once(-1).chain(sizes.iter().copied()).collect()
    }
}
