//! [`ModelOptions`]: what `train.model_options` holds, whichever model it is for.
//!
//! A setting is read before it is known which model is meant, so keys of all listed models are taken,
//! each as the type that its model gives it; whose they are is checked when the model is asked for.
//! Which keys there are is asked of the options' types, so that there is no second list of them.

use crate::{error::ModelError, model::Architecture, models::ModelKind};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, Visitor,
        value::{Error as Probed, MapAccessDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};
use std::{fmt, path::Path, sync::LazyLock};

/// The options of a model that were given; the others have that model's defaults. A name that several
/// models have takes the same type in all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ModelOptions(Map<String, Value>);

impl ModelOptions {
    /// All options of this model, as its type has them.
    #[must_use]
    pub fn of(model: &dyn Architecture) -> Self {
        match model.options() {
            Value::Object(options) => ModelOptions(options),
            _ => ModelOptions::default(),
        }
    }

    /// These, and where none was given the default of this model.
    #[must_use]
    pub fn with_defaults(&self, model: ModelKind) -> Self {
        let Value::Object(mut options) = model.defaults() else { return self.clone() };
        options.extend(self.0.clone());
        ModelOptions(options)
    }

    /// These with their paths below this folder, where they are not absolute already.
    #[must_use]
    pub fn with_paths_below(mut self, folder: &Path) -> Self {
        if let Some(Value::String(path)) = self.0.get_mut("path")
            && !path.is_empty()
        {
            *path = folder.join(&*path).to_string_lossy().into_owned();
        }
        self
    }

    pub(crate) fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// # Errors
    /// [`ModelError::OptionOfAnother`] when one of these is not of this model.
    pub(crate) fn check_owner(&self, model: ModelKind) -> Result<(), ModelError> {
        let Some(option) = self.0.keys().find(|key| !model.options().contains(&key.as_str()))
        else {
            return Ok(());
        };
        let owner = owner(option).map_or("another model", |(owner, _)| owner.name());
        Err(ModelError::OptionOfAnother { option: option.clone(), owner, model: model.name() })
    }
}

/// The names of the options of all models.
static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names = Vec::new();
    for name in ModelKind::ALL.iter().flat_map(|model| model.options()) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
});

/// The first model that has an option of this name.
fn owner(option: &str) -> Option<(ModelKind, &'static str)> {
    ModelKind::ALL.iter().find_map(|model| {
        let name = model.options().iter().find(|name| **name == option)?;
        Some((*model, *name))
    })
}

impl<'de> Deserialize<'de> for ModelOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("ModelOptions", &ALL, Given)
    }
}

struct Given;

impl<'de> Visitor<'de> for Given {
    type Value = ModelOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the options of a model")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ModelOptions, M::Error> {
        let mut options = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some((model, name)) = owner(&key) else {
                return Err(de::Error::unknown_field(&key, &ALL));
            };
            options.insert(key, model.read_option(name, &mut map)?);
        }
        Ok(ModelOptions(options))
    }
}

/// Reads the next value of a map as the field of this name of `O`.
pub(crate) fn read_one<'de, O: DeserializeOwned + Serialize, M: MapAccess<'de>>(
    name: &'static str,
    map: &mut M,
) -> Result<Value, M::Error> {
    let options = O::deserialize(MapAccessDeserializer::new(One { name: Some(name), map }))?;
    let mut options = serde_json::to_value(options).expect("plain structs always serialise");
    Ok(options[name].take())
}

/// A map of one key, whose value is the next of another map.
struct One<'a, M> {
    name: Option<&'static str>,
    map: &'a mut M,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for One<'_, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The names of a struct's fields, in their order.
pub(crate) fn fields<O: DeserializeOwned>() -> &'static [&'static str] {
    let mut found: &[&str] = &[];
    // Always an error: nothing is read but what the type asks for.
    drop(O::deserialize(Fields(&mut found)));
    found
}

struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Probed;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Probed> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Probed> {
        Err(de::Error::custom("there is nothing to read"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::LstmOptions;
    use serde_json::json;

    fn read(text: &str) -> Result<ModelOptions, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// What a model makes of this text.
    fn check(model: ModelKind, text: &str, expected: &str) {
        let read = read(text).map_err(|error| error.to_string());
        let found = read.and_then(|options| {
            let model = model.architecture(&options).map_err(|error| error.to_string())?;
            Ok(model.options().to_string())
        });
        let (Ok(found) | Err(found)) = found;
        assert!(found.starts_with(expected), "{text}: {found}");
    }

    #[test]
    fn every_model_has_its_own() {
        let (lstm, dlinear) = (ModelKind::Lstm, ModelKind::Dlinear);
        check(lstm, "{}", r#"{"dropout":0.0,"hidden":64,"layers":1}"#);
        check(lstm, r#"{"hidden":8,"dropout":0.5}"#, r#"{"dropout":0.5,"hidden":8,"layers":1}"#);
        check(dlinear, r#"{"kernel":3}"#, r#"{"individual":false,"kernel":3}"#);
        check(
            lstm,
            r#"{"hidden":8,"kernel":3}"#,
            "train.model_options.kernel is of \"dlinear\", not of \"lstm\"",
        );
        check(dlinear, r#"{"hidden":8}"#, "train.model_options.hidden is of \"lstm\", not of");
        check(lstm, r#"{"hiden":8}"#, "unknown field `hiden`, expected one of `hidden`, `layers`");
        check(lstm, r#"{"hidden":"8"}"#, "invalid type: string \"8\", expected a nonzero usize");
        check(lstm, r#"{"hidden":0}"#, "invalid value: integer `0`, expected a nonzero usize");
    }

    #[test]
    fn what_was_not_given_has_the_default_of_the_model() {
        let check = |model: ModelKind, expected: Value| {
            let options = read(r#"{"dropout":0.5}"#).unwrap().with_defaults(model);
            assert_eq!(serde_json::to_value(options).unwrap(), expected);
        };
        check(ModelKind::Lstm, json!({"dropout": 0.5, "hidden": 64, "layers": 1}));
        let mlp = json!({"activation": "gelu", "dropout": 0.5, "hidden": 128, "layers": 2});
        check(ModelKind::Mlp, mlp);
    }

    #[test]
    fn a_path_is_found_from_anywhere() {
        let check = |path: &str, expected: &str| {
            let options = ModelOptions(Map::from_iter([("path".to_owned(), path.into())]));
            let absolute = options.with_paths_below(Path::new("/here"));
            assert_eq!(absolute.to_value(), json!({ "path": expected }));
        };
        check("a/b.pt", "/here/a/b.pt");
        check("/a/b.pt", "/a/b.pt");
        check("", "");
        let none = ModelOptions::default();
        assert_eq!(none.clone().with_paths_below(Path::new("/here")), none);
    }

    #[test]
    fn those_of_a_type_are_those_that_were_read() {
        let options = LstmOptions { dropout: 0.5, ..LstmOptions::default() };
        let text = r#"{"dropout":0.5,"hidden":64,"layers":1}"#;
        assert_eq!(ModelOptions::of(&options), read(text).unwrap());
    }
}
