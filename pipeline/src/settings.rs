//! [`Settings`]: all that can be set, from a file, the environment and flags, or in a program.
//!
//! Each of the three is a layer of single keys with values (`layer.rs`), checked against what the
//! key takes (`shape.rs`, `fit.rs`); a later layer wins key by key, and what results is read by
//! serde. What has no effect in this combination is refused (`no_effect.rs`).

mod annotated;
mod error;
mod fit;
mod keys;
mod layer;
mod limits;
mod no_effect;
mod origin;
mod shape;

use crate::error::Error;
use error::SettingsError;
use layer::{Given, Layer};
use millstream_data::Reference;
use millstream_loader::SourceSettings;
use millstream_model::ModelError;
use millstream_normalize::{
    FitSettings, ScaleSettings, SplitSettings, TargetSettings, WindowSettings,
};
use millstream_prefetch::PrefetchSettings;
use millstream_trainer::TrainSettings;
pub(crate) use origin::Origin;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// The file that is read when it is there and no other was named.
const DEFAULT_FILE: &str = "pipeline.toml";

/// Every setting, as `pipeline.toml` documents them. Made by [`from_toml`](Self::from_toml),
/// [`load`](Self::load) or from the defaults, and changed field by field.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Where rows come from.
    pub source: SourceSettings,
    /// What is forecast.
    pub target: TargetSettings,
    /// What a model sees of a series at a time.
    pub window: WindowSettings,
    /// What is learned from, looked at and tested.
    pub split: SplitSettings,
    /// How values are scaled.
    pub scale: ScaleSettings,
    /// What computes, and how far ahead batches are prepared.
    pub prefetch: PrefetchSettings,
    /// How to train.
    pub train: TrainSettings,
    /// Where runs go and how many threads they use.
    pub run: RunSettings,
    /// Who gave each value that is not a default, by dotted key.
    #[serde(skip)]
    origins: BTreeMap<String, Origin>,
}

/// Where runs go and how many threads they use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunSettings {
    /// Each run makes a folder in it.
    pub dir: PathBuf,
    /// Of the whole line.
    pub threads: Threads,
    /// Of them, to fill batches.
    pub normalize_threads: Threads,
    /// Of them, to train.
    pub train_threads: Threads,
}

/// A number of threads, or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "toml::Value")]
pub enum Threads {
    /// As many as are useful.
    Auto,
    /// So many.
    Count(NonZeroUsize),
}

/// What changes the settings of a file or a run: environment variables, then assignments. None of
/// either by default.
#[derive(Clone, Default)]
pub struct Overrides {
    environment: Vec<(OsString, OsString)>,
    set: Vec<String>,
}

/// A setting of a run to which the environment or a flag gives another value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Override {
    pub(crate) key: String,
    origin: Origin,
    /// What it is in the run; `None` where it has no value.
    was: Option<toml::Value>,
    is: toml::Value,
}

