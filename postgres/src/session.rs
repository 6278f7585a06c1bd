//! [`Session`]: one connection in a read-only transaction that sees the shared snapshot.
//!
//! The first session takes a snapshot; every other adopts one that a living session has exported.
//! Sessions export the snapshot before they read, long before anyone might need it: one that is
//! busy copying cannot be asked. What to read, and what to do about errors, is not known here.

use crate::{
    PostgresError,
    connection::{CancelToken, Connection},
    copy_reader::CopyReader,
    quote::quote_value,
    server::Server,
};
use postgres::{SimpleQueryMessage, Statement, error::SqlState};

/// Limits of the server that would end a long read, lifted as `pg_dump` lifts them, unless the user
/// wrote them into the connection string.
const LIMITS: [&str; 3] =
    ["statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"];

/// What would make the same SELECT give its rows in another order each time (scans that start where
/// another one is, parallel plans), cost more than it saves, or write keys ambiguously.
const SETTINGS: [(&str, &str); 4] = [
    ("synchronize_seqscans", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("jit", "off"),
    ("datestyle", "ISO"),
];

/// How often to take another snapshot of a table that was rewritten meanwhile.
const START_TRIES: u32 = 10;

/// A connection in the snapshot.
pub struct Session {
    server: Server,
    connection: Connection,
}

impl Session {
    /// Starts the transaction: with a snapshot of its own, or one that is there.
    ///
    /// A table named by `lock` is kept from being rewritten or emptied from before the snapshot is
    /// taken: such changes do not keep to snapshots.
    pub fn begin(
        server: &Server,
        connection: Connection,
        lock: Option<&str>,
        snapshot: Option<&str>,
    ) -> Result<Self, PostgresError> {
        let mut session = Session::new(server, connection);
        session.start(lock, snapshot)?;
        Ok(session)
    }

    /// A connection in no transaction yet.
    pub fn new(server: &Server, connection: Connection) -> Self {
        Session { server: server.clone(), connection }
    }

    /// Starts the transaction.
    pub fn start(
        &mut self,
        lock: Option<&str>,
        snapshot: Option<&str>,
    ) -> Result<(), PostgresError> {
        let mut tries = 0;
        loop {
            let locked = self.try_start(lock, snapshot)?;
            let (Some(table), false, None) = (lock, locked, snapshot) else { return Ok(()) };
            tries += 1;
            if !self.was_rewritten(table)? {
                return Ok(());
            }
            if tries == START_TRIES {
                return Err(PostgresError::Rewritten { table: table.to_owned() });
            }
            self.run("ROLLBACK", "take another snapshot")?;
        }
    }

    /// Starts the transaction; says whether the table, if there is one to lock, is locked.
    fn try_start(
        &mut self,
        lock: Option<&str>,
        snapshot: Option<&str>,
    ) -> Result<bool, PostgresError> {
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "start a transaction")?;
        let locked = lock.map_or(Ok(true), |table| self.lock(table))?;
        if let Some(snapshot) = snapshot {
            // The name is the server's own: digits and dashes.
            let adopt = format!("SET TRANSACTION SNAPSHOT '{snapshot}'");
            self.run(&adopt, "adopt the snapshot of another connection")
                .map_err(|error| gone(&self.server, error))?;
        }
        self.run(&settings_sql(&self.server, &SETTINGS), "prepare the transaction")?;
        Ok(locked)
    }

    /// Locks a table against being rewritten; says whether it did. Some kinds cannot be locked, a
    /// role with rights to some of the columns may not, and a table that is not there is reported
    /// when it is described: all that is left to what comes next.
    fn lock(&mut self, table: &str) -> Result<bool, PostgresError> {
        self.try_table(&format!("LOCK TABLE {table} IN ACCESS SHARE MODE"))
    }

    /// Looks at a table that could not be locked before the snapshot was taken, which locks it as
    /// well and needs the right to one column only; says whether it, or a part of it, was rewritten
    /// or emptied in between: the snapshot does not show that, but its rows are gone from it.
    fn was_rewritten(&mut self, table: &str) -> Result<bool, PostgresError> {
        if !self.try_table(&format!("SELECT FROM {table} LIMIT 0"))? {
            return Ok(false);
        }
        // The catalogue is read in the snapshot, the function tells what is so now.
        let changed = format!(
            "WITH RECURSIVE part (oid) AS (SELECT to_regclass({})::oid \
               UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid) \
             SELECT 1 FROM part JOIN pg_class c ON c.oid = part.oid \
             WHERE c.relfilenode <> pg_relation_filenode(c.oid) LIMIT 1",
            quote_value(table).expect("statements with the name have run")
        );
        Ok(!self.text_rows(&changed, "look whether the table was rewritten")?.is_empty())
    }

    /// Runs a statement about a table; says whether that worked. It is as if it had not been run
    /// where the table is the reason why not.
    fn try_table(&mut self, sql: &str) -> Result<bool, PostgresError> {
        let done = match self.connection.batch_execute(&format!("SAVEPOINT unlocked; {sql}")) {
            Ok(()) => true,
            Err(error) if error.code().is_some_and(is_about_the_table) => false,
            Err(error) => return Err(self.refused("lock the table", error)),
        };
        let undo = if done { "" } else { "ROLLBACK TO SAVEPOINT unlocked; " };
        self.run(&format!("{undo}RELEASE SAVEPOINT unlocked"), "go on after locking the table")?;
        Ok(done)
    }

    /// Makes the snapshot available to other connections, for as long as this one lives.
    pub fn export(&mut self) -> Result<String, PostgresError> {
        self.text_rows("SELECT pg_export_snapshot()", "export its snapshot")?
            .pop()
            .and_then(|mut row| row.pop().flatten())
            .ok_or_else(|| PostgresError::Snapshot { server: self.name(), source: None })
    }

    /// Runs statements that give no rows, or rows that nobody needs.
    pub fn run(&mut self, sql: &str, action: &str) -> Result<(), PostgresError> {
        self.connection.batch_execute(sql).map_err(|source| self.refused(action, source))
    }

    /// Runs a statement that changes rows; gives how many it did.
    pub fn change(&mut self, sql: &str, action: &str) -> Result<u64, PostgresError> {
        let messages = self.connection.simple_query(sql).map_err(|e| self.refused(action, e))?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        Ok(counts.sum())
    }

    /// The rows of a statement, as text.
    pub fn text_rows(
        &mut self,
        sql: &str,
        action: &str,
    ) -> Result<Vec<Vec<Option<String>>>, PostgresError> {
        let messages = self.connection.simple_query(sql).map_err(|e| self.refused(action, e))?;
        let mut rows = Vec::new();
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let text = |column| row.try_get(column).map(|text| text.map(str::to_owned));
            let texts: Result<_, _> = (0..row.len()).map(text).collect();
            rows.push(texts.map_err(|source| self.refused(action, source))?);
        }
        Ok(rows)
    }

    /// Prepares a statement, for its columns.
    pub fn describe(&mut self, sql: &str, action: &str) -> Result<Statement, PostgresError> {
        self.connection.prepare(sql).map_err(|source| self.refused(action, source))
    }

    /// Sends a COPY of what `place` names. A reader that is dropped before its end leaves a server
    /// that is still sending: the session is of no more use then, and dropping it takes the time
    /// that the rest takes, unless it is cancelled.
    ///
    /// # Errors
    /// What the server said.
    pub fn copy_out(&mut self, sql: &str, place: &str) -> Result<CopyReader<'_>, PostgresError> {
        CopyReader::start(&self.connection, sql, self.server.name(), place)
    }

    /// Says what a person should know.
    pub fn warn(&self, line: String) {
        self.server.warn(line);
    }

    /// What ends the running statement from another connection.
    pub fn cancel_token(&self) -> CancelToken {
        self.connection.cancel_token()
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn name(&self) -> String {
        self.server.name().to_owned()
    }

    fn refused(&self, action: &str, source: postgres::Error) -> PostgresError {
        PostgresError::Query { server: self.name(), action: action.to_owned(), source }
    }
}

