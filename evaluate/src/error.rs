//! [`EvaluateError`]: why a table of forecasts cannot be judged, in a line that says where and what to do.

use crate::columns::Role;
use arrow::error::ArrowError;
use millstream_data::{column_hint, list_names, table::KeyError};
use std::{io, path::PathBuf};

/// Column names that a message lists.
const LISTED: usize = 12;

/// Why forecasts cannot be judged. Rows count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A column that was asked for is not there.
    #[error("there is no column {column:?} for --{}; {}", .role.flag(), column_hint(.column, .columns))]
    UnknownColumn {
        /// What it should be.
        role: Role,
        /// Its name.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// No column has a name that says so.
    #[error(
        "no column is named like {}; name it with --{}; the table has {}",
        .role.what(), .role.flag(), list_names(.columns, LISTED)
    )]
    NoColumn {
        /// What it should be.
        role: Role,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// Several columns have a name that says so.
    #[error("{} could each be {}; name one with --{}", list_names(.columns, LISTED), .role.what(), .role.flag())]
    Ambiguous {
        /// What it should be.
        role: Role,
        /// Which could be.
        columns: Vec<String>,
    },
    /// One column was to be two things.
    #[error("column {column:?} cannot be both {} and {}", .roles.0.what(), .roles.1.what())]
    OneForTwo {
        /// The column.
        column: String,
        /// What it was to be.
        roles: (Role, Role),
    },
    /// A bound of an interval without the other.
    #[error("the table has column {column:?}, but no {other:?}; an interval has two bounds")]
    HalfAnInterval {
        /// The bound that is there.
        column: String,
        /// The one that is not.
        other: String,
    },
    /// A column does not say what its rows are.
    #[error("column {column:?}")]
    Key {
        /// The column.
        column: String,
        /// Why not.
        source: KeyError,
    },
    /// A cell that holds no number.
    #[error("row {row}: column {column:?} holds {value:?}; expected {expected}")]
    Cell {
        /// The row.
        row: u64,
        /// The column.
        column: String,
        /// What is there.
        value: String,
        /// What should be.
        expected: &'static str,
    },
    /// A column of another type.
    #[error("column {column:?} is of type {found}; expected {expected}")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A row without a forecast.
    #[error(
        "row {row}: column {column:?} holds {value}, which is no forecast; leave such rows out, or forecast them again"
    )]
    NoForecast {
        /// The row.
        row: u64,
        /// The column.
        column: String,
        /// What is there.
        value: String,
    },
    /// A forecast of what was already there.
    #[error(
        "row {row}: column {column:?} holds {value}; expected {expected}: a forecast is of what is still to come"
    )]
    NotAhead {
        /// The row.
        row: u64,
        /// The column.
        column: String,
        /// What is there.
        value: String,
        /// What should be.
        expected: String,
    },
    /// The same forecast twice.
    #[error(
        "rows {first} and {row} both forecast {series:?} at {time}, step {step}{fold}; where a table holds several models or runs, judge them one by one"
    )]
    Twice {
        /// The first row.
        first: u64,
        /// The second.
        row: u64,
        /// The series.
        series: String,
        /// When the forecasts were made.
        time: String,
        /// How many rows ahead.
        step: i32,
        /// The fold, if the table has folds.
        fold: String,
    },
    /// Batches of two tables.
    #[error("a batch has no column {column:?}, which the first one had")]
    OtherColumns {
        /// The column.
        column: String,
    },
    /// A history that lacks something.
    #[error("the history has no column {column:?}; {}", column_hint(.column, .columns))]
    NoHistory {
        /// The column that it should have.
        column: String,
        /// The columns it has.
        columns: Vec<String>,
    },
    /// No row can be judged.
    #[error("none of the {rows} rows has an outcome in {columns}; there is nothing to judge")]
    NothingToJudge {
        /// How many rows there are.
        rows: u64,
        /// The columns that would have them.
        columns: String,
    },
    /// Windows are judged whole, and none is.
    #[error(
        "of no forecast have all steps and targets come; --partial judges the {unfinished} rows that have an outcome"
    )]
    NothingWhole {
        /// Rows with an outcome.
        unfinished: u64,
    },
    /// Groups that need what the table does not have.
    #[error("{what}")]
    NoGroups {
        /// What was asked for, and what is missing.
        what: &'static str,
    },
    /// A file of a format that is not read, or not written.
    #[error("{} is in no format that is {what}; expected a file that ends in {expected}", .path.display())]
    Ending {
        /// The file.
        path: PathBuf,
        /// What was to be done with it: read or written.
        what: &'static str,
        /// How it could end.
        expected: &'static str,
    },
    /// A file cannot be opened or read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not in the format that its name says.
    #[error("{} is not {format}", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Arrow cannot convert a column.
    #[error("column {column:?} cannot be read")]
    Convert {
        /// The column.
        column: String,
        /// Why not.
        source: ArrowError,
    },
}

impl EvaluateError {
    /// Whether what was asked for is wrong, and not what is in the table.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            EvaluateError::UnknownColumn { .. }
            | EvaluateError::NoColumn { .. }
            | EvaluateError::Ambiguous { .. }
            | EvaluateError::OneForTwo { .. }
            | EvaluateError::NoGroups { .. }
            | EvaluateError::NoHistory { .. }
            | EvaluateError::Ending { .. } => true,
            EvaluateError::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}
