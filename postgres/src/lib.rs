//! A connection to PostgreSQL, and what comes over it.
//!
//! A [`Server`] is where a connection string leads: read as libpq reads it, the password found, the
//! certificates read, no connection yet. [`Server::connect`] gives a [`Connection`], tried at every
//! host in turn; in a [`Session`] it is a read-only transaction whose snapshot others can share, and a
//! [`CopyReader`] gives the data of a COPY straight from the socket's buffer. A [`WriteSession`] is a
//! transaction that writes, and a [`CopyWriter`] sends it the data of a COPY. Whatever waits for a server ends
//! when the [`Hold`] of its [`Stop`] is dropped. What goes wrong is a [`PostgresError`], which knows
//! whether trying again may help.
//!
//! Deliberately not here: what a table, a row or a type means, how many connections there are, and
//! when to try again, but for beginning to write. No message of this crate shows a password.
//!
//! ```
//! use millstream_postgres::{PostgresError, Server, without_password};
//! use std::sync::Arc;
//!
//! let url = "postgres://ann:secret@localhost/market?sslmode=disable";
//! let server = Server::new(url, Arc::new(|line: String| eprintln!("{line}")))?;
//! assert_eq!(server.name(), "postgres://ann@localhost:5432/market");
//! assert_eq!(without_password(url), "postgres://ann@localhost/market?sslmode=disable");
//! // let session = Session::begin(&server, server.connect()?, None, None)?;
//! # Ok::<(), PostgresError>(())
//! ```

mod connection;
mod connection_string;
mod copy_reader;
mod copy_splitter;
mod copy_writer;
mod error;
mod message_buffer;
mod password;
mod plain_file;
mod quote;
mod read_pacing;
mod server;
mod session;
mod socket;
mod stop;
mod target;
mod tls;
mod write_session;

pub use crate::{
    connection::{CancelToken, Connection},
    connection_string::{is_url, take_keys, without_password},
    copy_reader::CopyReader,
    copy_writer::CopyWriter,
    error::PostgresError,
    quote::{name_parts, quote_name, quote_value},
    server::{Server, Warn},
    session::Session,
    stop::{Hold, Stop},
    target::server_identity,
    write_session::WriteSession,
};
/// What a server says of a statement's columns.
pub use postgres::{Column, Statement, error::SqlState, types};