/// What sets these for the transaction, and lifts the limits that the user did not set.
pub(crate) fn settings_sql(server: &Server, settings: &[(&str, &str)]) -> String {
    let lifted = LIMITS.iter().filter(|name| !server.sets_option(name)).map(|name| (*name, "0"));
    let wanted = lifted.chain(settings.iter().copied());
    let wanted: Vec<String> =
        wanted.map(|(name, value)| format!("('{name}', '{value}')")).collect();
    // Servers that do not know one of them skip it.
    format!(
        "SELECT set_config(name, value, true) FROM (VALUES {}) AS wanted (name, value) \
         WHERE name IN (SELECT lower(s.name) FROM pg_settings s)",
        wanted.join(", ")
    )
}

/// Whether an error is about what a name means, or may be done with it.
fn is_about_the_table(state: &SqlState) -> bool {
    // Class 42: no such table, not one that can be locked, no right to it.
    state.code().starts_with("42") || *state == SqlState::INVALID_SCHEMA_NAME
}

/// An error of adopting a snapshot that is no longer there, or not on this server, as such.
fn gone(server: &Server, error: PostgresError) -> PostgresError {
    const GONE: [SqlState; 3] = [
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        SqlState::UNDEFINED_OBJECT,
    ];
    match error.state() {
        Some(state) if GONE.contains(state) => PostgresError::Snapshot {
            server: server.name().to_owned(),
            source: Some(Box::new(error)),
        },
        _ => error,
    }
}
