//! [`Layer`]: the settings that one file, the environment or the flags give, taken apart into
//! single keys, each checked against what it takes. How layers are put together is not known here
//! but for the order among flags.

use super::{
    error::SettingsError,
    fit::{Misfit, fit, shown, typed},
    keys,
    origin::Origin,
    shape::Shape,
};
use std::{collections::BTreeMap, ffi::OsString, path::Path};
use toml::{
    Value,
    de::{DeTable, DeValue},
};

const PREFIX: &str = "MILLSTREAM_";

/// Values by key, and who gave them.
pub(super) type Layer = BTreeMap<String, Given>;

/// A value and who gave it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// What a settings file gives.
pub(super) fn file(path: &Path) -> Result<Layer, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    parse(&text, &|line| Origin::File { path: path.to_owned(), line })
}

/// What a text of that form gives.
pub(super) fn text(text: &str) -> Result<Layer, SettingsError> {
    parse(text, &|line| Origin::Text { line })
}

/// `place` says where a line stands.
fn parse(text: &str, place: &dyn Fn(usize) -> Origin) -> Result<Layer, SettingsError> {
    let line_at = |at: usize| text[..at].matches('\n').count() + 1;
    let wrong = |error: &toml::de::Error, message: &str| {
        let origin = place(error.span().map_or(1, |span| line_at(span.start)));
        SettingsError::Syntax { origin, message: message.to_owned() }
    };
    let mut lines = BTreeMap::new();
    let table = DeTable::parse(text).map_err(|error| wrong(&error, error.message()))?;
    note_lines(table.get_ref(), "", &line_at, &mut lines);
    // What is TOML by its syntax can still hold a number that no type takes.
    let table = toml::from_str::<toml::Table>(text)
        .map_err(|error| wrong(&error, "a number is too large"))?;
    let origin = |key: &str| place(lines.get(key).copied().unwrap_or(1));
    let mut layer = Layer::new();
    for (name, value) in table {
        take(&name, "", Shape::settings(), value, &origin, &mut |key, given| {
            layer.insert(key, given);
            Ok(())
        })?;
    }
    Ok(layer)
}

/// What the environment gives: `MILLSTREAM_SECTION__KEY`. Other names are not ours, nor read.
pub(super) fn environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Layer, SettingsError> {
    let ours = variables.into_iter().filter_map(|(name, value)| {
        // A name that is no text is none of ours, which are.
        let name = name.into_string().ok()?;
        let rest = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
        Some((name, rest, value))
    });
    let mut ours: Vec<_> = ours.collect();
    ours.sort();
    let mut layer = Layer::new();
    for (name, rest, value) in ours {
        let key = rest.replace("__", ".");
        if !key.contains('.') && Shape::settings().get(&key).is_none() {
            refuse_one_underscore(&name, &rest)?;
            continue;
        }
        let text =
            value.into_string().map_err(|_| SettingsError::NotText { name: name.clone() })?;
        let origin = |_: &str| Origin::Variable(name.clone());
        assign(&key, &text, &origin, &mut |key, given| match layer.get(&key) {
            // Variables have no order, so none of them can win.
            Some(Given { origin: first, .. }) => {
                let (first, second) = (first.clone(), given.origin);
                Err(SettingsError::Twice { key, first, second })
            }
            None => {
                layer.insert(key, given);
                Ok(())
            }
        })?;
    }
    Ok(layer)
}

/// What the flags give; of two for one key the later wins.
pub(super) fn flags(set: &[String]) -> Result<Layer, SettingsError> {
    let mut layer = Layer::new();
    for text in set {
        let (key, value) = text
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| SettingsError::NotAnAssignment { text: text.clone() })?;
        assign(key, value, &|_| Origin::Flag, &mut |key, given| {
            layer.insert(key, given);
            Ok(())
        })?;
    }
    Ok(layer)
}

type Put<'a> = &'a mut dyn FnMut(String, Given) -> Result<(), SettingsError>;

/// Sets a key to what a text means for it.
fn assign(
    key: &str,
    text: &str,
    origin: &dyn Fn(&str) -> Origin,
    put: Put<'_>,
) -> Result<(), SettingsError> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let parent =
        if section.is_empty() { Some(Shape::settings()) } else { Shape::settings().at(section) };
    let Some((parent, shape)) = parent.and_then(|parent| Some((parent, parent.get(name)?))) else {
        return Err(unknown(key, origin(key)));
    };
    take(name, section, parent, typed(shape, text), origin, put)
}

/// Takes a value apart into the settings it gives.
fn take(
    name: &str,
    section: &str,
    parent: &Shape,
    value: Value,
    origin: &dyn Fn(&str) -> Origin,
    put: Put<'_>,
) -> Result<(), SettingsError> {
    let key = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let origin_of_key = origin(&key);
    match (parent.get(name), value) {
        (None, _) => Err(unknown(&key, origin_of_key)),
        (Some(shape @ Shape::Section(_)), Value::Table(table)) => table
            .into_iter()
            .try_for_each(|(name, value)| take(&name, &key, shape, value, origin, put)),
        (Some(Shape::Section(keys)), value) => {
            let first = keys.first().map_or("", |(name, _)| *name);
            let value = shown(&key, &value);
            Err(SettingsError::Section { origin: origin_of_key, key, value, first })
        }
        (Some(Shape::Text | Shape::Choice(_)), Value::Table(table)) if !table.is_empty() => {
            let name = table.keys().next().map_or("", String::as_str);
            let below = format!("{key}.{name}");
            let origin = origin(&below);
            Err(unknown(&below, origin))
        }
        (Some(shape), value) => match fit(&key, shape, value, &origin_of_key) {
            Ok(value) => put(key, Given { value, origin: origin_of_key }),
            Err(Misfit { key, value, problem }) => {
                Err(SettingsError::Value { origin: origin_of_key, key, value, problem })
            }
        },
    }
}

fn unknown(key: &str, origin: Origin) -> SettingsError {
    SettingsError::UnknownKey { origin, key: key.to_owned(), hint: keys::hint(key) }
}

/// `MILLSTREAM_TRAIN_EPOCHS` would be ignored, and its author would not know.
fn refuse_one_underscore(name: &str, rest: &str) -> Result<(), SettingsError> {
    let paths = Shape::settings().paths();
    let Some((path, _)) = paths.iter().find(|(path, _)| path.replace('.', "_") == rest) else {
        return Ok(());
    };
    let meant = format!("{PREFIX}{}", path.replace('.', "__").to_uppercase());
    Err(SettingsError::OneUnderscore { name: name.to_owned(), meant })
}

/// The lines on which keys stand, sections too.
fn note_lines(
    table: &DeTable<'_>,
    section: &str,
    line_at: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (name, value) in table {
        let key = match section {
            "" => name.get_ref().to_string(),
            section => format!("{section}.{}", name.get_ref()),
        };
        if let DeValue::Table(table) = value.get_ref() {
            note_lines(table, &key, line_at, lines);
        }
        lines.insert(key, line_at(name.span().start));
    }
}
