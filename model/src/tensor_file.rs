//! Named tensors in a `.safetensors` file, checked against what the model needs.

use crate::{error::ModelError, torch_text::reason};
use safetensors::SafeTensors;
use std::{collections::HashMap, path::PathBuf};
use tch::{TchError, Tensor};

/// The tensors of a file, in host memory.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl TensorFile {
    /// The tensors in the bytes of this file.
    ///
    /// # Errors
    /// [`ModelError::DamagedTensors`] when they are not in the format.
    pub fn parse(path: PathBuf, bytes: &[u8]) -> Result<Self, ModelError> {
        let parse = || {
            let file = SafeTensors::deserialize(bytes).map_err(|err| {
                TchError::SafeTensorError { path: path.display().to_string(), err }
            })?;
            let named = file.tensors().into_iter();
            named.map(|(name, view)| Ok((name, view.try_into()?))).collect()
        };
        match parse() {
            Ok(tensors) => Ok(TensorFile { path, tensors }),
            Err(error) => Err(ModelError::DamagedTensors { path, reason: reason(&error) }),
        }
    }

    /// Adds a tensor that a file of an older version does not have.
    pub fn fill_in(&mut self, name: &str, tensor: Tensor) {
        self.tensors.entry(name.to_owned()).or_insert(tensor);
    }

    /// The tensors of these names, each of which must have the shape and kind of its neighbour in
    /// `like`.
    ///
    /// # Errors
    /// [`ModelError::WrongTensor`] with the first that is missing or different.
    pub fn take(&mut self, names: &[String], like: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        let fits = |a: &Tensor, b: &Tensor| a.size() == b.size() && a.kind() == b.kind();
        let mut taken = Vec::with_capacity(names.len());
        for (name, like) in names.iter().zip(like) {
            match self.tensors.remove(name) {
                Some(tensor) if fits(&tensor, like) => taken.push(tensor),
                other => {
                    return Err(ModelError::WrongTensor {
                        path: self.path.clone(),
                        name: name.clone(),
                        expected: describe(like),
                        found: other.as_ref().map_or_else(|| "missing".to_owned(), describe),
                    });
                }
            }
        }
        Ok(taken)
    }
}

fn describe(tensor: &Tensor) -> String {
    format!("{:?} {:?}", tensor.kind(), tensor.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(bytes: Option<&[u8]>, name: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let tensor = Tensor::from_slice(&[1.0f32, 2.0]);
        Tensor::write_safetensors(&[("a", &tensor)], &path).unwrap();
        let written = std::fs::read(&path).unwrap();
        let error = TensorFile::parse(path, bytes.unwrap_or(&written))
            .and_then(|mut file| file.take(&[name.into()], &[tensor.reshape([2, 1])]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected) && error.contains("model.safetensors"), "{error}");
    }

    #[test]
    fn damaged_or_foreign_files_are_refused() {
        check_refused(Some(b""), "a", "is damaged: it is not in the safetensors format; restore");
        check_refused(Some(&[0xff; 64]), "a", "is damaged: it is not in the safetensors format; ");
        let empty = b"\x02\0\0\0\0\0\0\0{}";
        check_refused(Some(empty), "a", "\"a\" should be Float [2, 1] and is missing");
        check_refused(None, "a", "\"a\" should be Float [2, 1] and is Float [2]");
        check_refused(None, "b", "\"b\" should be Float [2, 1] and is missing");
    }
}
