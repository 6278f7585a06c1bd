//! The models there are: one line each, in [`ModelKind`] and in [`ModelKind::architecture`].

mod lstm;

use crate::{
    error::ModelError,
    model::{Architecture, ModelDescription},
};
pub use lstm::LstmOptions;
use serde::{Deserialize, Serialize};

/// What `train.model_options` holds.
pub type ModelOptions = LstmOptions;

/// The models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A long short-term memory and a linear head on its last hidden state.
    #[default]
    Lstm,
}

impl ModelKind {
    /// A model of this kind with these options.
    #[must_use]
    pub fn architecture(self, options: &ModelOptions) -> Box<dyn Architecture> {
        match self {
            ModelKind::Lstm => Box::new(*options),
        }
    }
}

/// The architecture that `schema.json` describes, of those that are listed here.
///
/// # Errors
/// [`ModelError::Unknown`] when it is none of them, [`ModelError::Options`] when its options are not
/// what that model has.
pub fn built_in(description: &ModelDescription) -> Result<Box<dyn Architecture>, ModelError> {
    let ModelDescription { kind, options } = description;
    let known: ModelKind = serde_json::from_value(kind.as_str().into())
        .map_err(|_| ModelError::Unknown { kind: kind.clone() })?;
    let options: ModelOptions = serde_json::from_value(options.clone())
        .map_err(|_| ModelError::Options { kind: kind.clone(), options: options.to_string() })?;
    Ok(known.architecture(&options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_described_comes_back() {
        let options = ModelOptions { hidden: 7.try_into().unwrap(), ..ModelOptions::default() };
        let description = ModelDescription::of(&options);
        assert_eq!(description.kind, "lstm");
        let back = built_in(&description).unwrap();
        assert_eq!(ModelDescription::of(&*back), description);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let check = |kind: &str, options: &str, expected: &str| {
            let options = serde_json::from_str(options).unwrap();
            let description = ModelDescription { kind: kind.into(), options };
            assert_eq!(built_in(&description).unwrap_err().to_string(), expected);
        };
        check(
            "oracle",
            "{}",
            "there is no model \"oracle\" here; forecast with the program that trained it",
        );
        check(
            "lstm",
            r#"{"hidden":0}"#,
            "model \"lstm\" has no options {\"hidden\":0}; restore the checkpoint or train again",
        );
    }
}
