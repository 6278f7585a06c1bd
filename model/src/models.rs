//! The models there are: one line each in the list below, and a file in `models/` with the options,
//! the network and its tests. The first is the default.

use crate::{
    error::ModelError,
    model::{Architecture, ModelDescription},
    model_options::{self, ModelOptions},
};
use serde::{Deserialize, Serialize, de::MapAccess};
use serde_json::Value;

/// Makes of the list its modules, [`ModelKind`], and the way from there to the options of each.
macro_rules! models {
    ($($(#[$if:meta])* $module:ident: $Kind:ident($Options:ident), $about:literal;)+) => {
        $($(#[$if])* pub(crate) mod $module; $(#[$if])* pub use $module::$Options;)+

        /// The models there are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ModelKind {
            $($(#[$if])* #[doc = $about] $Kind,)+
        }

        impl ModelKind {
            /// All of them, the default first.
            pub const ALL: &[ModelKind] = &[$($(#[$if])* ModelKind::$Kind,)+];

            /// What it is called, in `train.model` and in `schema.json`: as its file.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[$if])* ModelKind::$Kind => stringify!($module),)+
                }
            }

            /// The names of its options.
            pub(crate) fn options(self) -> &'static [&'static str] {
                match self {
                    $($(#[$if])* ModelKind::$Kind => model_options::fields::<$Options>(),)+
                }
            }

            /// Reads the next value of a map as the option of this name.
            pub(crate) fn read_option<'de, M: MapAccess<'de>>(
                self,
                name: &'static str,
                map: &mut M,
            ) -> Result<Value, M::Error> {
                match self {
                    $($(#[$if])* ModelKind::$Kind => {
                        model_options::read_one::<$Options, M>(name, map)
                    })+
                }
            }

            /// A model of this kind with these options, and for those that are left out its defaults.
            fn with_options(self, options: Value) -> Result<Box<dyn Architecture>, serde_json::Error> {
                match self {
                    $($(#[$if])* ModelKind::$Kind => {
                        Ok(Box::new(serde_json::from_value::<$Options>(options)?))
                    })+
                }
            }
        }
    };
}

models! {
    lstm: Lstm(LstmOptions), "A long short-term memory and a linear head on its last hidden state.";
    gru: Gru(GruOptions), "Gated recurrent units and a linear head on their last hidden state.";
    mlp: Mlp(MlpOptions), "Hidden layers over all values of the window at once.";
    nlinear: Nlinear(NlinearOptions), "A linear map of each target's window, relative to its last value.";
    dlinear: Dlinear(DlinearOptions), "Linear maps of each target's trend and season.";
    transformer: Transformer(TransformerOptions), "An encoder of rows that attend to each other, and a linear head on the last.";
    script: Script(ScriptOptions), "A TorchScript file of the user's.";
}

impl Default for ModelKind {
    fn default() -> Self {
        ModelKind::ALL[0]
    }
}

impl ModelKind {
    /// A model of this kind with these options.
    ///
    /// # Errors
    /// [`ModelError::OptionOfAnother`] when one of them is of another model, [`ModelError::Setting`]
    /// when one is nothing that this model takes.
    pub fn architecture(self, options: &ModelOptions) -> Result<Box<dyn Architecture>, ModelError> {
        options.check_owner(self)?;
        self.with_options(options.to_value()).map_err(|error| ModelError::Setting {
            key: "train.model_options",
            value: options.to_value().to_string(),
            expected: format!("what {:?} takes: {error}", self.name()),
        })
    }

    /// Its options when none is given.
    pub(crate) fn defaults(self) -> Value {
        let defaults = self.with_options(Value::Object(serde_json::Map::new()));
        defaults.expect("every option has a default").options()
    }
}

/// The architecture that `schema.json` describes, of those that are listed here.
///
/// # Errors
/// [`ModelError::Unknown`] when it is none of them, [`ModelError::Options`] when its options are not
/// what that model has.
pub fn built_in(description: &ModelDescription) -> Result<Box<dyn Architecture>, ModelError> {
    let ModelDescription { kind, options, .. } = description;
    let known: ModelKind = serde_json::from_value(kind.as_str().into())
        .map_err(|_| ModelError::Unknown { kind: kind.clone() })?;
    known
        .with_options(options.clone())
        .map_err(|_| ModelError::Options { kind: kind.clone(), options: options.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::Heads;

    #[test]
    fn what_is_described_comes_back() {
        for kind in ModelKind::ALL {
            let model = kind.architecture(&ModelOptions::default()).unwrap();
            let description = ModelDescription::of(&*model);
            assert_eq!(description.kind, kind.name());
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            let back = built_in(&description).unwrap();
            assert_eq!(ModelDescription::of(&*back), description);
        }
        assert_eq!(ModelKind::default().name(), "lstm");
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let check = |kind: &str, options: &str, expected: &str| {
            let options = serde_json::from_str(options).unwrap();
            let heads = Heads::default();
            let description = ModelDescription { kind: kind.into(), options, heads };
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
