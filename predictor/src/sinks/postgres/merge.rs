//! [`Merge`]: from the temporary table into that of the forecasts, in one transaction.
//!
//! Two who write at once take turns: each holds a lock from here to its end by which others may read the
//! table and not change it.

use super::{
    TableName,
    columns::{Column, Columns, is_key, key_sql},
    error::PostgresTableError,
    shape::{self, Found, literal},
};
use millstream_postgres::{PostgresError, SqlState, WriteSession, quote_name};

/// Where rows wait until all have come. Temporary tables have a schema of their own.
pub(super) const STAGING: &str = "pg_temp.millstream_forecasts";

/// What says how long to wait for somebody else who changes the table, unless the URL's options do.
const LOCK_TIMEOUT: &str = "lock_timeout";
const PATIENCE: &str = "60s";

/// Rows to be merged into a table, and whose they are.
pub(super) struct Merge<'a> {
    pub(super) name: &'a TableName,
    pub(super) columns: &'a Columns,
    /// How many there are.
    pub(super) rows: u64,
    pub(super) model: &'a str,
    pub(super) run: &'a str,
}

impl Merge<'_> {
    /// Does all but commit; gives what a person should be told when that is done.
    ///
    /// # Errors
    /// The table does not fit any more, or the server does not do it.
    pub(super) fn run(
        &self,
        session: &mut WriteSession,
    ) -> Result<Option<String>, PostgresTableError> {
        let table = self.name.sql();
        if !session.sets_option(LOCK_TIMEOUT) {
            let set = format!("SELECT set_config('{LOCK_TIMEOUT}', '{PATIENCE}', true)");
            session.run(&set, "say how long to wait")?;
        }
        if shape::check_fit(session, self.name, self.columns)? == Found::Nothing
            && self.create(session, &table)?
        {
            self.insert(session, &table, &self.insert_sql(&table)?)?;
            // Cheaper than row by row, and the same in the end.
            let key = format!("ALTER TABLE {table} ADD PRIMARY KEY ({})", key_sql());
            session.run(&key, "make the key of the table").map_err(twice)?;
            return Ok(None);
        }
        let lock = format!("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE");
        session.run(&lock, "lock the table").map_err(|error| self.locked(error))?;
        // Until now others could change it.
        if shape::check_fit(session, self.name, self.columns)? == Found::Nothing {
            return Err(PostgresTableError::NoTableThere { table, found: "gone" });
        }
        session.run(&format!("ANALYZE {STAGING}"), "look at the forecasts")?;
        let replaced = self.replaced(session, &table)?;
        let left_out = shape::left_out(session, self.name, self.columns)?;
        let change = format!("{} {}", self.insert_sql(&table)?, self.conflict_sql(&left_out));
        self.insert(session, &table, &change)?;
        Ok(replaced)
    }

    /// Inserts all rows: the table's own triggers and rules could leave some out without a word.
    fn insert(
        &self,
        session: &mut WriteSession,
        table: &str,
        sql: &str,
    ) -> Result<(), PostgresTableError> {
        let (kept, sent) = (session.change(sql, "insert the forecasts")?, self.rows);
        match kept == sent {
            true => Ok(()),
            false => Err(PostgresTableError::NotKept { table: table.to_owned(), kept, sent }),
        }
    }

    /// Makes the table, unless another one has just done so. One who comes at the same time waits here.
    fn create(&self, session: &mut WriteSession, table: &str) -> Result<bool, PostgresTableError> {
        let turn = format!(
            "SELECT pg_advisory_xact_lock(hashtext('millstream'), hashtext({}))",
            literal(table)?
        );
        session.run(&turn, "wait for its turn").map_err(|error| self.locked(error))?;
        if shape::check_fit(session, self.name, self.columns)? == Found::Table {
            return Ok(false);
        }
        session.run(&self.columns.table_sql(table), "make the table")?;
        Ok(true)
    }

    /// All rows, in the order of the key: an index takes them faster so.
    fn insert_sql(&self, table: &str) -> Result<String, PostgresTableError> {
        let mut values = Vec::new();
        let mut names = Vec::new();
        for Column { name, .. } in self.columns.all() {
            let quoted = quote_name(&name);
            values.push(match name.as_str() {
                "series" if !self.columns.with_series => "''".to_owned(),
                "model" => literal(self.model)?,
                "run" => literal(self.run)?,
                "created_at" => "statement_timestamp()".to_owned(),
                _ => format!("s.{quoted}"),
            });
            names.push(quoted);
        }
        let series = if self.columns.with_series { "s.series, " } else { "" };
        Ok(format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {STAGING} s ORDER BY {series}s.\"time\", s.step",
            names.join(", "),
            values.join(", ")
        ))
    }

    /// A row that is replaced keeps nothing of what another forecast had said beside it.
    fn conflict_sql(&self, left_out: &[String]) -> String {
        let others = self.columns.all().filter(|column| !is_key(&column.name));
        let given = others.map(|column| {
            let name = quote_name(&column.name);
            format!("{name} = EXCLUDED.{name}")
        });
        let emptied = left_out.iter().map(|name| format!("{} = DEFAULT", quote_name(name)));
        let set = given.chain(emptied).collect::<Vec<_>>().join(", ");
        format!("ON CONFLICT ({}) DO UPDATE SET {set}", key_sql())
    }

    /// What to say of forecasts of another run that are about to be replaced.
    fn replaced(
        &self,
        session: &mut WriteSession,
        table: &str,
    ) -> Result<Option<String>, PostgresTableError> {
        // Both tables' texts, whatever rules either compares them by.
        let series = if self.columns.with_series { "s.series" } else { "''" };
        let sql = format!(
            "SELECT count(*), count(DISTINCT t.run), min(t.run) FROM {table} t JOIN {STAGING} s \
             ON t.series = {series} COLLATE \"C\" AND t.\"time\" = s.\"time\" AND t.step = s.step \
             WHERE t.model = {} COLLATE \"C\" AND t.run <> {} COLLATE \"C\"",
            literal(self.model)?,
            literal(self.run)?
        );
        let rows = session.text_rows(&sql, "look for forecasts of other runs")?;
        let row = rows.into_iter().next().unwrap_or_default();
        let mut texts = row.into_iter().flatten();
        let (Some(count), Some(runs), Some(run)) = (texts.next(), texts.next(), texts.next())
        else {
            return Ok(None);
        };
        let whose = if runs == "1" { format!("run {run}") } else { format!("{runs} other runs") };
        let model = self.model;
        Ok(Some(format!(
            "{count} forecasts of {whose} by the name of model {model:?} were replaced in table {table}; to keep those of both, name this one by &model=NAME in --output"
        )))
    }

    fn locked(&self, error: PostgresError) -> PostgresTableError {
        match error.state() {
            Some(state) if *state == SqlState::LOCK_NOT_AVAILABLE => {
                PostgresTableError::Locked { table: self.name.sql() }
            }
            _ => error.into(),
        }
    }
}

/// Two rows with one key, as the making of the key meets them.
fn twice(error: PostgresError) -> PostgresTableError {
    match error.state() {
        Some(state) if *state == SqlState::UNIQUE_VIOLATION => PostgresTableError::Twice(error),
        _ => error.into(),
    }
}
