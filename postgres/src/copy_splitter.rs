//! [`split`]: a socket whose COPY data is taken out before `tokio-postgres` gets to see it.
//!
//! That crate reads 8 KiB at a time, makes an object of every message and hands it from task to
//! task: for a table of a million rows that costs as much as all the rest of a load. So the socket
//! below it is ours. Bytes are read into one large buffer: messages with data go to whoever reads the
//! [`CopyData`], straight from that buffer, and all others, among them every error, on to the crate.
//!
//! An encrypted connection is not split: what passes here are not messages then.

use crate::{
    message_buffer::{MessageBuffer, NextMessage},
    socket::Socket,
};
use std::{
    io,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More than the buffers of a socket hold, so that one read takes all there is.
const BUFFER: usize = 256 << 10;

/// What an unencrypted server answers when it is asked for TLS.
const NO_TLS: u8 = b'N';

/// The side of `tokio-postgres`.
#[derive(Debug)]
pub(crate) struct ProtocolSide(Arc<Mutex<Splitter>>);

/// The side of whoever wants the data.
#[derive(Debug)]
pub(crate) struct DataSide(Arc<Mutex<Splitter>>);

/// The data of one COPY. While this lives, data is kept for it; otherwise it is thrown away.
#[derive(Debug)]
pub(crate) struct CopyData<'a> {
    side: &'a DataSide,
    /// `None` while the splitter has it, to read more.
    buffer: Option<MessageBuffer>,
}

/// What a server says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// Messages.
    Messages,
    /// A byte that says whether TLS comes next, or messages.
    TlsAnswer,
    /// TLS.
    Tls,
}

#[derive(Debug)]
struct Splitter {
    socket: Socket,
    buffer: MessageBuffer,
    next: NextBytes,
    /// Whether somebody wants the data.
    wanted: bool,
    /// What the side that read met and the other one has to report.
    error: Option<io::Error>,
    /// Wakes the side of `tokio-postgres`.
    protocol: Option<Waker>,
    /// Wakes the side of the data.
    data: Option<Waker>,
}

/// Whose the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextBytes {
    /// All there will be are `tokio-postgres`'s.
    Encrypted,
    /// So is the next one, and tells about the rest.
    TlsAnswer,
    /// So are so many, and then comes another message.
    Message(usize),
    /// They are data. Whoever wants that reads the socket now.
    Data,
}

/// Both sides of a new connection.
pub(crate) fn split(socket: Socket, first: FirstBytes) -> (ProtocolSide, DataSide) {
    let splitter = Arc::new(Mutex::new(Splitter {
        socket,
        buffer: MessageBuffer::new(if first == FirstBytes::Tls { 0 } else { BUFFER }),
        next: match first {
            FirstBytes::Messages => NextBytes::Message(0),
            FirstBytes::TlsAnswer => NextBytes::TlsAnswer,
            FirstBytes::Tls => NextBytes::Encrypted,
        },
        wanted: false,
        error: None,
        protocol: None,
        data: None,
    }));
    (ProtocolSide(Arc::clone(&splitter)), DataSide(splitter))
}

impl DataSide {
    /// From now on data is kept.
    pub(crate) fn open(&self) -> CopyData<'_> {
        lock(&self.0).wanted = true;
        CopyData { side: self, buffer: None }
    }

    /// Whether the server is sending data, so that nobody else has anything to do.
    pub(crate) fn is_coming(&self) -> bool {
        lock(&self.0).next == NextBytes::Data
    }

    /// Whether all that passes is for `tokio-postgres` alone.
    pub(crate) fn is_encrypted(&self) -> bool {
        lock(&self.0).next == NextBytes::Encrypted
    }
}

impl CopyData<'_> {
    /// Ready when there is data to [take](Self::take).
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let splitter = &mut *lock(&self.side.0);
        if let Some(buffer) = self.buffer.take() {
            splitter.buffer = buffer;
        }
        ready!(splitter.poll_data(cx));
        self.buffer = Some(std::mem::take(&mut splitter.buffer));
        Poll::Ready(())
    }

    /// Where the data of the next message is, if it is there; see [`MessageBuffer::next_data`].
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Range<usize>> {
        self.buffer.as_mut()?.next_data()
    }

    /// The bytes of what [`take`](Self::take) found.
    #[inline]
    pub(crate) fn bytes(&self, found: Range<usize>) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| buffer.data(found))
    }
}

