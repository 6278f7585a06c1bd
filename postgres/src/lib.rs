//! A connection to PostgreSQL, and what comes over it.
//!
//! A [`Server`] is where a connection string leads: read as libpq reads it, the password found, the
//! certificates read, no connection yet. [`Server::connect`] gives a [`Wire`], tried at every host in
//! turn; in a [`Session`] it is a read-only transaction whose snapshot others can share, and from
//! which the rows of a COPY come as fast as the socket gives them. Whatever waits for a server ends
//! when the [`Hold`] of its [`Stop`] is dropped. What goes wrong is a [`PostgresError`], which knows
//! whether trying again may help.
//!
//! Deliberately not here: what a table, a row or a type means, how many connections there are, and
//! when to try again. No message of this crate shows a password.
//!
//! ```
//! use millstream_postgres::{PostgresError, Server, without_password};
//! use std::sync::Arc;
//!
//! let url = "postgres://ann:secret@localhost/market?sslmode=disable";
//! let server = Server::new(url, Arc::new(|line| eprintln!("{line}")))?;
//! assert_eq!(server.name(), "postgres://ann@localhost:5432/market");
//! assert_eq!(without_password(url), "postgres://ann@localhost/market?sslmode=disable");
//! // let session = Session::begin(&server, server.connect()?, None, None)?;
//! # Ok::<(), PostgresError>(())
//! ```

mod error;
mod gather;
mod parameters;
mod password;
mod plain_file;
mod quote;
mod server;
mod session;
mod socket;
mod stop;
mod tap;
mod tls;
mod wire;

pub use crate::{
    error::PostgresError,
    parameters::without_password,
    quote::{quote_name, quote_value},
    server::{Server, Warn, server_identity},
    session::Session,
    stop::{Hold, Stop},
    wire::{CancelToken, Wire},
};
/// What a server says of a statement's columns.
pub use postgres::{Column, Statement, types};
