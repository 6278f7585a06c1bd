//! [`PostgresTable`]: forecasts in a table of a PostgreSQL database, all of them or none.
//!
//! Rows go by binary COPY into a temporary table while they are made; when all have come, they are merged into the
//! table in the same transaction, in place of those with the same series, time, step and model. One who
//! reads the table sees what was there before until it sees all that is new. What the table must be like
//! is in `postgres/shape.rs`, what a row is on the wire in `postgres/binary_rows.rs`.

mod binary_rows;
mod columns;
mod error;
mod merge;
mod shape;

pub use error::PostgresTableError;

use crate::{
    output::Output,
    sinks::{ForecastSink, WriteError},
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use binary_rows::BinaryRows;
use columns::Columns;
use error::check_length;
use merge::{Merge, STAGING};
use millstream_postgres::{
    CopyWriter, Hold, Server, Stop, Warn, WriteSession, name_parts, quote_name, take_keys,
    without_password,
};
use std::{fmt, mem, path::PathBuf, sync::Arc};

/// A table of a PostgreSQL database that forecasts are written to, and whose they are.
#[derive(Clone)]
pub struct PostgresTable {
    /// May hold a password.
    url: String,
    /// As it was given, without that.
    shown: String,
    name: TableName,
    model: String,
    run: String,
    warn: Warn,
    stop: Stop,
}

/// The name of a table.
#[derive(Debug, Clone)]
struct TableName {
    schema: Option<String>,
    table: String,
}

impl TableName {
    /// Quoted.
    fn sql(&self) -> String {
        let table = quote_name(&self.table);
        self.schema
            .as_ref()
            .map_or(table.clone(), |schema| format!("{}.{table}", quote_name(schema)))
    }
}

impl PostgresTable {
    /// The table that a URL names: `postgres://user@host/database?table=schema.name`, with the keys of
    /// `source.url` besides. Rows say that they are of this run, and of `model` unless the URL says
    /// another name (`&model=NAME`). Nothing is connected to. Names are taken as they are written, in capitals
    /// too; one in quotes may hold dots, and quotes written twice, as in SQL.
    ///
    /// # Errors
    /// The URL cannot be read, names no table, or one whose name PostgreSQL would cut.
    pub fn from_url(url: &str, model: &str, run: &str) -> Result<Self, PostgresTableError> {
        let (left, [table, named]) = take_keys(url, ["table", "model"])?;
        let table = table.ok_or(PostgresTableError::NoTable)?;
        let mut parts = name_parts(&table).unwrap_or_default().into_iter();
        let name = match (parts.next(), parts.next(), parts.next()) {
            (Some(table), None, _) => TableName { schema: None, table },
            (Some(schema), Some(table), None) => TableName { schema: Some(schema), table },
            _ => return Err(PostgresTableError::TableName { name: table }),
        };
        if let Some(schema) = &name.schema {
            check_length("schema", schema)?;
        }
        check_length("table", &name.table)?;
        if named.as_ref().is_some_and(String::is_empty) {
            return Err(PostgresTableError::NoModel);
        }
        let model = named.unwrap_or_else(|| model.to_owned());
        let shown = without_password(&left);
        let mark = if shown.contains('?') { '&' } else { '?' };
        let shown = format!("{shown}{mark}table={}", name.sql().replace('"', ""));
        Ok(PostgresTable {
            url: left,
            shown,
            name,
            model,
            run: run.to_owned(),
            warn: Arc::new(|_| {}),
            stop: Stop::default(),
        })
    }

    /// Says what a person should know: a connection that is not encrypted, forecasts of another run that were
    /// replaced.
    #[must_use]
    pub fn warning(mut self, warn: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.warn = Arc::new(move |line: String| warn(of_the_output(&line)));
        self
    }

    /// Also gives what calls off every wait for the server when it is dropped: nothing is written then.
    #[must_use]
    pub fn with_hold(mut self) -> (Self, Hold) {
        let (hold, stop) = Stop::new();
        self.stop = stop;
        (self, hold)
    }

    /// The place, without a password.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The place as that of forecasts.
    #[must_use]
    pub fn into_output(self) -> Output {
        Output::sink(move |schema| self.open(schema))
    }

    /// Looks whether rows of this schema can be written, as far as that can be seen beforehand, and changes
    /// nothing yet. Columns before `step` are the series, where there is one, and the time.
    ///
    /// # Errors
    /// The server cannot be reached, the table is of another kind or shape, or there is no right to write
    /// to it: a [`PostgresTableError`].
    pub fn open(self, schema: &SchemaRef) -> Result<Box<dyn ForecastSink>, WriteError> {
        Ok(Box::new(self.begin(schema)?))
    }

    fn begin(self, schema: &SchemaRef) -> Result<PostgresSink, PostgresTableError> {
        let columns = Columns::of(schema)?;
        let server = Server::new(&self.url, Arc::clone(&self.warn))?.stopped_by(self.stop.clone());
        // The rows may be hours away: nothing is kept waiting for them.
        shape::check(&mut WriteSession::begin(&server)?, &self.name, &columns)?;
        Ok(PostgresSink { table: self, server, columns, sending: Sending::NotBegun, rows: 0 })
    }
}

/// Nothing of the URL: it may hold a password.
impl fmt::Debug for PostgresTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresTable").field(&self.shown).finish()
    }
}

