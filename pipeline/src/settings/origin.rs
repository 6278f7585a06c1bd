//! [`Origin`]: who gave a setting its value.

use std::{fmt, path::PathBuf};

/// Who gave a setting its value; a default has no origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This line of a settings file.
    File { path: PathBuf, line: usize },
    /// This line of a text that a program gave.
    Text { line: usize },
    /// This environment variable.
    Variable(String),
    /// A `--set`.
    Flag,
    /// A program that sets fields.
    Program,
}

impl Origin {
    /// How `key` would be set to `value` there.
    pub(super) fn assignment(&self, key: &str, value: &toml::Value) -> String {
        match self {
            Origin::File { .. } | Origin::Text { .. } | Origin::Program => {
                format!("{key} = {value}")
            }
            Origin::Variable(name) => format!("{name}='{value}'"),
            Origin::Flag => format!("--set '{key}={value}'"),
        }
    }
}

/// As an error begins with it.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Text { line } => write!(f, "line {line} of the settings"),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag => f.write_str("--set"),
            Origin::Program => f.write_str("the program"),
        }
    }
}
