//! [`Cursor`]: bounds-checked reading of a COPY stream's bytes.

/// Bytes not read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

/// Why bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorError {
    /// More of them are needed.
    Incomplete,
    /// They are not of the format; what was expected.
    Malformed(&'static str),
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Goes on at `rest`, a tail of what had not been read.
    pub(crate) fn go_on_at(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], CursorError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CursorError::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CursorError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CursorError::Incomplete)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The bytes of a field; `None` for NULL.
    pub(crate) fn field(&mut self) -> Result<Option<&'a [u8]>, CursorError> {
        match i32::from_be_bytes(self.array()?) {
            -1 => Ok(None),
            // What the server itself allows for a field.
            length @ 0..=0x3fff_ffff => self.take(length as usize).map(Some),
            _ => Err(CursorError::Malformed("a field length of at most 1 GiB")),
        }
    }

    /// Reads `count` fields and keeps nothing.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), CursorError> {
        (0..count).try_for_each(|_| self.field().map(drop))
    }
}
