//! Unknown keys are errors, and the error names the nearest key there is.

use crate::settings::Settings;
use config::{Value, ValueKind};

/// A key that no setting has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown setting `{key}`{}; {hint}", .origin.as_ref().map(|o| format!(" in {o}")).unwrap_or_default())]
pub(crate) struct UnknownKey {
    key: String,
    origin: Option<String>,
    hint: String,
}

/// Checks every key of `found` against the keys of `known`.
pub(crate) fn check_keys(found: &Value, known: &Settings) -> Result<(), UnknownKey> {
    // Serialised as JSON every key is there, a setting without a value as null.
    let known = serde_json::to_value(known).expect("settings are plain tables");
    let mut all = Vec::new();
    collect(&known, "", &mut all);
    check(found, &known, "", &all)
}

fn check(
    found: &Value,
    known: &serde_json::Value,
    path: &str,
    all: &[String],
) -> Result<(), UnknownKey> {
    let ValueKind::Table(table) = &found.kind else { return Ok(()) };
    let Some(known) = known.as_object() else { return Ok(()) };
    // In the order people would look for them, so that the same file gives the same error.
    let mut keys: Vec<_> = table.keys().collect();
    keys.sort();
    for key in keys {
        let (value, path) = (&table[key], join(path, key));
        match known.get(key) {
            Some(inner) => check(value, inner, &path, all)?,
            None => {
                let origin = leaf_origin(value);
                return Err(UnknownKey { hint: hint(&path, all), key: path, origin });
            }
        }
    }
    Ok(())
}

/// The file or flag that set `key`.
pub(crate) fn origin_of(values: &Value, key: &str) -> Option<String> {
    let found = key.split('.').try_fold(values, |value, name| match &value.kind {
        ValueKind::Table(table) => table.get(name),
        _ => None,
    });
    found.and_then(leaf_origin)
}

/// A table has no origin of its own; its values do.
fn leaf_origin(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::Table(table) => table.values().find_map(leaf_origin),
        _ => value.origin().map(str::to_owned),
    }
}

fn collect(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
    if !path.is_empty() {
        all.push(path.to_owned());
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        collect(value, &join(path, key), all);
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn hint(key: &str, all: &[String]) -> String {
    // A key in the wrong section is as common as a misspelt one: compare last names too.
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |known: &String| {
        let whole = strsim::jaro_winkler(key, known);
        let name = strsim::jaro_winkler(&last(key), &last(known));
        whole.max(name - 0.02)
    };
    let best = all.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best {
        Some(best) if likeness(best) > 0.8 => format!("did you mean `{best}`?"),
        _ => "pipeline.toml lists every setting".to_owned(),
    }
}