impl Settings {
    /// The defaults, and what this text in the form of `pipeline.toml` sets.
    ///
    /// # Errors
    /// An unknown key, with the nearest there is; a value that a key does not take.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        layer::text(text).and_then(Settings::resolve).map_err(Error::settings)
    }

    /// Reads the settings as the `millstream` command does: from this file, without one from
    /// `pipeline.toml` if that is there; then from the overrides.
    ///
    /// # Errors
    /// As for [`Settings::from_toml`]; also that the file cannot be read.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Self, Error> {
        let default = Path::new(DEFAULT_FILE);
        let file = file.or_else(|| default.exists().then_some(default));
        let Overrides { environment, set } = overrides;
        Settings::read(file, environment.iter().cloned(), set).map_err(Error::settings)
    }

    /// Refuses what was set in this section (`""` for all of them) and does nothing.
    ///
    /// Not every command asks: forecasting with a run that had more flags than this is no mistake.
    pub(crate) fn check_effects(&self, section: &str) -> Result<(), Error> {
        no_effect::check(self, section).map_err(Error::settings)
    }

    /// Refuses a change of a run's settings that does nothing.
    pub(crate) fn check_effects_of(&self, changes: &[Override]) -> Result<(), Error> {
        changes.iter().try_for_each(|change| self.check_effects(&change.key))
    }

    /// Reads the settings that a run has kept, then the overrides; says what these change. A password
    /// in `source.url` is none of the run's, so another is no change.
    pub(crate) fn of_run(
        file: &Path,
        Overrides { environment, set }: &Overrides,
    ) -> Result<(Self, Vec<Override>), Error> {
        Settings::read_run(file, environment.iter().cloned(), set).map_err(Error::settings)
    }

    /// Reads the settings that a run has kept, and nothing else.
    pub(crate) fn of_run_alone(file: &Path) -> Result<Self, Error> {
        let kept = layer::file(file).and_then(Settings::resolve_kept);
        kept.map_err(Error::settings)
    }

    /// These settings with the paths of the source and of the model made absolute, so that a run finds
    /// them from wherever it is gone on with.
    pub(crate) fn with_absolute_paths(mut self) -> Self {
        // A folder that cannot be found out, or has a name that is no text, leaves paths as they
        // are: they work from here.
        let Some(here) = std::env::current_dir().ok().filter(|here| here.to_str().is_some()) else {
            return self;
        };
        if let Some(path) = &self.source.path {
            self.source.path = Some(absolute(&here, path));
        }
        if !self.source.cache.is_empty() {
            self.source.cache = here.join(&self.source.cache).to_string_lossy().into_owned();
        }
        self.train.model_options = self.train.model_options.with_paths_below(&here);
        self
    }

    fn read_run(
        file: &Path,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        set: &[String],
    ) -> Result<(Self, Vec<Override>), SettingsError> {
        let kept = layer::file(file)?;
        let mut given = layer::environment(environment)?;
        given.extend(layer::flags(set)?);
        // The same place is no change, however it is written.
        let resolve = |layer| Settings::resolve_kept(layer).map(Settings::with_absolute_paths);
        let was = resolve(kept.clone())?.without_password().values();
        let settings = resolve(kept.into_iter().chain(given.clone()).collect())?;
        let is = settings.without_password().values();
        let changes = given.into_iter().filter_map(|(key, Given { origin, .. })| {
            let (was, is) = (at(&was, &key), at(&is, &key));
            let is = is.filter(|_| was != is)?.clone();
            Some(Override { was: was.cloned(), is, key, origin })
        });
        Ok((settings, changes.collect()))
    }

    fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        set: &[String],
    ) -> Result<Self, SettingsError> {
        let mut given = file.map(layer::file).transpose()?.unwrap_or_default();
        given.extend(layer::environment(environment)?);
        given.extend(layer::flags(set)?);
        Settings::resolve(given)
    }

    /// Defaults, and what was given instead.
    fn resolve(given: Layer) -> Result<Self, SettingsError> {
        let settings = match deserialize(&given) {
            Ok(settings) => settings,
            // Which of them it was: the one that cannot be read alone either.
            Err(error) => {
                let alone = |(key, given): (&String, &Given)| {
                    let alone = Layer::from([(key.clone(), given.clone())]);
                    Some((key.clone(), given.clone(), deserialize(&alone).err()?))
                };
                let (key, Given { value, origin }, error) =
                    given.iter().find_map(alone).unwrap_or_else(|| {
                        unreachable!("keys are read one by one, and each could be: {error}")
                    });
                let value = fit::shown(&key, &value);
                let problem = format!("does not work: {}", error.message());
                return Err(SettingsError::Value { origin, key, value, problem });
            }
        };
        let origins = given.into_iter().map(|(key, given)| (key, given.origin)).collect();
        let settings = Settings { origins, ..settings };
        limits::check(&settings)?;
        settings.check_model_options()?;
        Ok(settings)
    }

    /// The same of what a run has kept, which may be older than some keys.
    fn resolve_kept(given: Layer) -> Result<Self, SettingsError> {
        let mut settings = Settings::resolve(given)?;
        let Settings { train, origins, .. } = &mut settings;
        let said = |key: &str| origins.contains_key(&format!("train.{key}"));
        *train = std::mem::take(train).as_kept(said);
        Ok(settings)
    }

    /// The defaults where these settings choose what further defaults depend on.
    fn defaults_beside(&self) -> Self {
        let mut defaults = Settings::default();
        (defaults.train.model, defaults.train.optimizer) = (self.train.model, self.train.optimizer);
        defaults
    }

    /// Notes what a program has set, so that it is judged as if it stood in a file.
    ///
    /// # Errors
    /// What no machine takes.
    pub(crate) fn with_fields_noted(mut self) -> Result<Self, Error> {
        let (values, defaults) = (self.values(), Settings::default().values());
        let leaves = shape::Shape::settings().paths().into_iter();
        let leaves = leaves.filter(|(_, shape)| !matches!(shape, shape::Shape::Section(_)));
        for (key, _) in leaves.filter(|(key, _)| at(&values, key) != at(&defaults, key)) {
            self.origins.entry(key).or_insert(Origin::Program);
        }
        limits::check(&self).map_err(Error::settings)?;
        Ok(self)
    }

    /// Refuses an option of another model than the one that is chosen.
    fn check_model_options(&self) -> Result<(), SettingsError> {
        let Err(ModelError::OptionOfAnother { option, owner, model }) = self.train.architecture()
        else {
            return Ok(());
        };
        let key = format!("train.model_options.{option}");
        // A default is of the model, so somebody gave it.
        let Some(origin) = self.origin(&key).cloned() else { return Ok(()) };
        let value = at(&self.values(), &key).map_or_else(String::new, |v| fit::shown(&key, v));
        let problem = format!("is of {owner:?}, not of {model:?}");
        Err(SettingsError::Value { origin, key, value, problem })
    }

    /// Who gave a setting its value; `None` for a default.
    pub(crate) fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    fn without_password(&self) -> Self {
        Settings { source: self.source.without_password(), ..self.clone() }
    }

    fn values(&self) -> toml::Table {
        toml::Table::try_from(self).expect("settings are plain tables")
    }

    /// What normalize fits.
    pub(crate) fn fit(&self) -> FitSettings {
        FitSettings {
            target: self.target.clone(),
            window: self.window.clone(),
            scale: self.scale.clone(),
        }
    }

    /// Columns that are needed whether or not they are features: what `import` reads, `train` learns
    /// from and `predict` is shown.
    pub(crate) fn required_columns(&self) -> Vec<String> {
        let mut columns = self.target.columns.clone();
        columns.extend(self.columns_beside_targets());
        let mut seen = BTreeSet::new();
        columns.retain(|name| seen.insert(name.clone()));
        columns
    }

    /// Those of them that are no targets.
    pub(crate) fn columns_beside_targets(&self) -> Vec<String> {
        let groups = self.scale.groups.iter().filter_map(|group| group.reference.as_ref());
        let references = groups.chain([&self.scale.reference]).filter_map(|reference| {
            if let Reference::Column(name) = reference { Some(name) } else { None }
        });
        self.window.segment.iter().chain(references).cloned().collect()
    }

    /// The settings as a file that reads back the same, without any password; beside each value
    /// stands where it came from.
    pub(crate) fn to_toml(&self) -> String {
        annotated::write(&self.without_password().values(), &|key| self.origin(key))
    }
}

