//! [`Session`]: one connection in a read-only transaction that sees the shared snapshot.
//!
//! The first session takes a snapshot; every other adopts one that a living session has exported.
//! A session exports its snapshot as soon as it has it, long before anyone might need it: one that
//! is busy copying cannot be asked. What to read, and what to do about errors, is not known here.

use super::server::Server;
use crate::{
    LoadError,
    copy::{CopyDecoder, DecodeRow},
};
use ::postgres::{CancelToken, Client, SimpleQueryMessage, Statement, error::SqlState};
use std::{io::BufRead, ops::ControlFlow};

/// Settings of the server that would end or distort a long read, as `pg_dump` sets them, and what
/// they become. Scans that start where another one is, and parallel plans, would give the rows of
/// a query in another order each time. Servers that do not know one of them skip it.
const SETTINGS: [(&str, &str); 7] = [
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("transaction_timeout", "0"),
    ("synchronize_seqscans", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("jit", "off"),
    // Keys are read as text and written back as literals.
    ("datestyle", "ISO"),
];

/// A connection in the snapshot.
pub(crate) struct Session {
    server: Server,
    client: Client,
}

impl Session {
    /// Starts the transaction: with a snapshot of its own, or one that is there.
    pub(crate) fn begin(
        server: &Server,
        client: Client,
        snapshot: Option<&str>,
    ) -> Result<Self, LoadError> {
        let mut session = Session { server: server.clone(), client };
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "start a transaction")?;
        if let Some(snapshot) = snapshot {
            // The name is the server's own: digits and dashes.
            let adopt = format!("SET TRANSACTION SNAPSHOT '{snapshot}'");
            session.run(&adopt, "adopt the snapshot of another connection")?;
        }
        let wanted: Vec<String> = SETTINGS
            .iter()
            // A limit that the user wrote into the connection string is meant.
            .filter(|(name, _)| !server.sets_option(name))
            .map(|(name, value)| format!("('{name}', '{value}')"))
            .collect();
        let set = format!(
            "SELECT set_config(name, value, true) FROM (VALUES {}) AS wanted (name, value) \
             WHERE name IN (SELECT lower(s.name) FROM pg_settings s)",
            wanted.join(", ")
        );
        session.run(&set, "prepare the transaction")?;
        Ok(session)
    }

    /// Makes the snapshot available to other connections, for as long as this one lives.
    pub(crate) fn export(&mut self) -> Result<String, LoadError> {
        self.text_rows("SELECT pg_export_snapshot()", "export its snapshot")?
            .pop()
            .and_then(|mut row| row.pop().flatten())
            .ok_or_else(|| LoadError::Snapshot { server: self.name(), source: None })
    }

    /// Runs statements that give no rows, or rows that nobody needs.
    pub(crate) fn run(&mut self, sql: &str, action: &str) -> Result<(), LoadError> {
        self.client.batch_execute(sql).map_err(|source| self.refused(action, source))
    }

    /// The rows of a statement, as text.
    pub(crate) fn text_rows(
        &mut self,
        sql: &str,
        action: &str,
    ) -> Result<Vec<Vec<Option<String>>>, LoadError> {
        let messages = self.client.simple_query(sql).map_err(|e| self.refused(action, e))?;
        let row = |message: SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Prepares a statement, for its columns.
    pub(crate) fn describe(&mut self, sql: &str, action: &str) -> Result<Statement, LoadError> {
        self.client.prepare(sql).map_err(|source| self.refused(action, source))
    }

    /// Sends a COPY and decodes what comes. `each` is called after every message with its length,
    /// and may end the copy early.
    ///
    /// When this fails or ends early, the server may still be sending: the session is of no more
    /// use, and dropping it takes the time that the rest takes, unless it is cancelled.
    pub(crate) fn copy<R: DecodeRow>(
        &mut self,
        sql: &str,
        rows: R,
        mut each: impl FnMut(&mut CopyDecoder<R>, usize) -> ControlFlow<()>,
    ) -> Result<CopyDecoder<R>, LoadError> {
        let place = rows.columns().place.clone();
        let mut decoder = CopyDecoder::new(rows);
        let server = &self.server;
        let mut stream = self.client.copy_out(sql).map_err(|source| LoadError::Query {
            server: server.name().to_owned(),
            action: format!("start copying {place}"),
            source,
        })?;
        loop {
            let bytes = stream.fill_buf().map_err(|source| LoadError::Stream {
                server: server.name().to_owned(),
                place: place.clone(),
                source,
            })?;
            let length = bytes.len();
            if length == 0 {
                return Ok(decoder);
            }
            decoder.feed(bytes)?;
            stream.consume(length);
            if each(&mut decoder, length).is_break() {
                return Ok(decoder);
            }
        }
    }

    /// What ends the running statement from another connection.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn name(&self) -> String {
        self.server.name().to_owned()
    }

    fn refused(&self, action: &str, source: ::postgres::Error) -> LoadError {
        LoadError::Query { server: self.name(), action: action.to_owned(), source }
    }
}

/// What the server said, or the connection, if an error is one of theirs.
fn server_error(error: &LoadError) -> Option<&::postgres::Error> {
    match error {
        LoadError::Connect { source, .. } | LoadError::Query { source, .. } => Some(source),
        LoadError::Stream { source, .. } => source.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// Whether trying again may help: the connection broke, or the server ended it or the statement
/// for reasons of its own.
pub(crate) fn is_transient(error: &LoadError) -> bool {
    let Some(error) = server_error(error) else {
        return matches!(error, LoadError::Stream { .. });
    };
    let Some(state) = error.code() else {
        // No answer from the server at all: the connection was refused, cut or timed out.
        return error.is_closed() || std::error::Error::source(error).is_some_and(is_io);
    };
    const AGAIN: [SqlState; 9] = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::QUERY_CANCELED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::IDLE_SESSION_TIMEOUT,
    ];
    // Class 08 is connection exceptions.
    AGAIN.contains(state) || state.code().starts_with("08")
}

fn is_io(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<std::io::Error>()
}

/// Whether a snapshot that was to be adopted is no longer there.
pub(crate) fn is_snapshot_gone(error: &LoadError) -> bool {
    const GONE: [SqlState; 3] = [
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        SqlState::UNDEFINED_OBJECT,
    ];
    server_error(error).and_then(::postgres::Error::code).is_some_and(|state| GONE.contains(state))
}
