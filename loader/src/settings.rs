//! [`SourceSettings`]: the `[source]` section of `pipeline.toml`, as a plain serde struct.
//!
//! It says what to read and does not read it. Which keys a kind needs is checked by the reader of
//! that kind, so that one file can hold the keys of several kinds and `kind` alone chooses.

use crate::{GenerateSettings, LoadError, SourceKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{fmt, num::NonZeroUsize};

/// The keys that every source uses.
const SHARED: [&str; 9] =
    ["kind", "series", "time", "features", "symbols", "symbols_required", "from", "to", "cache"];

/// What to read.
///
/// Keys that the chosen [`kind`](Self::kind) has no use for are ignored, except
/// [`filter`](Self::filter): rows somebody wanted out must never come in silently.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSettings {
    /// Where rows come from. Default: `generate`.
    pub kind: SourceKind,
    /// Connection string as libpq takes it: `postgres://user@host/database` or
    /// `host=… user=… dbname=…`. Needed by `postgres`.
    pub url: Option<String>,
    /// Table or view, `name` or `schema.name`, spelt as the catalogue spells it. `postgres` needs
    /// either this or [`query`](Self::query).
    pub table: Option<String>,
    /// A `SELECT` to read instead of a table.
    pub query: Option<String>,
    /// An SQL condition on the rows of the table or query; the key is `where`. Its parentheses must
    /// balance, and it has no comments. `postgres` only.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// File, glob or directory. Needed by `parquet` and `csv`.
    pub path: Option<String>,
    /// Column that names the series. `None` or `""`: the table is one series. Default: `symbol`.
    pub series: Option<String>,
    /// Column that holds the time: a date, a timestamp or an integer. Default: `trade_date`.
    pub time: String,
    /// Names or globs of the columns a model sees. Default: `["*"]`, every numeric or boolean
    /// column but series and time.
    pub features: Vec<String>,
    /// Series to read; empty for all. Default: all.
    pub symbols: Vec<String>,
    /// Whether it is an error that one of [`symbols`](Self::symbols) has no rows, and not a warning.
    /// Default: `false`.
    pub symbols_required: bool,
    /// Texts that mean "missing" in a `csv` file, besides nothing at all, `NA`, `N/A`, `null`, `NULL`,
    /// `None` and `-`. Default: none.
    pub na: Vec<String>,
    /// First time to read (inclusive): a date, a timestamp or, for integer times, an integer.
    pub from: Option<String>,
    /// Time to stop before (exclusive), written as [`from`](Self::from).
    pub to: Option<String>,
    /// Connections to read PostgreSQL with, all in one snapshot. Default: 2.
    pub connections: NonZeroUsize,
    /// Folder of the panel cache; `""` switches it off. Default: `.millstream/cache`.
    pub cache: String,
    /// What `generate` makes.
    pub generate: GenerateSettings,
}

/// Shows whether there is a connection string but not the string: it may hold a password.
impl fmt::Debug for SourceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|_| "(not shown)".to_owned());
        let shown = json!(SourceSettings { url, ..self.clone() });
        write!(f, "SourceSettings {shown}")
    }
}

impl Default for SourceSettings {
    fn default() -> Self {
        SourceSettings {
            kind: SourceKind::default(),
            url: None,
            table: None,
            query: None,
            filter: None,
            path: None,
            series: Some("symbol".to_owned()),
            time: "trade_date".to_owned(),
            features: vec!["*".to_owned()],
            symbols: Vec::new(),
            symbols_required: false,
            na: Vec::new(),
            from: None,
            to: None,
            connections: NonZeroUsize::new(2).expect("the defaults are not zero"),
            cache: ".millstream/cache".to_owned(),
            generate: GenerateSettings::default(),
        }
    }
}

impl SourceSettings {
    /// These settings with the password taken out of the connection string.
    #[must_use]
    pub fn without_password(&self) -> SourceSettings {
        #[cfg(feature = "postgres")]
        let shown = millstream_postgres::without_password;
        // Where in it a password would be is known to that crate alone.
        #[cfg(not(feature = "postgres"))]
        let shown = |_: &str| "(not shown)".to_owned();
        let url = self.url.as_deref().map(shown);
        SourceSettings { url, ..self.clone() }
    }

    /// The series column, with `""` read as "one series".
    pub(crate) fn series_column(&self) -> Option<&str> {
        self.series.as_deref().filter(|name| !name.is_empty())
    }

