//! [`CopyReader`]: the data of a COPY, as it comes.
//!
//! What there is of it is given message by message without asking anybody; only when that is used up
//! is the runtime entered, to wait for more. What to do with the data is not known here.

use crate::{
    PostgresError, connection::Connection, copy_splitter::CopyData, read_pacing::ReadPacing,
};
use bytes::Bytes;
use futures_util::{Stream, future::poll_immediate};
use std::{collections::VecDeque, future::poll_fn, pin::Pin, task::Poll, thread};
use tokio::task::yield_now;
use tokio_postgres::CopyOutStream;

/// Bytes of encrypted data to have at once.
const DECRYPTED: usize = 64 << 10;

/// Reads the data of a COPY.
pub struct CopyReader<'a> {
    connection: &'a Connection,
    server: &'a str,
    place: String,
    /// Where data comes from that is not encrypted.
    data: CopyData<'a>,
    /// Where the other comes from, and how the COPY ended.
    stream: Pin<Box<CopyOutStream>>,
    decrypted: VecDeque<Bytes>,
    message: Bytes,
    pacing: ReadPacing,
    ended: bool,
}

/// What a COPY brings.
enum Next<M> {
    /// Data that can be taken.
    Data,
    /// Data that was decrypted, or how the COPY ended.
    Message(M),
}

impl<'a> CopyReader<'a> {
    pub(crate) fn start(
        connection: &'a Connection,
        sql: &str,
        server: &'a str,
        place: &str,
    ) -> Result<Self, PostgresError> {
        let data = connection.data().open();
        let started = connection.runtime().block_on(connection.client().copy_out(sql));
        let stream = started.map_err(|source| PostgresError::Query {
            server: server.to_owned(),
            action: format!("start copying {place}"),
            source,
        })?;
        Ok(CopyReader {
            connection,
            server,
            place: place.to_owned(),
            data,
            stream: Box::pin(stream),
            decrypted: VecDeque::new(),
            message: Bytes::new(),
            pacing: ReadPacing::new(),
            ended: false,
        })
    }

    /// The data of the next message, or a piece of it; `None` at the end.
    ///
    /// # Errors
    /// When the stream breaks.
    pub fn read(&mut self) -> Result<Option<&[u8]>, PostgresError> {
        loop {
            if let Some(found) = self.data.take() {
                self.pacing.read(found.len());
                return Ok(Some(self.data.bytes(found)));
            }
            if let Some(message) = self.decrypted.pop_front() {
                self.message = message;
                return Ok(Some(&self.message));
            }
            if self.ended {
                return Ok(None);
            }
            self.wait().map_err(|source| PostgresError::Stream {
                server: self.server.to_owned(),
                place: self.place.clone(),
                source,
            })?;
        }
    }

    /// Waits for data, or the end.
    fn wait(&mut self) -> Result<(), postgres::Error> {
        let CopyReader { connection, data, stream, decrypted, pacing, ended, .. } = self;
        let mut bytes = 0;
        connection.runtime().block_on(async {
            while bytes < DECRYPTED {
                // Data that can be taken comes before any message.
                let mut next = poll_fn(|cx| match data.poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Next::Data),
                    Poll::Pending => stream.as_mut().poll_next(cx).map(Next::Message),
                });
                let mut came = poll_immediate(&mut next).await;
                if came.is_none() && !connection.data().is_coming() {
                    // The connection's task may have more, but must have its turn to hand it on.
                    yield_now().await;
                    came = poll_immediate(&mut next).await;
                }
                let came = match came {
                    Some(came) => came,
                    None if !decrypted.is_empty() => return Ok(()),
                    None => {
                        // Nothing else runs on this runtime.
                        pacing.pause().into_iter().for_each(thread::sleep);
                        next.await
                    }
                };
                match came {
                    Next::Data => return Ok(()),
                    Next::Message(None) => {
                        *ended = true;
                        return Ok(());
                    }
                    Next::Message(Some(Err(error))) => return Err(error),
                    Next::Message(Some(Ok(message))) => {
                        bytes += message.len();
                        pacing.read(message.len());
                        decrypted.push_back(message);
                    }
                }
            }
            Ok(())
        })
    }
}
