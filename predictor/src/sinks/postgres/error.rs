//! [`PostgresTableError`]: why a table does not take forecasts, in a line that says what to do.

use super::of_the_output;
use millstream_postgres::{PostgresError, SqlState};
use std::error::Error;

/// Why a table does not take forecasts. None of them is in it then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresTableError {
    /// The URL does not say which table.
    #[error("--output names no table; add ?table=NAME to the url, e.g. ?table=forecasts")]
    NoTable,
    /// What the URL says is not the name of one.
    #[error(
        "--output: {name:?} is not the name of a table; expected a name such as forecasts, public.forecasts or \"a schema\".\"a.table\""
    )]
    TableName {
        /// What it says.
        name: String,
    },
    /// A name that PostgreSQL would cut, so that two could be one.
    #[error(
        "{what} {name:?} has {length} bytes and PostgreSQL keeps {} of a name; give it a shorter one",
        LONGEST_NAME
    )]
    LongName {
        /// What has it.
        what: &'static str,
        /// The name.
        name: String,
        /// Its bytes.
        length: usize,
    },
    /// The URL calls the model nothing.
    #[error(
        "--output sets model to nothing; give a name, or leave it out to use that of the architecture"
    )]
    NoModel,
    /// Two columns of the table would have the same name.
    #[error(
        "the table would have two columns named {name:?}, as every table of forecasts has one of that name; rename the column of the source"
    )]
    SameName {
        /// The name.
        name: String,
    },
    /// The rows are not those of forecasts.
    #[error("the rows have no column of times before a column \"step\"")]
    NoTime,
    /// A column is of a type that is not written.
    #[error("column {name:?} is of type {found}, which is not written to PostgreSQL")]
    Type {
        /// The column.
        name: String,
        /// Its type.
        found: String,
    },
    /// A date or time that PostgreSQL does not have.
    #[error("column {name:?} has a time that PostgreSQL's dates do not reach")]
    Time {
        /// The column.
        name: String,
    },
    /// What has the name is no table that rows can be merged into.
    #[error("{table} is {found}; name a table, or one that is not there yet")]
    NoTableThere {
        /// The name.
        table: String,
        /// What has it.
        found: &'static str,
    },
    /// The table is there and cannot hold the rows.
    #[error("table {table} does not fit the forecasts: {problems}; mend it with: {sql}")]
    Misfit {
        /// Its name.
        table: String,
        /// All that is wrong.
        problems: String,
        /// What would mend that.
        sql: String,
    },
    /// The database takes no changes.
    #[error(
        "the database is read-only (a standby, or default_transaction_read_only is on); name one that takes changes"
    )]
    ReadOnly,
    /// The role may not do what is needed.
    #[error("role {role} may not {what}; have it granted: {sql}")]
    Denied {
        /// Who connects.
        role: String,
        /// What it may not.
        what: String,
        /// What would allow it.
        sql: String,
    },
    /// The schema that the table is to be made in is not there.
    #[error("there is no schema {schema}; make it with: CREATE SCHEMA {schema}")]
    NoSchema {
        /// Its name, quoted.
        schema: String,
    },
    /// Somebody else holds the table for longer than is waited for.
    #[error(
        "table {table} was locked by somebody else for longer than is waited for (60 s, or lock_timeout in the url's options); nothing was written, try again when he is done"
    )]
    Locked {
        /// Its name.
        table: String,
    },
    /// The server has no room.
    #[error("the server has no room for the forecasts; nothing was written: {}", of_the_output(&chain(.0)))]
    NoRoom(PostgresError),
    /// Two rows of the forecasts are for the same series, time, step and model.
    #[error(
        "two forecasts are for the same series, time and step, so the table cannot hold both; nothing was written: {}",
        of_the_output(&chain(.0))
    )]
    Twice(PostgresError),
    /// The table's own triggers or rules leave rows out.
    #[error(
        "table {table} kept {kept} of {sent} forecasts, as a trigger or a rule of it leaves rows out; nothing was written: drop that, or name another table"
    )]
    NotKept {
        /// Its name.
        table: String,
        /// How many rows it would have taken.
        kept: u64,
        /// Of how many.
        sent: u64,
    },
    /// Whoever asked for the forecasts asked to stop.
    #[error("interrupted; nothing was written")]
    Stopped,
    /// The server did not do what it was asked to, for any other reason.
    #[error("{}{}", of_the_output(&chain(.0)), advice(.0))]
    Server(PostgresError),
}

impl PostgresTableError {
    /// Whether the URL or the table would have to be another one.
    #[must_use]
    pub fn is_setting(&self) -> bool {
        use PostgresTableError as E;
        match self {
            E::Server(error) => error.is_setting(),
            E::NoRoom(_) | E::Twice(_) | E::Locked { .. } | E::Time { .. } | E::Stopped => false,
            _ => true,
        }
    }

    /// Whether the wait for the server was called off.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self, PostgresTableError::Stopped)
    }
}

impl From<PostgresError> for PostgresTableError {
    fn from(error: PostgresError) -> Self {
        use PostgresTableError as E;
        const NO_ROOM: [SqlState; 2] =
            [SqlState::DISK_FULL, SqlState::CONFIGURATION_LIMIT_EXCEEDED];
        match error.state() {
            _ if matches!(error, PostgresError::Stopped) => E::Stopped,
            Some(state) if NO_ROOM.contains(state) => E::NoRoom(error),
            Some(state) if *state == SqlState::CARDINALITY_VIOLATION => E::Twice(error),
            Some(state) if *state == SqlState::READ_ONLY_SQL_TRANSACTION => E::ReadOnly,
            _ => E::Server(error),
        }
    }
}

/// The longest name that PostgreSQL keeps, in bytes.
const LONGEST_NAME: usize = 63;

/// Refuses a name of `what` that PostgreSQL would cut.
pub(super) fn check_length(what: &'static str, name: &str) -> Result<(), PostgresTableError> {
    match name.len() {
        length if length > LONGEST_NAME => {
            Err(PostgresTableError::LongName { what, name: name.to_owned(), length })
        }
        _ => Ok(()),
    }
}

/// What to do about the most usual reasons that there is no connection.
fn advice(error: &PostgresError) -> &'static str {
    match error {
        PostgresError::Unreachable { .. } => return UNREACHABLE,
        PostgresError::Connect { .. } => {}
        _ => return "",
    }
    match error.state() {
        None if error.is_transient() => UNREACHABLE,
        Some(state) if *state == SqlState::INVALID_CATALOG_NAME => {
            "; check the name of the database in the url"
        }
        Some(state) if state.code().starts_with("28") => {
            "; check the user in the url and the password (PGPASSWORD, or ~/.pgpass)"
        }
        _ => "",
    }
}

const UNREACHABLE: &str = "; check host and port in the url, and that the server runs";

/// An error and its causes in one line; those that its text has already are not said again.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line.lines().collect::<Vec<_>>().join(" ")
}
