//! [`CopyWriter`]: the data of a COPY, as it is made.
//!
//! Data goes out in chunks, and whoever writes waits while the server is behind: some chunks are in memory,
//! however much is written. What the data means is not known here.

use crate::{PostgresError, write_session::WriteSession};
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use std::pin::Pin;
use tokio_postgres::CopyInSink;

/// Bytes to send at once.
const CHUNK: usize = 64 << 10;

/// Writes the data of a COPY. Dropped before [`CopyWriter::finish`], it ends the transaction with nothing
/// done.
pub struct CopyWriter {
    // Dropped before the session, which then can tell the server that no more will come.
    sink: Pin<Box<CopyInSink<Bytes>>>,
    session: WriteSession,
    place: String,
    chunk: BytesMut,
}

impl CopyWriter {
    pub(crate) fn start(
        session: WriteSession,
        sql: &str,
        place: &str,
    ) -> Result<Self, PostgresError> {
        let connection = session.session().connection();
        let started = connection.runtime().block_on(connection.client().copy_in(sql));
        let sink = started.map_err(|source| {
            let action = format!("start copying into {place}");
            session.or_stopped(PostgresError::Query { server: session.name(), action, source })
        })?;
        let chunk = BytesMut::with_capacity(CHUNK);
        Ok(CopyWriter { sink: Box::pin(sink), session, place: place.to_owned(), chunk })
    }

    /// Appends data, in pieces of any size; waits while the server is behind.
    ///
    /// # Errors
    /// The connection broke. What the server does not like about the data, [`CopyWriter::finish`] says.
    pub fn write(&mut self, mut data: &[u8]) -> Result<(), PostgresError> {
        while self.chunk.len() + data.len() >= CHUNK {
            let (now, later) = data.split_at(CHUNK - self.chunk.len());
            self.chunk.extend_from_slice(now);
            data = later;
            self.send()?;
        }
        self.chunk.extend_from_slice(data);
        Ok(())
    }

    /// All data has been written: waits until the server has it, and gives the session back.
    ///
    /// # Errors
    /// What the server said: it has no room, or the data is not what it expects.
    pub fn finish(mut self) -> Result<WriteSession, PostgresError> {
        self.send()?;
        let connection = self.session.session().connection();
        match connection.runtime().block_on(self.sink.as_mut().finish()) {
            Ok(_) => Ok(self.session),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn send(&mut self) -> Result<(), PostgresError> {
        let chunk = self.chunk.split().freeze();
        self.chunk.reserve(CHUNK);
        let connection = self.session.session().connection();
        let sent = connection.runtime().block_on(self.sink.send(chunk));
        sent.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: postgres::Error) -> PostgresError {
        let (server, place) = (self.session.name(), self.place.clone());
        self.session.or_stopped(PostgresError::NotTaken { server, place, source })
    }
}