    /// What must hold for every kind, and for the one that is chosen.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let source = self.kind.source()?;
        let foreign = |_: &&String| !source.keys().contains(&"where");
        if let Some(condition) = self.filter.as_ref().filter(foreign) {
            return Err(LoadError::Setting {
                key: "where",
                value: condition.clone(),
                expected: "a condition on rows works with kind = \"postgres\" only; use source.symbols, source.from and source.to instead",
            });
        }
        source.check(self)?;
        if self.symbols_required && self.symbols.is_empty() {
            return Err(LoadError::Setting {
                key: "symbols_required",
                value: "true".to_owned(),
                expected: "source.symbols names none, so none is required; set that too, or set this to false",
            });
        }
        if self.series_column().is_none() && !self.symbols.is_empty() {
            return Err(LoadError::Setting {
                key: "symbols",
                value: self.symbols.join(", "),
                expected: "choosing series needs source.series, the column that names them",
            });
        }
        Ok(())
    }

    /// These settings reduced to what decides which rows come out: keys of other kinds, the cache
    /// folder and what is asked of the rows afterwards are dropped, and passwords are taken out.
    pub(crate) fn canonical(&self) -> Result<Value, LoadError> {
        let source = self.kind.source()?;
        let mut kept = SourceSettings {
            series: self.series_column().map(str::to_owned),
            cache: String::new(),
            symbols_required: false,
            ..self.clone()
        };
        source.canonicalize(&mut kept)?;
        let Value::Object(mut standard) = json!(SourceSettings::default()) else { unreachable!() };
        let used = |key: &str| SHARED.contains(&key) || source.keys().contains(&key);
        standard.retain(|key, _| !used(key));
        let mut kept = json!(kept);
        standard.into_iter().for_each(|(key, value)| kept[key] = value);
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_serialised_default() {
        let value = serde_json::to_value(SourceSettings::default()).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let is_used =
            |key: &&str| SHARED.contains(key) || SourceKind::ALL.iter().any(|k| k.uses(key));
        let unused: Vec<_> = keys.iter().filter(|key| !is_used(key)).collect();
        let everything = cfg!(all(feature = "parquet", feature = "postgres"));
        assert_eq!((keys.len(), unused.is_empty()), (17, everything), "{unused:?}");
        assert!(value["where"].is_null() && keys.contains(&"where"));
        assert_eq!(value["kind"], "generate");
        assert_eq!(value["generate"]["series"], 500);
    }

    #[test]
    fn a_mistyped_key_is_refused() {
        let error = toml::from_str::<SourceSettings>("tabel = \"x\"").unwrap_err().to_string();
        assert!(error.contains("unknown field `tabel`"), "{error}");
    }

    /// The text is part of the cache's key: another one, and every cached panel is read again.
    #[test]
    fn the_canonical_form_is_always_the_same_and_has_no_foreign_keys() {
        let settings = SourceSettings {
            kind: SourceKind::Csv,
            url: Some("postgres://ann:hush@db.example/prices".to_owned()),
            path: Some("p.csv".to_owned()),
            series: Some(String::new()),
            na: vec!["n/a".to_owned()],
            generate: GenerateSettings { seed: 8, ..GenerateSettings::default() },
            connections: NonZeroUsize::MIN,
            ..SourceSettings::default()
        };
        let expected = r#"{"cache":"","connections":2,"features":["*"],"from":null,"generate":{"features":16,"missing":0.005,"rows":220,"seed":7,"series":500,"short":0.04},"kind":"csv","na":["n/a"],"path":"p.csv","query":null,"series":null,"symbols":[],"symbols_required":false,"table":null,"time":"trade_date","to":null,"url":null,"where":null}"#;
        assert_eq!(settings.canonical().unwrap().to_string(), expected);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_canonical_form_keeps_no_password() {
        let settings = SourceSettings {
            kind: SourceKind::Postgres,
            url: Some("postgres://ann:hush@db.example/prices?password=hush2".to_owned()),
            table: Some("features".to_owned()),
            path: Some("left/over.csv".to_owned()),
            ..SourceSettings::default()
        };
        let text = settings.canonical().unwrap().to_string();
        assert!(!format!("{settings:?}").contains("hush"));
        assert!(!text.contains("hush") && !text.contains("left/over"), "{text}");
        assert!(text.contains("postgres://ann@db.example:5432/prices"), "{text}");
    }

    #[test]
    fn a_filter_that_would_be_ignored_is_refused() {
        let settings =
            SourceSettings { filter: Some("x > 1".to_owned()), ..SourceSettings::default() };
        assert!(settings.check().unwrap_err().to_string().contains("source.where"));
    }
}
