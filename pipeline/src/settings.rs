//! The settings: file, then environment, then flags, through `config`.

use crate::{
    failure::Failure,
    keys::{UnknownKey, check_keys, origin_of},
};
use config::{Config, Environment, File, FileFormat};
use millstream_loader::SourceSettings;
use millstream_normalize::{
    FitSettings, ScaleSettings, SplitSettings, TargetSettings, WindowSettings,
};
use millstream_prefetch::PrefetchSettings;
use millstream_stage::Reference;
use millstream_trainer::TrainSettings;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// The file that is read when it is there and no other was named.
const DEFAULT_FILE: &str = "pipeline.toml";
const PREFIX: &str = "MILLSTREAM";

/// Every setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) source: SourceSettings,
    pub(crate) target: TargetSettings,
    pub(crate) window: WindowSettings,
    pub(crate) split: SplitSettings,
    pub(crate) scale: ScaleSettings,
    pub(crate) prefetch: PrefetchSettings,
    pub(crate) train: TrainSettings,
    pub(crate) run: RunSettings,
}

/// Where runs go and how many threads they use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunSettings {
    pub(crate) dir: PathBuf,
    pub(crate) threads: Threads,
    pub(crate) normalize_threads: Threads,
    pub(crate) train_threads: Threads,
}

/// A number of threads, or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "config::Value", into = "toml::Value")]
pub(crate) enum Threads {
    Auto,
    Count(NonZeroUsize),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read the settings file {}", .path.display())]
    Missing { path: PathBuf, source: std::io::Error },
    #[error("--set {text:?} is not KEY=VALUE, e.g. train.epochs=3")]
    NotAnAssignment { text: String },
    #[error(transparent)]
    UnknownKey(#[from] UnknownKey),
    #[error("bad setting `{key}`{}: {message}", .origin.as_ref().map(|o| format!(" in {o}")).unwrap_or_default())]
    Value { key: String, origin: Option<String>, message: String },
    #[error("bad setting: {0}")]
    Config(Box<config::ConfigError>),
}

impl Settings {
    /// Reads the settings as documented in `--help`.
    pub(crate) fn load(file: Option<&Path>, set: &[String]) -> Result<Self, Failure> {
        let default = Path::new(DEFAULT_FILE);
        let file = file.or_else(|| default.exists().then_some(default));
        Settings::read(file, std::env::vars().collect(), set).map_err(Failure::settings)
    }

    fn read(
        file: Option<&Path>,
        environment: HashMap<String, String>,
        set: &[String],
    ) -> Result<Self, SettingsError> {
        let failed = |error| SettingsError::Config(Box::new(error));
        let mut builder = Config::builder();
        if let Some(path) = file {
            // Read here, because `config` does not say which of "missing" and "unreadable" it was.
            let text = std::fs::read_to_string(path)
                .map_err(|source| SettingsError::Missing { path: path.to_owned(), source })?;
            check_toml(path, &text)?;
            builder = builder.add_source(File::from(path).format(FileFormat::Toml));
        }
        // Only names with a section: MILLSTREAM_TEST_POSTGRES_URL and its like are no settings.
        let ours = environment.into_iter().filter(|(name, _)| {
            name.strip_prefix(PREFIX)
                .is_some_and(|rest| rest.starts_with('_') && rest.contains("__"))
        });
        builder = builder.add_source(
            Environment::with_prefix(PREFIX)
                .prefix_separator("_")
                .separator("__")
                .try_parsing(true)
                .source(Some(ours.collect())),
        );
        for text in set {
            let (key, value) = text
                .split_once('=')
                .filter(|(key, _)| !key.trim().is_empty())
                .ok_or_else(|| SettingsError::NotAnAssignment { text: text.clone() })?;
            builder = builder.set_override(key.trim(), flag_value(value.trim())).map_err(failed)?;
        }
        let config = builder.build().map_err(failed)?;
        let values = config.cache.clone();
        check_keys(&values, &Settings::default())?;
        config.try_deserialize().map_err(|error| bad_value(error, &values))
    }