impl Drop for CopyData<'_> {
    fn drop(&mut self) {
        let splitter = &mut *lock(&self.side.0);
        if let Some(buffer) = self.buffer.take() {
            splitter.buffer = buffer;
        }
        splitter.wanted = false;
        splitter.protocol.take().into_iter().for_each(Waker::wake);
    }
}

impl Splitter {
    /// Reads what the socket has; 0 when it is at its end.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut free = ReadBuf::new(self.buffer.free());
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut free))?;
        let count = free.filled().len();
        self.buffer.add(count);
        Poll::Ready(Ok(count))
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.next == NextBytes::Data {
            match self.buffer.next_message() {
                NextMessage::Data { is_here: true } => return Poll::Ready(()),
                NextMessage::Other(_) => self.pass_on(),
                NextMessage::Unknown | NextMessage::Data { is_here: false } => {
                    let filled = ready!(self.fill(cx));
                    if !matches!(filled, Ok(1..)) {
                        self.error = filled.err();
                        // What is left is a message cut short. The other side would take it for
                        // data, and each wait for the other to do something about it.
                        self.buffer.clear();
                        self.pass_on();
                    }
                }
            }
        }
        self.data = Some(cx.waker().clone());
        Poll::Pending
    }

    /// What comes now is not data, or nothing.
    fn pass_on(&mut self) {
        self.next = NextBytes::Message(0);
        self.protocol.take().into_iter().for_each(Waker::wake);
    }

    /// Gives `tokio-postgres` what is there and its own.
    fn give(&mut self, most: usize, out: &mut ReadBuf<'_>) -> usize {
        let bytes = self.buffer.filled();
        let count = most.min(bytes.len()).min(out.remaining());
        out.put_slice(&bytes[..count]);
        self.buffer.skip(count);
        count
    }

    fn poll_protocol(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.error.take() {
                return Poll::Ready(Err(error));
            }
            let first = self.buffer.filled().first().copied();
            match (self.next, first) {
                (NextBytes::Encrypted, None) => {
                    return Pin::new(&mut self.socket).poll_read(cx, out);
                }
                (NextBytes::Encrypted, Some(_)) => {
                    self.give(usize::MAX, out);
                    return Poll::Ready(Ok(()));
                }
                (NextBytes::TlsAnswer, Some(answer)) => {
                    let plain = answer == NO_TLS;
                    self.next = if plain { NextBytes::Message(0) } else { NextBytes::Encrypted };
                    self.give(1, out);
                    return Poll::Ready(Ok(()));
                }
                (NextBytes::Message(left @ 1..), Some(_)) => {
                    let given = self.give(left, out);
                    self.next = NextBytes::Message(left - given);
                    return Poll::Ready(Ok(()));
                }
                (NextBytes::Message(0), _) => match self.buffer.next_message() {
                    NextMessage::Unknown => {}
                    NextMessage::Data { .. } => {
                        self.next = NextBytes::Data;
                        continue;
                    }
                    NextMessage::Other(length) => {
                        self.next = NextBytes::Message(length);
                        continue;
                    }
                },
                (NextBytes::Data, _) if self.wanted => {
                    self.protocol = Some(cx.waker().clone());
                    self.data.take().into_iter().for_each(Waker::wake);
                    return Poll::Pending;
                }
                (NextBytes::Data, _) => {
                    while self.buffer.next_data().is_some() {}
                    if let NextMessage::Other(_) = self.buffer.next_message() {
                        self.next = NextBytes::Message(0);
                        continue;
                    }
                }
                (NextBytes::TlsAnswer | NextBytes::Message(_), None) => {}
            }
            if ready!(self.fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// A side that panicked has left nothing that the other one still needs.
fn lock(splitter: &Mutex<Splitter>) -> MutexGuard<'_, Splitter> {
    splitter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for ProtocolSide {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_protocol(cx, out)
    }
}

impl AsyncWrite for ProtocolSide {
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
#[path = "copy_splitter_tests.rs"]
mod tests;
