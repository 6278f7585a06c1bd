//! [`LoadError`]: everything that can go wrong between a table and its panel.
//!
//! `place` is a file, a table or "the query", as the user would call it. Rows count from 1. No
//! variant ever holds a connection string, so that no message can show a password.

use crate::cache_damage::CacheDamage;
#[cfg(feature = "postgres")]
use crate::sources::postgres::copy::CopyError;
use millstream_data::PanelError;
#[cfg(feature = "postgres")]
use millstream_postgres::PostgresError;
use std::path::PathBuf;

/// Why loading failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A kind of source needs a key that is not set.
    #[error("source.kind = \"{kind}\" needs source.{key}: {expected}")]
    MissingSetting {
        /// The kind chosen.
        kind: &'static str,
        /// The key that is missing.
        key: &'static str,
        /// What to set it to.
        expected: &'static str,
    },
    /// A kind of source that was left out when this program was built.
    #[error(
        "source.kind = \"{kind}\" is not part of this build; build with the cargo feature \"{feature}\""
    )]
    NotBuilt {
        /// The kind chosen.
        kind: &'static str,
        /// The Cargo feature that it needs.
        feature: &'static str,
    },
    /// A key is set to something that cannot be used.
    #[error("source.{key} = {value:?} cannot be used: {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What it is set to.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A key is set to more than there is room for.
    #[error("source.{key} = {value} cannot be used: at most {most} fits; {why}")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// What it is set to.
        value: u64,
        /// What would fit, with the other settings as they are.
        most: u64,
        /// What there is not enough of.
        why: String,
    },
    /// A glob that cannot be read.
    #[error("{key} = {value:?} cannot be used: a name, or a glob made of *, ? and [abc]")]
    Glob {
        /// The setting.
        key: &'static str,
        /// The text.
        value: String,
    },
    /// No file is there to read.
    #[error(
        "source.path = {path:?} matches no file; give a file, a glob, or a directory with *.{extension} files"
    )]
    NoFiles {
        /// The setting.
        path: String,
        /// What a directory is searched for.
        extension: &'static str,
    },
    /// A data file or folder cannot be read.
    #[error("cannot read {path}")]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it was when loading began.
    #[error(
        "{path} changed while it was read, so some of its rows may be missing or new; run again when nothing writes to it any more"
    )]
    FileChanged {
        /// The file.
        path: PathBuf,
    },
    /// A file has nothing in it.
    #[error(
        "{path} is empty; a CSV table has a header line that names its columns, and its rows below"
    )]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// A file has a header and nothing else.
    #[error(
        "{path} has no rows below its header line; write them, or set source.path to a file that has some"
    )]
    HeaderOnly {
        /// The file, or the setting that means several.
        path: PathBuf,
    },
    /// A file is not well-formed CSV.
    #[error("{path} is not a CSV table with a header line")]
    Csv {
        /// The file.
        path: PathBuf,
        /// What the CSV reader said.
        source: arrow::error::ArrowError,
    },
    /// A file is not well-formed Parquet. With the feature `parquet`.
    #[cfg(feature = "parquet")]
    #[error("{path} is not a readable Parquet file")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet reader said.
        source: parquet::errors::ParquetError,
    },
    /// Arrow could not convert a column.
    #[error("{place}: column {column:?} cannot be converted")]
    Convert {
        /// File or table.
        place: String,
        /// The column.
        column: String,
        /// What Arrow said.
        source: arrow::error::ArrowError,
    },
    /// The settings name a column that the table does not have.
    #[error(
        "{place} has no column {column:?}, which {key} names{}; its columns are {columns}",
        suggestion.as_ref().map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
    )]
    UnknownColumn {
        /// File or table.
        place: String,
        /// The name that was not found.
        column: String,
        /// The setting that names it.
        key: &'static str,
        /// The closest name there is.
        suggestion: Option<String>,
        /// All names there are.
        columns: String,
    },
    /// Two columns of a table share a name.
    #[error("{place} has two columns called {column:?}; rename one")]
    DuplicateColumn {
        /// File or table.
        place: String,
        /// The name.
        column: String,
    },
    /// The features match no numeric column.
    #[error(
        "{place}: source.features = {features} matches no numeric column besides series and time; its columns are {columns}"
    )]
    NoFeature {
        /// File or table.
        place: String,
        /// The setting.
        features: String,
        /// All columns, with their types.
        columns: String,
    },
    /// A feature or target is not a number.
    #[error(
        "{place}: column {column:?}, which {key} names, has type {found}; a feature or target must be numeric or boolean"
    )]
    NotNumeric {
        /// File or table.
        place: String,
        /// The column.
        column: String,
        /// The setting that names it.
        key: &'static str,
        /// Its type.
        found: String,
    },
    /// A feature or target is also the series or the time.
    #[error(
        "{place}: column {column:?} is the series or the time, so {key} cannot name it too; give it a copy under another name"
    )]
    KeyAsValue {
        /// File or table.
        place: String,
        /// The column.
        column: String,
        /// The setting that names it.
        key: &'static str,
    },
    /// The series or time column has a type that cannot be one.
    #[error("{place}: column {column:?} has type {found}; source.{key} needs {expected}")]
    KeyType {
        /// File or table.
        place: String,
        /// The column.
        column: String,
        /// Which setting names it.
        key: &'static str,
        /// Its type.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// A row has no series or no time.
    #[error(
        "{place}, {row}: column {column:?} is empty; every row needs its series and time, so fill it or leave the row out"
    )]
    EmptyKey {
        /// File or table.
        place: String,
        /// The row, by number in a file and by its keys in a table.
        row: String,
        /// The column.
        column: String,
    },
    /// A time or a number cannot be read.
    #[error("{place}, {row}: column {column:?} holds {value}; expected {expected}")]
    BadCell {
        /// File or table.
        place: String,
        /// The row, by number in a file and by its keys in a table.
        row: String,
        /// The column.
        column: String,
        /// What it holds.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The time column holds dates and plain numbers.
    #[error(
        "{place}: time column {column:?} holds both dates and plain numbers; use one of them throughout"
    )]
    MixedTimes {
        /// File or table.
        place: String,
        /// The column.
        column: String,
    },
    /// Nothing is left to load.
    #[error(
        "{place} gave no rows; check that it is not empty and what source.symbols, source.from, source.to and source.where leave of it"
    )]
    NoRows {
        /// File or table.
        place: String,
    },
    /// Not one of the wanted series has a row.
    #[error("none of source.symbols is left to load: {symbols}")]
    NoSymbol {
        /// The symbols, with what may have been meant.
        symbols: String,
    },
    /// Some of the wanted series have no rows.
    #[error(
        "no rows for some of source.symbols: {symbols}; correct them, or set source.symbols_required = false to go on without"
    )]
    AbsentSymbols {
        /// The symbols, with what may have been meant.
        symbols: String,
    },
    /// The rows are not a panel: a series has two rows at one time.
    #[error("the rows of {place} do not make a panel")]
    NotAPanel {
        /// File or table.
        place: String,
        /// What is wrong with them.
        source: PanelError,
    },
    /// The server cannot be reached, or did not do what it was asked to. With the feature `postgres`.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(PostgresError),
    /// The snapshot is gone and rows have been handed out already. With the feature `postgres`.
    #[cfg(feature = "postgres")]
    #[error(
        "the connections to {place} broke and its snapshot is gone after {rows} rows were handed out; read it again from the start"
    )]
    SnapshotLost {
        /// Table or query.
        place: String,
        /// Rows handed out.
        rows: u64,
        /// What went wrong last.
        source: PostgresError,
    },
    /// The same rows were not the same twice.
    #[error(
        "{place} gave {read} rows where {counted} had been counted; it gives other rows each time it is read, so set source.connections = 1, or order what a LIMIT, DISTINCT ON or window function picks from"
    )]
    Unstable {
        /// Table or query.
        place: String,
        /// Rows counted before.
        counted: u64,
        /// Rows read.
        read: u64,
    },
    /// A column of arrays is empty, so its width is not known.
    #[error(
        "{place}: column {column:?} holds no array with elements, so how many features it stands for is not known; leave it out of source.features"
    )]
    NoArray {
        /// Table or query.
        place: String,
        /// The column.
        column: String,
    },
    /// Whoever watches the progress asked to stop.
    #[error("interrupted while loading; nothing was kept")]
    Interrupted,
    /// The row stream is not what was asked for. With the feature `postgres`.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The cache folder cannot be written.
    #[error(
        "cannot write {path} in the panel cache; make it writable, point source.cache elsewhere, or switch the cache off with source.cache = \"\""
    )]
    WriteCache {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A cache file is there but cannot be read.
    #[error("cannot read {path} in the panel cache; run `millstream import` to write it again")]
    ReadCache {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A cached panel is not as it was written.
    #[error(transparent)]
    Damage(#[from] CacheDamage),
    /// There is nothing to verify.
    #[error("no panel is cached for these settings in {path}; run `millstream import` first")]
    NoCache {
        /// The cache folder.
        path: PathBuf,
    },
}

impl LoadError {
    pub(crate) fn mixed_times(place: &str, column: &str) -> Self {
        LoadError::MixedTimes { place: place.to_owned(), column: column.to_owned() }
    }

    /// Whether the settings are wrong, whatever the data are: another file or table would not help.
    /// What the settings ask of data that do not have it, a column for one, is about the data.
    #[must_use]
    pub fn is_setting(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            LoadError::Postgres(error) => error.is_setting(),
            LoadError::MissingSetting { .. }
            | LoadError::NotBuilt { .. }
            | LoadError::Setting { .. }
            | LoadError::TooLarge { .. }
            | LoadError::Glob { .. }
            | LoadError::NoFiles { .. }
            | LoadError::AbsentSymbols { .. } => true,
            _ => false,
        }
    }
}

/// An error and its causes in one line, for a warning: a person sees no chain of sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(feature = "postgres")]
/// To call off the wait for a server is to stop loading.
impl From<PostgresError> for LoadError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Stopped => LoadError::Interrupted,
            error => LoadError::Postgres(error),
        }
    }
}
