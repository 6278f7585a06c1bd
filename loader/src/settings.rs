//! [`SourceSettings`]: the `[source]` section of `pipeline.toml`, as a plain serde struct.
//!
//! It says what to read and does not read it. Which keys a kind needs is checked by the reader of
//! that kind, so that one file can hold the keys of several kinds and `kind` alone chooses.

use crate::{LoadError, sources::postgres};
use millstream_postgres::server_identity;
use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroUsize};

/// More would only be in each other's way.
const MOST_CONNECTIONS: usize = 256;

/// Where rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Made up, from a seed: needs no data at all.
    #[default]
    Generate,
    /// A table or query of a PostgreSQL database.
    Postgres,
    /// Parquet files.
    Parquet,
    /// CSV files with a header line.
    Csv,
}

impl SourceKind {
    /// The name used in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Generate => "generate",
            SourceKind::Postgres => "postgres",
            SourceKind::Parquet => "parquet",
            SourceKind::Csv => "csv",
        }
    }
}

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

/// What the generated table looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateSettings {
    /// Number of series. Default: 500.
    pub series: NonZeroUsize,
    /// Business days the table spans; a series has at most this many rows. Default: 220.
    pub rows: NonZeroUsize,
    /// Feature columns besides the target `close_pct`. Default: 16.
    pub features: NonZeroUsize,
    /// Share of the feature values that are missing, 0 to 1. Default: 0.005.
    pub missing: f64,
    /// Share of the series with fewer than 40 rows, 0 to 1. Default: 0.04.
    pub short: f64,
    /// Seed; the same seed gives the same table on any machine. Default: 7.
    pub seed: u64,
}

/// Shows whether there is a connection string but not the string: it may hold a password.
impl fmt::Debug for SourceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|_| "(not shown)".to_owned());
        let shown = serde_json::json!(SourceSettings { url, ..self.clone() });
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

impl Default for GenerateSettings {
    fn default() -> Self {
        let size = |n| NonZeroUsize::new(n).expect("the defaults are not zero");
        GenerateSettings {
            series: size(500),
            rows: size(220),
            features: size(16),
            missing: 0.005,
            short: 0.04,
            seed: 7,
        }
    }
}

impl SourceSettings {
    /// These settings with the password taken out of the connection string.
    #[must_use]
    pub fn without_password(&self) -> SourceSettings {
        let url = self.url.as_deref().map(millstream_postgres::without_password);
        SourceSettings { url, ..self.clone() }
    }

    /// The series column, with `""` read as "one series".
    pub(crate) fn series_column(&self) -> Option<&str> {
        self.series.as_deref().filter(|name| !name.is_empty())
    }

    /// What must hold for every kind.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if self.kind != SourceKind::Postgres && self.filter.is_some() {
            return Err(LoadError::Setting {
                key: "where",
                value: self.filter.clone().unwrap_or_default(),
                expected: "a condition on rows works with kind = \"postgres\" only; use source.symbols, source.from and source.to instead",
            });
        }
        if let Some(condition) = &self.filter {
            postgres::check_condition(condition)?;
        }
        if self.connections.get() > MOST_CONNECTIONS {
            return Err(LoadError::Setting {
                key: "connections",
                value: self.connections.to_string(),
                expected: "at most 256; no server is faster for more",
            });
        }
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
    /// folder and what is asked of the rows afterwards are dropped, and the connection string is rewritten without its password.
    pub(crate) fn canonical(&self) -> Result<SourceSettings, LoadError> {
        let standard = SourceSettings::default();
        let mut kept = SourceSettings {
            series: self.series_column().map(str::to_owned),
            cache: String::new(),
            symbols_required: false,
            connections: standard.connections,
            ..self.clone()
        };
        if kept.kind == SourceKind::Postgres {
            kept.url = Some(server_identity(postgres::url(self)?)?);
        } else {
            (kept.url, kept.table, kept.query) = (None, None, None);
        }
        if !matches!(kept.kind, SourceKind::Parquet | SourceKind::Csv) {
            kept.path = None;
        }
        if kept.kind != SourceKind::Csv {
            kept.na.clear();
        }
        if kept.kind != SourceKind::Generate {
            kept.generate = standard.generate;
        }
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
        assert_eq!(keys.len(), 17);
        assert!(value["where"].is_null() && keys.contains(&"where"));
        assert_eq!(value["kind"], "generate");
        assert_eq!(value["generate"]["series"], 500);
    }

    #[test]
    fn a_mistyped_key_is_refused() {
        let error = toml::from_str::<SourceSettings>("tabel = \"x\"").unwrap_err().to_string();
        assert!(error.contains("unknown field `tabel`"), "{error}");
    }

    #[test]
    fn the_canonical_form_keeps_no_password_and_no_foreign_keys() {
        let settings = SourceSettings {
            kind: SourceKind::Postgres,
            url: Some("postgres://ann:hush@db.example/prices?password=hush2".to_owned()),
            table: Some("features".to_owned()),
            path: Some("left/over.csv".to_owned()),
            ..SourceSettings::default()
        };
        let text = serde_json::to_string(&settings.canonical().unwrap()).unwrap();
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