impl Overrides {
    /// What the environment of this process sets (`MILLSTREAM_TRAIN__EPOCHS=3`), then these
    /// assignments (`train.epochs=3`).
    #[must_use]
    pub fn of_process(set: &[String]) -> Self {
        Overrides { environment: std::env::vars_os().collect(), set: set.to_vec() }
    }

    /// These assignments (`train.epochs=3`), of which the later wins.
    pub fn of<T: Into<String>>(set: impl IntoIterator<Item = T>) -> Self {
        Overrides { environment: Vec::new(), set: set.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be passwords.
        f.debug_struct("Overrides").finish_non_exhaustive()
    }
}

impl RunSettings {
    /// Whether every stage has threads of its own, so that there is nothing to share out.
    fn shares_are_set(&self) -> bool {
        ![self.normalize_threads, self.train_threads].contains(&Threads::Auto)
    }
}

impl Default for RunSettings {
    fn default() -> Self {
        let threads = Threads::Auto;
        let dir = PathBuf::from("runs");
        RunSettings { dir, threads, normalize_threads: threads, train_threads: threads }
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Override { key, origin, was, is } = self;
        let was = was.as_ref().map_or("none".to_owned(), |was| fit::shown(key, was));
        write!(f, "{origin} would change {key} from {was} to {}", fit::shown(key, is))
    }
}

/// A path, or a glob, below a folder: in a glob, the folder's own name means itself.
fn absolute(here: &Path, path: &str) -> String {
    let joined = here.join(path);
    if joined.exists() || Path::new(path).is_absolute() {
        return joined.to_string_lossy().into_owned();
    }
    Path::new(&glob::Pattern::escape(&here.to_string_lossy())).join(path).to_string_lossy().into()
}

fn deserialize(given: &Layer) -> Result<Settings, toml::de::Error> {
    let mut table = toml::Table::new();
    for (key, given) in given {
        let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
        let section = sections.split('.').filter(|s| !s.is_empty()).fold(&mut table, |table, s| {
            let empty = || toml::Value::Table(toml::Table::new());
            let section = table.entry(s).or_insert_with(empty);
            section.as_table_mut().expect("what has keys below it is a section")
        });
        section.insert(name.to_owned(), given.value.clone());
    }
    table.try_into()
}

fn at<'a>(values: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let (first, rest) =
        key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    match rest {
        None => values.get(first),
        Some(rest) => at(values.get(first)?.as_table()?, rest),
    }
}

impl TryFrom<toml::Value> for Threads {
    type Error = &'static str;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        let count = |number| NonZeroUsize::new(usize::try_from(number).ok()?);
        match value {
            toml::Value::String(text) if text == "auto" => Some(Threads::Auto),
            toml::Value::Integer(number) => count(number).map(Threads::Count),
            _ => None,
        }
        .ok_or("write \"auto\" or a whole number above 0")
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
mod tests;
