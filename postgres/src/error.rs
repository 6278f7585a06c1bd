//! [`PostgresError`]: everything that can go wrong between here and a server.
//!
//! `server` is user, host, port and database. No variant ever holds a connection string, so that no
//! message can show a password.

use postgres::error::SqlState;
use std::{error::Error, io};

/// Why a server could not be reached, or did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The connection string does not parse. What is wrong is said without quoting it, as any piece
    /// of it may be one of a password.
    #[error(
        "source.url is not a PostgreSQL connection string: {problem}; expected postgres://user@host:5432/database"
    )]
    Url {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A URL sets a key that nobody knows.
    #[error(
        "source.url is not a PostgreSQL connection string: it sets the key {key}, which does not exist; expected postgres://user@host:5432/database"
    )]
    UrlNoKey {
        /// The key.
        key: String,
    },
    /// A URL sets a key twice that is to have one value.
    #[error("source.url sets {key} twice; leave one out")]
    UrlKeyTwice {
        /// The key.
        key: String,
    },
    /// The connection string sets a key that libpq has, and that is not supported here.
    #[error("source.url sets {key}, which is not supported; {instead}")]
    UrlKey {
        /// The key.
        key: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// The connection string sets a key to something that cannot be used.
    #[error("source.url sets {key} to what cannot be used; expected {expected}")]
    UrlValue {
        /// The key.
        key: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// The certificates to check a server by cannot be read.
    #[error(
        "cannot read certificates from {place}; set sslrootcert in source.url to a PEM file with the certificate of the authority that signed the server's"
    )]
    RootCertificates {
        /// The file, or the system's store.
        place: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The connection must be encrypted and the server cannot do that.
    #[error(
        "{server} does not offer TLS, which source.url requires; switch it on there (ssl = on), or set sslmode=prefer if you trust the network"
    )]
    ServerWithoutTls {
        /// User, host, port and database.
        server: String,
    },
    /// The server's certificate is signed by nobody we know.
    #[error(
        "the certificate of {server} is not signed by an authority in {roots}; set sslrootcert in source.url to the PEM file of the authority that signed it"
    )]
    UnknownAuthority {
        /// User, host, port and database.
        server: String,
        /// Where the known authorities are from.
        roots: String,
        /// What the handshake said.
        source: postgres::Error,
    },
    /// The server's certificate is for another host.
    #[error(
        "the certificate of {server} is for another host; use a host name that it lists in source.url, or set sslmode=verify-ca to accept any host of its authority"
    )]
    CertificateName {
        /// User, host, port and database.
        server: String,
        /// What the handshake said.
        source: postgres::Error,
    },
    /// The TLS handshake failed for another reason.
    #[error(
        "cannot set up TLS with {server}; mend there what the reason says, or ask for less in source.url: sslmode=require checks no certificate, sslmode=disable does not encrypt"
    )]
    Handshake {
        /// User, host, port and database.
        server: String,
        /// What the handshake said.
        source: postgres::Error,
    },
    /// The server wants a password and there is none.
    #[error(
        "{server} asks for a password and there is none; set PGPASSWORD, or add a line to ~/.pgpass (mode 600)"
    )]
    PasswordMissing {
        /// User, host, port and database.
        server: String,
    },
    /// The server takes connections and then says nothing.
    #[error(
        "{server} does not answer; is it a PostgreSQL server, and not stuck? connect_timeout in source.url says how many seconds to wait"
    )]
    NoAnswer {
        /// User, host, port and database.
        server: String,
    },
    /// The server cannot be reached.
    #[error("cannot connect to {server}")]
    Unreachable {
        /// User, host, port and database.
        server: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The server refuses, or says what makes no sense.
    #[error("cannot connect to {server}")]
    Connect {
        /// User, host, port and database.
        server: String,
        /// What went wrong.
        source: postgres::Error,
    },
    /// The server refused a statement.
    #[error("{server} could not {action}")]
    Query {
        /// User, host, port and database.
        server: String,
        /// What was asked of it.
        action: String,
        /// What it said.
        source: postgres::Error,
    },
    /// The row stream broke off.
    #[error("{server} stopped sending rows of {place}")]
    Stream {
        /// User, host, port and database.
        server: String,
        /// Table or query.
        place: String,
        /// What went wrong.
        source: postgres::Error,
    },
    /// A COPY to the server broke off.
    #[error("{server} did not take the rows of {place}")]
    NotTaken {
        /// User, host, port and database.
        server: String,
        /// What they were for.
        place: String,
        /// What went wrong.
        source: postgres::Error,
    },
    /// The connection broke while a transaction was committed.
    #[error(
        "the connection to {server} broke while it committed, so whether that was done is not known: it has all of the new rows or none of them"
    )]
    CommitLost {
        /// User, host, port and database.
        server: String,
        /// What went wrong.
        source: postgres::Error,
    },
    /// A table is emptied or rewritten whenever it is looked at.
    #[error(
        "{table} was rewritten or emptied each time its rows were to be read; try again when nothing does that any more"
    )]
    Rewritten {
        /// The table.
        table: String,
    },
    /// Connections cannot be made to see the same snapshot.
    #[error(
        "{server} does not let several connections share one snapshot, or ended all of them again and again; connect to the server itself and not to a pooler or a group of servers, or set source.connections = 1"
    )]
    Snapshot {
        /// User, host, port and database.
        server: String,
        /// What went wrong last.
        source: Option<Box<PostgresError>>,
    },
    /// Whoever holds the other end of its [`Stop`](crate::Stop) called the wait off.
    #[error("the wait for the server was called off")]
    Stopped,
}

impl PostgresError {
    /// Whether the connection string is wrong, whatever the server is.
    #[must_use]
    pub fn is_setting(&self) -> bool {
        use PostgresError::{Url, UrlKey, UrlKeyTwice, UrlNoKey, UrlValue};
        matches!(
            self,
            Url { .. } | UrlKey { .. } | UrlKeyTwice { .. } | UrlNoKey { .. } | UrlValue { .. }
        )
    }

    /// Whether trying again may help: the connection broke, or the server ended it or the statement
    /// for reasons of its own.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let Some(error) = self.server_error() else {
            return matches!(
                self,
                PostgresError::NoAnswer { .. } | PostgresError::Unreachable { .. }
            );
        };
        let Some(state) = error.code() else {
            // No answer from the server at all: the connection was refused, cut or timed out.
            return error.is_closed() || error.source().is_some_and(is_io);
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

    /// Whether the server cancelled a statement, for a timeout or because somebody asked it to.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state() == Some(&SqlState::QUERY_CANCELED)
    }

    /// The code the server gave for it, if it is an error of the server's.
    #[must_use]
    pub fn state(&self) -> Option<&SqlState> {
        self.server_error()?.code()
    }

    /// What the server said, or the connection, if it is an error of theirs.
    fn server_error(&self) -> Option<&postgres::Error> {
        match self {
            PostgresError::Connect { source, .. }
            | PostgresError::Handshake { source, .. }
            | PostgresError::NotTaken { source, .. }
            | PostgresError::Query { source, .. }
            | PostgresError::Stream { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Whether the connection failed, rather than what came over it made no sense.
fn is_io(cause: &(dyn Error + 'static)) -> bool {
    let cause = cause.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidData)
}

/// An error and its causes in one line, for a warning: a person sees no chain of sources.
pub(crate) fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
