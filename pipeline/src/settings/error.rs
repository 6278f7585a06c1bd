//! What can be wrong with settings, each in one line that begins with where it stands.

use super::origin::Origin;
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read the settings file {}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{origin}: {message}")]
    Syntax { origin: Origin, message: String },
    #[error("--set {text:?} is not KEY=VALUE, e.g. train.epochs=3")]
    NotAnAssignment { text: String },
    #[error("the environment variable {name} is not UTF-8 text")]
    NotText { name: String },
    #[error("the environment variable {name} is no setting; did you mean {meant}?")]
    OneUnderscore { name: String, meant: String },
    #[error("`{key}` is set by both {first} and {second}; keep one of them")]
    Twice { key: String, first: Origin, second: Origin },
    #[error("{origin}: unknown setting `{key}`; {hint}")]
    UnknownKey { origin: Origin, key: String, hint: String },
    #[error("{origin}: {key} = {value}, but {key} is a section; set its keys, e.g. {key}.{first}")]
    Section { origin: Origin, key: String, value: String, first: &'static str },
    #[error("{origin}: {key} = {value} {problem}")]
    Value { origin: Origin, key: String, value: String, problem: String },
}
