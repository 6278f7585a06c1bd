//! [`Tap`]: a socket whose COPY data is drawn off before `tokio-postgres` gets to see it.
//!
//! That crate reads 8 KiB at a time, makes an object of every message and hands it from task to
//! task: for a table of a million rows that costs as much as all the rest of a load. So the socket
//! below it is ours. Bytes are read into one large buffer and told apart by message: those with
//! data go to whoever [draws](Draw::take) them, straight from the buffer, and all others, among
//! them every error, on to the crate. Nothing of the protocol is known here but where a message
//! ends and which of them are data.
//!
//! An encrypted connection is not tapped: what passes here are not messages then.

use crate::socket::Socket;
use std::{
    io,
    ops::{ControlFlow, Range},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More than the buffers of a socket hold, so that one read takes all there is.
const BUFFER: usize = 256 << 10;

/// Type and length of a message.
const HEADER: usize = 5;

/// The type of messages with COPY data.
const COPY_DATA: u8 = b'd';

/// What an unencrypted server answers when it is asked for TLS.
const NO_TLS: u8 = b'N';

/// The side of `tokio-postgres`.
#[derive(Debug)]
pub(crate) struct Tap(Arc<Mutex<Shared>>);

/// The side of whoever wants the data.
#[derive(Debug)]
pub(crate) struct Draw(Arc<Mutex<Shared>>);

/// While this lives, data is kept for whoever draws it; otherwise it is thrown away.
pub(crate) struct Open<'a>(&'a Draw);

/// What the server says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Messages.
    Messages,
    /// A byte that says whether TLS comes next, or messages.
    Answer,
    /// TLS.
    Tls,
}

#[derive(Debug)]
struct Shared {
    socket: Socket,
    buffer: Box<[u8]>,
    /// What of the buffer has been read and not handed on.
    full: Range<usize>,
    front: Front,
    open: bool,
    /// What the side that read met and the other one has to report.
    error: Option<io::Error>,
    /// Waits for its turn.
    postgres: Option<Waker>,
    /// Waits for its turn.
    drawer: Option<Waker>,
}

/// Whose the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    /// All there will be are `tokio-postgres`'s.
    Opaque,
    /// So is the next one, and tells about the rest.
    Answer,
    /// So are so many, and then comes another message.
    Message(usize),
    /// So many are data whose message has begun, and then comes another message. Whoever draws it
    /// reads the socket now.
    Data(usize),
}

/// What the start of a message says about it.
#[derive(Debug, Clone, Copy)]
struct Header {
    is_data: bool,
    /// Of the message as a whole.
    length: usize,
}

/// Both sides of a new connection.
pub(crate) fn tap(socket: Socket, start: Start) -> (Tap, Draw) {
    let shared = Arc::new(Mutex::new(Shared {
        socket,
        buffer: vec![0; if start == Start::Tls { 0 } else { BUFFER }].into(),
        full: 0..0,
        front: match start {
            Start::Messages => Front::Message(0),
            Start::Answer => Front::Answer,
            Start::Tls => Front::Opaque,
        },
        open: false,
        error: None,
        postgres: None,
        drawer: None,
    }));
    (Tap(Arc::clone(&shared)), Draw(shared))
}

