//! [`Parameters`]: what a model learns, under the names that PyTorch would give it, so that
//! `model.safetensors` loads into Python with `load_state_dict`.

use crate::{error::ModelError, tensor_file::TensorFile};
use millstream_data::SplitMix64;
use tch::{Device, Kind, TchError, Tensor};

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
    ///
    /// # Errors
    /// When libtorch has no memory for it.
    pub fn draw(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        bound: f32,
        random: &mut SplitMix64,
        device: Device,
    ) -> Result<(), ModelError> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.uniform(bound)).collect();
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let tensor = Tensor::f_from_slice(&values)?.f_view(&shape[..])?.f_to_device(device)?;
        self.names.push(name.into());
        self.tensors.push(tensor.f_set_requires_grad(true)?);
        Ok(())
    }

    /// Adds a parameter whose values are all the same.
    ///
    /// # Errors
    /// When libtorch has no memory for it.
    pub fn fill(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        value: f64,
        device: Device,
    ) -> Result<(), ModelError> {
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let tensor = Tensor::f_full(&shape[..], value, (Kind::Float, device))?;
        self.names.push(name.into());
        self.tensors.push(tensor.f_set_requires_grad(true)?);
        Ok(())
    }

    /// Copies of the values, on the same device.
    ///
    /// # Errors
    /// When libtorch has no memory for them.
    pub fn snapshot(&self) -> Result<Vec<Tensor>, ModelError> {
        let copy = |tensor: &Tensor| -> Result<Tensor, TchError> {
            let copy = tensor.f_detach()?.f_empty_like()?;
            copy.shallow_clone().f_copy_(tensor)?;
            Ok(copy)
        };
        let _guard = tch::no_grad_guard();
        Ok(self.tensors.iter().map(copy).collect::<Result<_, _>>()?)
    }

    /// Overwrites the values with those of a file.
    ///
    /// # Errors
    /// [`ModelError::WrongTensor`] when it does not hold what this needs; nothing is changed then.
    pub fn load(&mut self, file: &mut TensorFile) -> Result<(), ModelError> {
        let values = file.take(&self.names, &self.tensors)?;
        self.restore(&values)
    }

    /// Overwrites the values with those of a snapshot.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn restore(&mut self, snapshot: &[Tensor]) -> Result<(), ModelError> {
        let _guard = tch::no_grad_guard();
        for (tensor, saved) in self.tensors.iter_mut().zip(snapshot) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }
}