/// Forecasts on their way into a table.
struct PostgresSink {
    table: PostgresTable,
    server: Server,
    columns: Columns,
    sending: Sending,
    /// How many so far.
    rows: u64,
}

enum Sending {
    NotBegun,
    Running(Box<CopyWriter>),
    Failed,
}

impl PostgresSink {
    fn append(&mut self, rows: &RecordBatch) -> Result<(), PostgresTableError> {
        let mut writer = match mem::replace(&mut self.sending, Sending::Failed) {
            Sending::Running(writer) => writer,
            _ => Box::new(self.start()?),
        };
        BinaryRows::new(rows, &self.columns)?.write_to(&mut writer)?;
        self.sending = Sending::Running(writer);
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Begins the one transaction that all of it is.
    fn start(&self) -> Result<CopyWriter, PostgresTableError> {
        let mut session = WriteSession::begin(&self.server)?;
        session.run(&self.columns.staging_sql(), "make a temporary table")?;
        let copy = format!("COPY {STAGING} FROM STDIN (FORMAT binary)");
        let mut writer = session.copy_in(&copy, "the forecasts")?;
        writer.write(binary_rows::HEADER)?;
        Ok(writer)
    }

    fn complete(self) -> Result<(), PostgresTableError> {
        let Sending::Running(mut writer) = self.sending else { return Ok(()) };
        writer.write(binary_rows::TRAILER)?;
        let mut session = writer.finish()?;
        let PostgresTable { name, model, run, warn, .. } = &self.table;
        let merge = Merge { name, columns: &self.columns, rows: self.rows, model, run };
        let replaced = merge.run(&mut session)?;
        session.commit()?;
        if let Some(line) = replaced {
            warn(line);
        }
        Ok(())
    }
}

impl ForecastSink for PostgresSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
        if rows.num_rows() > 0 {
            self.append(rows)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Option<PathBuf>, WriteError> {
        let shown = self.table.shown.clone();
        self.complete()?;
        Ok(Some(shown.into()))
    }
}

/// What is said of a connection names the setting that mostly has its connection string.
fn of_the_output(line: &str) -> String {
    line.replace("source.url", "--output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_table_and_shows_no_password() {
        let check = |url: &str, table: &str, model: &str, shown: &str| {
            let found = PostgresTable::from_url(url, "lstm", "run").unwrap();
            assert_eq!((found.name.sql().as_str(), found.model.as_str()), (table, model), "{url}");
            assert_eq!(found.shown, shown);
            assert!(!format!("{found:?}").contains("hush"), "{found:?}");
        };
        check("postgres://u:hush@h/d?table=f", "\"f\"", "lstm", "postgres://u@h/d?table=f");
        check(
            "postgres://h/d?password=hush&table=s.f&model=mine&sslmode=disable",
            "\"s\".\"f\"",
            "mine",
            "postgres://h/d?sslmode=disable&table=s.f",
        );
        check("postgres://h/d?table=%22a.b%22", "\"a.b\"", "lstm", "postgres://h/d?table=a.b");
        check("Postgres://h/d?table=\"a\"\"B\"", "\"a\"\"B\"", "lstm", "Postgres://h/d?table=aB");
        let longest = "é".repeat(31) + "x";
        let url = format!("postgres://h/d?table={longest}.{longest}");
        check(&url, &format!("\"{longest}\".\"{longest}\""), "lstm", &url);
    }

    #[test]
    fn what_names_no_table_is_refused() {
        let check = |url: &str, expected: &str| {
            let error = PostgresTable::from_url(url, "m", "r").unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hush"), "{error}");
        };
        check("postgres://u:hush@h/d", "names no table; add ?table=NAME");
        check("postgres://h/d?table=", "\"\" is not the name of a table");
        check("postgres://h/d?table=a.b.c", "\"a.b.c\" is not the name of a table");
        check("postgres://u:hush@h/d?table=%zz", "--output is not a PostgreSQL connection string");
        check("postgres://u:hush@h/d?table=a&table=b", "--output sets table twice; leave one out");
        check("postgres://u:hush@h/d?table=a&model=", "--output sets model to nothing");
        // Bytes count, not letters.
        let long = "é".repeat(32);
        let cut = format!("{long:?} has 64 bytes and PostgreSQL keeps 63 of a name");
        check(&format!("postgres://h/d?table={long}"), &format!("table {cut}"));
        check(&format!("postgres://h/d?table={long}.f"), &format!("schema {cut}"));
    }
}
