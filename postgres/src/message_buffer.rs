//! [`MessageBuffer`]: bytes of a connection, told apart by message.
//!
//! Nothing of the protocol is known here but where a message ends and which of them are COPY data.

use std::ops::Range;

/// Type and length of a message.
const HEADER: usize = 5;

/// The type of messages with COPY data.
const COPY_DATA: u8 = b'd';

/// Bytes that have been read and not handed on.
#[derive(Debug, Default)]
pub(crate) struct MessageBuffer {
    bytes: Box<[u8]>,
    filled: Range<usize>,
    /// What is to come of a data message that is larger than the buffer and has begun.
    data_left: usize,
}

/// The message that comes next in a [`MessageBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextMessage {
    /// Too little of it is there to tell.
    Unknown,
    /// COPY data, and whether [`MessageBuffer::next_data`] would find it.
    Data { is_here: bool },
    /// Another one, of so many bytes.
    Other(usize),
}

impl MessageBuffer {
    pub(crate) fn new(size: usize) -> Self {
        MessageBuffer { bytes: vec![0; size].into(), ..MessageBuffer::default() }
    }

    /// Where to read more bytes to; [`add`](Self::add) then says how many came.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        if self.filled.start > 0 {
            self.bytes.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        &mut self.bytes[self.filled.end..]
    }

    pub(crate) fn add(&mut self, count: usize) {
        self.filled.end += count;
    }

    pub(crate) fn clear(&mut self) {
        (self.filled, self.data_left) = (0..0, 0);
    }

    /// The bytes that are there, whatever they are.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.filled.clone()]
    }

    /// Gives up bytes at the front.
    pub(crate) fn skip(&mut self, count: usize) {
        self.filled.start += count;
    }

    pub(crate) fn next_message(&self) -> NextMessage {
        match self.header() {
            _ if self.data_left > 0 => NextMessage::Data { is_here: !self.filled.is_empty() },
            None => NextMessage::Unknown,
            Some((false, length)) => NextMessage::Other(length),
            Some((true, length)) => NextMessage::Data { is_here: self.is_here(length) },
        }
    }

    /// Where the data of the next message is, if that is COPY data and all of it is there. Only the
    /// data of a message that is larger than the buffer comes in pieces.
    #[inline]
    pub(crate) fn next_data(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.filled.start;
            let data = match self.header() {
                _ if self.data_left > 0 => {
                    let here = self.data_left.min(self.filled.len());
                    self.data_left -= here;
                    start..start + here
                }
                Some((true, length)) if length <= self.filled.len() => {
                    start + HEADER..start + length
                }
                Some((true, length)) if self.is_here(length) => {
                    self.data_left = length - HEADER;
                    start + HEADER..start + HEADER
                }
                _ => return None,
            };
            self.filled.start = data.end;
            match data.is_empty() {
                true if self.filled.is_empty() => return None,
                true => {}
                false => return Some(data),
            }
        }
    }

    /// The bytes of what [`next_data`](Self::next_data) found.
    #[inline]
    pub(crate) fn data(&self, found: Range<usize>) -> &[u8] {
        &self.bytes[found]
    }

    /// Whether the message that begins here is data, and how long it is as a whole; `None` when its
    /// header is not all there.
    #[inline]
    fn header(&self) -> Option<(bool, usize)> {
        let (header, _) = self.filled().split_first_chunk::<HEADER>()?;
        let [kind, length @ ..] = *header;
        Some(match usize::try_from(i32::from_be_bytes(length)) {
            Ok(length @ 4..) => (kind == COPY_DATA, length + 1),
            // For tokio-postgres to complain about.
            _ => (false, HEADER),
        })
    }

    /// Whether something can be done with a data message: it is all there, or never will be at once.
    fn is_here(&self, length: usize) -> bool {
        length <= self.filled.len() || length > self.bytes.len()
    }
}
