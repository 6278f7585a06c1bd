//! Named tensors in a `.safetensors` file, checked against what the model needs.

use crate::error::TrainError;
use millstream_model::reason;
use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};
use tch::Tensor;

/// The tensors of a file, in host memory.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl TensorFile {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`TrainError::DamagedTensors`] when it is missing or not in the format.
    pub(crate) fn read(path: PathBuf) -> Result<Self, TrainError> {
        match Tensor::read_safetensors(&path) {
            Ok(tensors) => Ok(TensorFile { path, tensors: tensors.into_iter().collect() }),
            Err(error) => Err(TrainError::DamagedTensors { path, reason: reason(&error) }),
        }
    }

    /// The tensors of these names, each of which must have the shape and kind of its neighbour in
    /// `like`.
    ///
    /// # Errors
    /// [`TrainError::WrongTensor`] with the first that is missing or different.
    pub(crate) fn take(
        &mut self,
        names: &[String],
        like: &[Tensor],
    ) -> Result<Vec<Tensor>, TrainError> {
        let fits = |a: &Tensor, b: &Tensor| a.size() == b.size() && a.kind() == b.kind();
        let mut taken = Vec::with_capacity(names.len());
        for (name, like) in names.iter().zip(like) {
            match self.tensors.remove(name) {
                Some(tensor) if fits(&tensor, like) => taken.push(tensor),
                other => {
                    return Err(TrainError::WrongTensor {
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

/// Writes tensors under these names and waits until they are on the disk.
///
/// # Errors
/// [`TrainError::WriteTensors`] or [`TrainError::Write`].
pub(crate) fn write(path: &Path, names: &[String], tensors: &[Tensor]) -> Result<(), TrainError> {
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(tensors).collect();
    Tensor::write_safetensors(&named, path)
        .map_err(|error| TrainError::WriteTensors { path: path.into(), reason: reason(&error) })?;
    sync(path)
}

/// Waits until a file or folder that was written before is on the disk.
///
/// # Errors
/// [`TrainError::Write`].
pub(crate) fn sync(path: &Path) -> Result<(), TrainError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| TrainError::Write { path: path.into(), source })
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
        write(&path, &["a".into()], &[tensor.shallow_clone()]).unwrap();
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let error = TensorFile::read(path)
            .and_then(|mut file| file.take(&[name.into()], &[tensor.reshape([2, 1])]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected) && error.contains("model.safetensors"), "{error}");
    }

    #[test]
    fn a_full_disk_is_said_in_the_words_of_the_system() {
        let tensor = Tensor::from_slice(&[1.0f32, 2.0]);
        let error = write(Path::new("/dev/full"), &["a".into()], &[tensor]).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
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
