//! [`Shape`]: what each key takes, asked of the types of the settings themselves.
//!
//! There is no list of keys here that could go stale: serde is made to read the settings as far as
//! one key, and what the key's type then asks for is noted. Values are not known here.

use super::Settings;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};
use std::{fmt, sync::LazyLock};

/// What a key takes.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    /// It is a section with these keys.
    Section(Vec<(&'static str, Shape)>),
    /// A list of these.
    List(Box<Shape>),
    /// Text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Whole { least: u64, most: u64 },
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// Values of several types; the key's type says which.
    Several,
}

/// The shape of all settings.
static SETTINGS: LazyLock<Shape> = LazyLock::new(|| shape_at(&mut Vec::new()));

/// A step from the settings towards one key.
#[derive(Debug, Clone, Copy)]
enum Step {
    Key(&'static str),
    Element,
}

/// What a type asked for when it was to be read.
enum Asked {
    Section(&'static [&'static str]),
    List,
    Value(Shape),
}

impl Shape {
    /// What all settings together take.
    pub(super) fn settings() -> &'static Shape {
        &SETTINGS
    }

    /// What stands below this key.
    pub(super) fn get(&self, name: &str) -> Option<&Shape> {
        let Shape::Section(keys) = self else { return None };
        keys.iter().find(|(key, _)| *key == name).map(|(_, shape)| shape)
    }

    /// What stands at this dotted path.
    pub(super) fn at(&self, path: &str) -> Option<&Shape> {
        path.split('.').try_fold(self, |shape, name| shape.get(name))
    }

    /// The dotted paths of everything below, sections too.
    pub(super) fn paths(&self) -> Vec<(String, &Shape)> {
        let Shape::Section(keys) = self else { return Vec::new() };
        keys.iter()
            .flat_map(|(name, shape)| {
                let below = shape.paths().into_iter();
                let below = below.map(move |(path, shape)| (format!("{name}.{path}"), shape));
                std::iter::once(((*name).to_owned(), shape)).chain(below)
            })
            .collect()
    }
}

fn shape_at(path: &mut Vec<Step>) -> Shape {
    let mut asked = None;
    // Always an error: the probe reads nothing, it stops at the key that it was sent to.
    drop(Settings::deserialize(Probe { path, asked: &mut asked }));
    let mut below = |step| {
        path.push(step);
        let shape = shape_at(path);
        path.pop();
        shape
    };
    match asked.expect("serde reads every field that it names") {
        Asked::Section(keys) => {
            Shape::Section(keys.iter().map(|&key| (key, below(Step::Key(key)))).collect())
        }
        Asked::List => Shape::List(Box::new(below(Step::Element))),
        Asked::Value(shape) => shape,
    }
}

/// A deserializer that goes down a path and notes what the type at its end asks for.
struct Probe<'a> {
    path: &'a [Step],
    asked: &'a mut Option<Asked>,
}

/// The end of every probe.
#[derive(Debug)]
struct Stopped;

impl Probe<'_> {
    fn stop<T>(self, asked: Asked) -> Result<T, Stopped> {
        *self.asked = Some(asked);
        Err(Stopped)
    }

    fn whole<'de, T>(self, visitor: &impl Visitor<'de>, most: u64) -> Result<T, Stopped> {
        // How serde describes the types of `std::num::NonZero`; a test holds it to that.
        let expected: &dyn Expected = visitor;
        let least = u64::from(expected.to_string().contains("nonzero"));
        self.stop(Asked::Value(Shape::Whole { least, most }))
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

impl de::Error for Stopped {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Stopped
    }
}

macro_rules! note {
    ($($method:ident => $shape:expr),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stopped> {
            self.stop(Asked::Value($shape))
        })*
    };
}

macro_rules! note_whole {
    ($($method:ident => $most:expr),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
            self.whole(&visitor, $most)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Stopped;

    note! {
        deserialize_any => Shape::Several,
        deserialize_str => Shape::Text,
        deserialize_string => Shape::Text,
        deserialize_f32 => Shape::Number,
        deserialize_f64 => Shape::Number,
        deserialize_bool => Shape::Flag,
    }

    note_whole! {
        deserialize_u8 => u8::MAX.into(),
        deserialize_u16 => u16::MAX.into(),
        deserialize_u32 => u32::MAX.into(),
        // TOML has no greater ones.
        deserialize_u64 => i64::MAX as u64,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.path {
            [] => self.stop(Asked::List),
            _ => visitor.visit_seq(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        match self.path {
            [] => self.stop(Asked::Section(fields)),
            _ => visitor.visit_map(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Stopped> {
        self.stop(Asked::Value(Shape::Choice(variants)))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct map
        identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Probe<'_> {
    type Error = Stopped;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Stopped> {
        let Some(Step::Key(name)) = self.path.first() else { return Err(Stopped) };
        seed.deserialize((*name).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stopped> {
        seed.deserialize(Probe { path: &self.path[1..], asked: self.asked })
    }
}

impl<'de> SeqAccess<'de> for Probe<'_> {
    type Error = Stopped;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Stopped> {
        seed.deserialize(Probe { path: &self.path[1..], asked: self.asked }).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::ModelKind;

    fn check(path: &str, expected: &Shape) {
        assert_eq!(Shape::settings().at(path), Some(expected), "{path}");
    }

    #[test]
    fn shapes_are_those_of_the_types() {
        check("train.batch_size", &Shape::Whole { least: 1, most: i64::MAX as u64 });
        check("train.epochs", &Shape::Whole { least: 0, most: u32::MAX.into() });
        check("train.learning_rate", &Shape::Number);
        check("split.by", &Shape::Choice(&["time", "series"]));
        check("train.model_options.hidden", &Shape::Whole { least: 1, most: i64::MAX as u64 });
        check("train.model_options.dropout", &Shape::Number);
        check("source.cache", &Shape::Text);
        check("source.path", &Shape::Text);
        check("source.symbols", &Shape::List(Box::new(Shape::Text)));
        check("window.drop_last", &Shape::Flag);
        check("prefetch.device", &Shape::Text);
        check("run.threads", &Shape::Several);
        let Some(Shape::List(group)) = Shape::settings().at("scale.groups") else { panic!() };
        assert_eq!(group.get("clip"), Some(&Shape::Number));
        assert_eq!(Shape::settings().at("train.epoch"), None);
        assert_eq!(Shape::settings().at("source.cache.dir"), None);
    }

    #[test]
    fn every_key_has_a_shape_of_its_own() {
        // Of the options of models only the chosen one's have a value.
        let of_every_model = ModelKind::ALL.iter().map(|model| {
            let mut settings = Settings::default();
            settings.train.model = *model;
            serde_json::to_value(settings).unwrap()
        });
        let known: Vec<_> = of_every_model.collect();
        for (path, shape) in Shape::settings().paths() {
            let pointer = format!("/{}", path.replace('.', "/"));
            let value = known.iter().find_map(|known| known.pointer(&pointer));
            let value = value.unwrap_or_else(|| panic!("no default for {path}"));
            assert_eq!(value.is_object(), matches!(shape, Shape::Section(_)), "{path}");
            // A word or a number.
            let threads = path.starts_with("run.") && path.ends_with("threads");
            let several = threads || path == "train.loss_scale";
            assert_eq!(*shape == Shape::Several, several, "{path} takes anything");
        }
    }
}
