//! The model: whichever network was asked for, its named parameters and its TorchScript.
//!
//! Parameters carry the names a PyTorch module of the same shape would give them, so
//! `model.safetensors` loads into Python with `load_state_dict`. How to learn is not known here.

use crate::{
    error::ModelError,
    lstm::Lstm,
    options::{ModelKind, ModelOptions},
    torch_text::reason,
};
use millstream_data::{BatchLayout, Padding, SplitMix64};
use tch::{CModule, Device, Tensor};

/// Named tensors in a fixed order.
#[derive(Debug, Default)]
pub struct Parameters {
    /// As PyTorch would name them.
    pub names: Vec<String>,
    /// In the order of their names.
    pub tensors: Vec<Tensor>,
}

impl Parameters {
    /// Adds a parameter whose values are drawn from `[-bound, bound)`.
    pub fn draw(
        &mut self,
        name: String,
        shape: &[usize],
        bound: f32,
        random: &mut SplitMix64,
        device: Device,
    ) {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.uniform(bound)).collect();
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let tensor = Tensor::from_slice(&values).view(&shape[..]).to_device(device);
        self.names.push(name);
        self.tensors.push(tensor.set_requires_grad(true));
    }

    /// Copies of the values, on the same device.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Tensor> {
        self.tensors.iter().map(|tensor| tensor.detach().copy()).collect()
    }

    /// Overwrites the values with those of a snapshot.
    pub fn restore(&mut self, snapshot: &[Tensor]) {
        let _guard = tch::no_grad_guard();
        for (tensor, saved) in self.tensors.iter_mut().zip(snapshot) {
            tensor.copy_(saved);
        }
    }
}

/// A network with its parameters.
#[derive(Debug)]
pub enum Model {
    /// See `lstm.rs`.
    Lstm(Lstm),
}

impl Model {
    /// Makes a model for batches of this layout and padding, its weights drawn from `seed`.
    #[must_use]
    pub fn new(
        kind: ModelKind,
        options: &ModelOptions,
        layout: &BatchLayout,
        padding: Padding,
        seed: u64,
        device: Device,
    ) -> Self {
        match kind {
            ModelKind::Lstm => Model::Lstm(Lstm::new(options, layout, padding, seed, device)),
        }
    }

    /// Forecasts `[rows, horizon, targets]` from inputs `[rows, lookback, features]`. Windows that
    /// may be padded come with the lengths `[rows]` of their real part.
    #[must_use]
    pub fn forward(&self, inputs: &Tensor, lengths: Option<&Tensor>, train: bool) -> Tensor {
        match self {
            Model::Lstm(lstm) => lstm.forward(inputs, lengths, train),
        }
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        match self {
            Model::Lstm(lstm) => lstm.parameters(),
        }
    }

    /// Its parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        match self {
            Model::Lstm(lstm) => lstm.parameters_mut(),
        }
    }

    /// Whether training draws random numbers.
    #[must_use]
    pub fn drops_out(&self) -> bool {
        match self {
            Model::Lstm(lstm) => lstm.drops_out(),
        }
    }

    /// The model in evaluation mode as TorchScript, with these host weights built in. It takes
    /// inputs with any number of rows, and after them the lengths where windows are padded on the
    /// right, whose lookback may be any too.
    ///
    /// # Errors
    /// [`ModelError::Trace`] when libtorch cannot trace it.
    pub fn trace(&self, weights: &[Tensor]) -> Result<CModule, ModelError> {
        let _guard = tch::no_grad_guard();
        let Model::Lstm(lstm) = self;
        // Two rows: a trace over one could take a size of 1 for a constant.
        let examples = lstm.examples(2);
        let mut forward =
            |inputs: &[Tensor]| vec![lstm.forward_traced(&inputs[0], inputs.get(1), weights)];
        CModule::create_by_tracing("Forecast", "forward", &examples, &mut forward)
            .map_err(|error| ModelError::Trace { reason: reason(&error) })
    }
}