impl Draw {
    /// From now on data is kept.
    pub(crate) fn open(&self) -> Open<'_> {
        lock(&self.0).open = true;
        Open(self)
    }

    /// Whether all that passes is for `tokio-postgres` alone: it is encrypted.
    pub(crate) fn is_opaque(&self) -> bool {
        lock(&self.0).front == Front::Opaque
    }

    /// Whether the server is sending data, so that nobody but the drawer has anything to do.
    pub(crate) fn flows(&self) -> bool {
        matches!(lock(&self.0).front, Front::Data(_))
    }

    /// Ready when there is data to take.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &mut *lock(&self.0);
        loop {
            match shared.front {
                Front::Data(_) if shared.has_data() => return Poll::Ready(()),
                Front::Data(_) => {}
                _ => {
                    shared.drawer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            match ready!(shared.fill(cx)) {
                Ok(0) => {
                    // What is left is a message cut short. The other side would take it for the
                    // drawer's, and each wait for the other to do something about it.
                    shared.full = 0..0;
                    shared.pass_on();
                }
                Ok(_) => {}
                Err(error) => {
                    shared.error = Some(error);
                    shared.pass_on();
                }
            }
        }
    }

    /// Hands the data of every message that is there to `take`, which may end it early. Only the
    /// data of a message that is larger than the buffer comes in pieces.
    pub(crate) fn take<E>(
        &self,
        take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        lock(&self.0).take(take)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let shared = &mut *lock(&self.0.0);
        shared.open = false;
        shared.postgres.take().into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// Reads what the socket has; 0 when it is at its end.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.full.start > 0 {
            self.buffer.copy_within(self.full.clone(), 0);
            self.full = 0..self.full.len();
        }
        let mut free = ReadBuf::new(&mut self.buffer[self.full.end..]);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut free))?;
        let count = free.filled().len();
        self.full.end += count;
        Poll::Ready(Ok(count))
    }

    /// The message that begins here; `None` when its header is not all there.
    fn header(&self) -> Option<Header> {
        let (header, _) = self.buffer[self.full.clone()].split_first_chunk::<HEADER>()?;
        let [kind, length @ ..] = *header;
        Some(match usize::try_from(i32::from_be_bytes(length)) {
            Ok(length @ 4..) => Header { is_data: kind == COPY_DATA, length: length + 1 },
            // For tokio-postgres to complain about.
            _ => Header { is_data: false, length: HEADER },
        })
    }

    /// Whether [`take`](Self::take) would find something, if only a message for the other side.
    fn has_data(&self) -> bool {
        match (self.front, self.header()) {
            (Front::Data(1..), _) => !self.full.is_empty(),
            (_, Some(Header { is_data: true, length })) => {
                length <= self.full.len() || length > self.buffer.len()
            }
            (_, header) => header.is_some(),
        }
    }

    fn take<E>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        while let Front::Data(left) = self.front {
            if !self.has_data() {
                break;
            }
            let start = self.full.start;
            let data = match (left, self.header()) {
                (1.., _) => {
                    let here = left.min(self.full.len());
                    self.front = Front::Data(left - here);
                    start..start + here
                }
                (0, Some(Header { is_data: true, length })) if length <= self.full.len() => {
                    start + HEADER..start + length
                }
                (0, Some(Header { is_data: true, length })) => {
                    self.front = Front::Data(length - HEADER);
                    start + HEADER..start + HEADER
                }
                (0, _) => {
                    self.pass_on();
                    break;
                }
            };
            self.full.start = data.end;
            if !data.is_empty() && take(&self.buffer[data])?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What comes now is not data, or nothing.
    fn pass_on(&mut self) {
        self.front = Front::Message(0);
        self.postgres.take().into_iter().for_each(Waker::wake);
    }

    /// Gives `tokio-postgres` what is there and its own.
    fn give(&mut self, most: usize, out: &mut ReadBuf<'_>) -> usize {
        let count = most.min(self.full.len()).min(out.remaining());
        out.put_slice(&self.buffer[self.full.start..self.full.start + count]);
        self.full.start += count;
        count
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.error.take() {
                return Poll::Ready(Err(error));
            }
            match self.front {
                Front::Opaque if self.full.is_empty() => {
                    return Pin::new(&mut self.socket).poll_read(cx, out);
                }
                Front::Opaque => {
                    self.give(usize::MAX, out);
                    return Poll::Ready(Ok(()));
                }
                Front::Answer if !self.full.is_empty() => {
                    let plain = self.buffer[self.full.start] == NO_TLS;
                    self.front = if plain { Front::Message(0) } else { Front::Opaque };
                    self.give(1, out);
                    return Poll::Ready(Ok(()));
                }
                Front::Message(0) => match self.header() {
                    Some(Header { is_data: true, .. }) => {
                        self.front = Front::Data(0);
                        continue;
                    }
                    Some(Header { length, .. }) => {
                        self.front = Front::Message(length);
                        continue;
                    }
                    None => {}
                },
                Front::Message(left) if !self.full.is_empty() => {
                    let given = self.give(left, out);
                    self.front = Front::Message(left - given);
                    return Poll::Ready(Ok(()));
                }
                Front::Data(_) if self.open => {
                    self.postgres = Some(cx.waker().clone());
                    self.drawer.take().into_iter().for_each(Waker::wake);
                    return Poll::Pending;
                }
                Front::Data(_) if self.has_data() => {
                    // Nobody wants it.
                    let _: Result<_, ()> = self.take(|_| Ok(ControlFlow::Continue(())));
                    continue;
                }
                _ => {}
            }
            if ready!(self.fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// A side that panicked has left nothing that the other one still needs.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for Tap {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut lock(&self.0).socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
