//! [`WriteSession`]: one connection in a transaction that changes something: all of it, or nothing.
//!
//! What was done is there when [`WriteSession::commit`] says so; a session that is dropped before has
//! done nothing. Only beginning is tried again: nothing has been sent then that could be there twice.
//! What is written, and whose it was, is not known here.

use crate::{
    PostgresError, Session, copy_writer::CopyWriter, server::Server, session::settings_sql,
};
use std::time::Duration;

/// The first pause between two tries to begin; every other is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The last pause: a server that restarts is waited for, one that is gone is not.
const LAST_PAUSE: Duration = Duration::from_millis(1600);

/// A connection in a transaction that writes.
pub struct WriteSession {
    server: Server,
    session: Session,
}

impl WriteSession {
    /// Connects and starts the transaction; tries for some seconds where the server is not to be reached
    /// just now.
    ///
    /// # Errors
    /// Why there is no connection or no transaction, or [`PostgresError::Stopped`].
    pub fn begin(server: &Server) -> Result<Self, PostgresError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match WriteSession::try_begin(server) {
                Err(error) if error.is_transient() && pause <= LAST_PAUSE => {
                    server.pause(pause)?;
                    pause *= 2;
                }
                ended => return ended,
            }
        }
    }

    fn try_begin(server: &Server) -> Result<Self, PostgresError> {
        let session = Session::new(server, server.connect()?);
        let mut session = WriteSession { server: server.clone(), session };
        // Each statement sees what others have committed. Where the database says that it takes no
        // changes, that is not overruled.
        session.run("BEGIN ISOLATION LEVEL READ COMMITTED", "start a transaction")?;
        session.run(&settings_sql(server, &[("jit", "off")]), "prepare the transaction")?;
        Ok(session)
    }

    /// Runs statements that give no rows, or rows that nobody needs.
    ///
    /// # Errors
    /// What the server said to what is called `action`, or [`PostgresError::Stopped`].
    pub fn run(&mut self, sql: &str, action: &str) -> Result<(), PostgresError> {
        self.session.run(sql, action).map_err(|error| self.or_stopped(error))
    }

    /// Runs a statement that inserts or changes rows; gives how many it did.
    ///
    /// # Errors
    /// As for [`WriteSession::run`].
    pub fn change(&mut self, sql: &str, action: &str) -> Result<u64, PostgresError> {
        self.session.change(sql, action).map_err(|error| self.or_stopped(error))
    }

    /// The rows of a statement, as text.
    ///
    /// # Errors
    /// As for [`WriteSession::run`].
    pub fn text_rows(
        &mut self,
        sql: &str,
        action: &str,
    ) -> Result<Vec<Vec<Option<String>>>, PostgresError> {
        self.session.text_rows(sql, action).map_err(|error| self.or_stopped(error))
    }

    /// Sends a COPY whose rows for what is called `place` come from here. The session comes back from
    /// [`CopyWriter::finish`].
    ///
    /// # Errors
    /// What the server said, or [`PostgresError::Stopped`].
    pub fn copy_in(self, sql: &str, place: &str) -> Result<CopyWriter, PostgresError> {
        CopyWriter::start(self, sql, place)
    }

    /// Makes all that was done last.
    ///
    /// # Errors
    /// What the server said; nothing was done then. [`PostgresError::CommitLost`] when it is not there any
    /// more to say anything.
    pub fn commit(mut self) -> Result<(), PostgresError> {
        if self.server.is_stopped() {
            return Err(PostgresError::Stopped);
        }
        match self.session.run("COMMIT", "commit") {
            Err(PostgresError::Query { server, source, .. }) if is_unanswered(&source) => {
                Err(PostgresError::CommitLost { server, source })
            }
            ended => ended,
        }
    }

    /// Whether the connection string's `options` set a server parameter.
    #[must_use]
    pub fn sets_option(&self, name: &str) -> bool {
        self.server.sets_option(name)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn name(&self) -> String {
        self.server.name().to_owned()
    }

    /// A wait that was called off ends with the connection; that is not what went wrong.
    pub(crate) fn or_stopped(&self, error: PostgresError) -> PostgresError {
        if self.server.is_stopped() { PostgresError::Stopped } else { error }
    }
}

/// Whether a statement was ended without an answer to it: the connection broke, or the backend was told
/// to end (class 57), which it may have heard before or after.
fn is_unanswered(error: &postgres::Error) -> bool {
    error.code().is_none_or(|state| state.code().starts_with("57P"))
}