    /// What normalize fits.
    pub(crate) fn fit(&self) -> FitSettings {
        FitSettings {
            target: self.target.clone(),
            window: self.window.clone(),
            scale: self.scale.clone(),
        }
    }

    /// Columns that are needed whether or not they are features.
    pub(crate) fn required_columns(&self) -> Vec<String> {
        let groups = self.scale.groups.iter().filter_map(|group| group.reference.as_ref());
        let references = groups.chain([&self.scale.reference]).filter_map(|reference| {
            if let Reference::Column(name) = reference { Some(name) } else { None }
        });
        let mut columns = self.target.columns.clone();
        for name in self.window.segment.iter().chain(references) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        columns
    }

    /// The settings as a file that reads back the same, without any password.
    pub(crate) fn to_toml(&self) -> String {
        let shown = Settings { source: self.source.without_password(), ..self.clone() };
        toml::to_string_pretty(&shown).expect("settings are plain tables")
    }
}

impl Default for RunSettings {
    fn default() -> Self {
        let threads = Threads::Auto;
        let dir = PathBuf::from("runs");
        RunSettings { dir, threads, normalize_threads: threads, train_threads: threads }
    }
}

/// Says where a bad value stands: `config` knows the key, but not always the file or flag.
fn bad_value(error: config::ConfigError, values: &config::Value) -> SettingsError {
    match error {
        config::ConfigError::At { error, origin, key: Some(key) } => {
            let origin = origin.or_else(|| origin_of(values, &key));
            SettingsError::Value { key, origin, message: error.to_string() }
        }
        config::ConfigError::Type { origin, unexpected, expected, key: Some(key) } => {
            let origin = origin.or_else(|| origin_of(values, &key));
            let message = format!("invalid type: {unexpected}, expected {expected}");
            SettingsError::Value { key, origin, message }
        }
        error => SettingsError::Config(Box::new(error)),
    }
}

/// `config` names neither line nor column, the TOML parser does.
fn check_toml(path: &Path, text: &str) -> Result<(), SettingsError> {
    let table = toml::from_str::<toml::Table>(text);
    table.map(drop).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        let message = format!("{}:{line}: {}", path.display(), error.message());
        SettingsError::Config(Box::new(config::ConfigError::Message(message)))
    })
}

/// What stands after `--set key=`: a TOML value, or else plain text.
fn flag_value(text: &str) -> config::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"));
    convert(parsed.unwrap_or_else(|| toml::Value::String(text.to_owned())))
}

fn convert(value: toml::Value) -> config::Value {
    use config::ValueKind;
    let kind = match value {
        toml::Value::String(text) => ValueKind::String(text),
        toml::Value::Integer(number) => ValueKind::I64(number),
        toml::Value::Float(number) => ValueKind::Float(number),
        toml::Value::Boolean(flag) => ValueKind::Boolean(flag),
        toml::Value::Datetime(time) => ValueKind::String(time.to_string()),
        toml::Value::Array(items) => ValueKind::Array(items.into_iter().map(convert).collect()),
        toml::Value::Table(table) => {
            ValueKind::Table(table.into_iter().map(|(key, value)| (key, convert(value))).collect())
        }
    };
    config::Value::new(Some(&"--set".to_owned()), kind)
}

impl TryFrom<config::Value> for Threads {
    type Error = String;

    fn try_from(value: config::Value) -> Result<Self, String> {
        let text = value.into_string().map_err(|error| error.to_string())?;
        if text == "auto" {
            return Ok(Threads::Auto);
        }
        text.parse().map(Threads::Count).map_err(|_| {
            format!("invalid number of threads {text:?}, expected \"auto\" or a number above 0")
        })
    }
}

impl From<Threads> for toml::Value {
    fn from(threads: Threads) -> toml::Value {
        match threads {
            Threads::Auto => toml::Value::String("auto".to_owned()),
            Threads::Count(count) => toml::Value::Integer(count.get() as i64),
        }
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
