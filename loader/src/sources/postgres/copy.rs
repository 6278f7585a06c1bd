//! Decoder of PostgreSQL's binary COPY format.
//!
//! Bytes come in pieces of any size through [`CopyDecoder::feed`]. A row that is not there as a
//! whole is decoded again when the rest has come; the server sends a row per message, so that is
//! rare. What becomes of a row is up to a [`DecodeRow`]: [`PackedRows`](packed::PackedRows) puts
//! it straight into a panel's chunk, [`TypedRows`](typed::TypedRows) into Arrow columns. Whatever
//! the bytes, the decoder returns and never panics, and it never allocates more than the bytes
//! call for. It knows nothing of connections and SQL.
//!
//! Format: <https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT>.

mod array;
mod cursor;
mod error;
pub(crate) mod fields;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod key;
mod numeric;
pub(crate) mod packed;
pub(crate) mod typed;

use crate::LoadError;
use cursor::{Cursor, CursorError};
pub use error::CopyError;
use fields::{TimeField, ValueField};
use key::KeyField;
use millstream_data::{ColumnKind, TimeKind};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The columns of a stream, in order: the series if there is one, the time, the values.
#[derive(Debug, Clone)]
pub(crate) struct CopyColumns {
    /// Table or query, for error messages.
    pub(crate) place: String,
    pub(crate) series: Option<(String, KeyField)>,
    pub(crate) time: (String, TimeField),
    pub(crate) values: Vec<ValueColumn>,
}

/// A column of numbers, or of arrays of them.
#[derive(Debug, Clone)]
pub(crate) struct ValueColumn {
    pub(crate) name: String,
    pub(crate) field: ValueField,
    /// Values a row: one, or as many as every array has.
    pub(crate) width: usize,
}

/// Takes the rows of a stream.
pub(crate) trait DecodeRow {
    /// Reads the fields of one row. After [`CursorError::Incomplete`] it is as if the row had never come.
    fn row(&mut self, fields: &mut Cursor<'_>) -> Result<(), RowError>;

    /// The columns it expects.
    fn columns(&self) -> &CopyColumns;
}

/// Why a row was not decoded.
#[derive(Debug)]
pub(crate) enum RowError {
    Cursor(CursorError),
    Failed(Box<LoadError>),
}

impl From<CursorError> for RowError {
    fn from(error: CursorError) -> Self {
        RowError::Cursor(error)
    }
}

impl From<LoadError> for RowError {
    fn from(error: LoadError) -> Self {
        RowError::Failed(Box::new(error))
    }
}

/// Decodes a stream.
#[derive(Debug)]
pub(crate) struct CopyDecoder<R> {
    rows: R,
    state: State,
    /// Rows decoded, wanted or not.
    seen: u64,
    /// The start of a row whose end has not come yet.
    carry: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Rows,
    End,
}

impl<R: DecodeRow> CopyDecoder<R> {
    pub(crate) fn new(rows: R) -> Self {
        CopyDecoder { rows, state: State::Header, seen: 0, carry: Vec::new() }
    }

    /// Rows decoded, wanted or not.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Where the rows went.
    pub(crate) fn rows_mut(&mut self) -> &mut R {
        &mut self.rows
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if self.carry.is_empty() {
            let rest = self.decode(bytes)?;
            self.carry.extend_from_slice(rest);
        } else {
            let mut carry = std::mem::take(&mut self.carry);
            carry.extend_from_slice(bytes);
            let used = carry.len() - self.decode(&carry)?.len();
            carry.drain(..used);
            self.carry = carry;
        }
        Ok(())
    }

    /// Ends the stream and hands the rows back.
    pub(crate) fn finish(self) -> Result<R, LoadError> {
        match self.state {
            State::End => Ok(self.rows),
            _ => Err(self.broken("an end marker before the stream ended")),
        }
    }

    /// Decodes what is there as a whole and returns the rest.
    fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], LoadError> {
        let mut whole = Cursor::new(bytes);
        loop {
            let mut cursor = whole;
            let step = match self.state {
                State::Header => self.header(&mut cursor).map_err(RowError::from),
                State::Rows => self.row(&mut cursor),
                State::End if cursor.rest().is_empty() => return Ok(&[]),
                State::End => return Err(self.broken("nothing after the end marker")),
            };
            match step {
                Ok(()) => whole = cursor,
                Err(RowError::Cursor(CursorError::Incomplete)) => return Ok(whole.rest()),
                Err(RowError::Cursor(CursorError::Malformed(expected))) => {
                    return Err(self.broken(expected));
                }
                Err(RowError::Failed(error)) => return Err(*error),
            }
        }
    }

    fn header(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CursorError> {
        if cursor.take(SIGNATURE.len())? != SIGNATURE {
            return Err(CursorError::Malformed("the signature of a binary COPY"));
        }
        let flags = u32::from_be_bytes(cursor.array()?);
        // The upper half marks changes of the format that a reader must not ignore.
        if flags >> 16 != 0 {
            return Err(CursorError::Malformed("no format flag that this version does not know"));
        }
        let extension = u32::from_be_bytes(cursor.array()?);
        if extension > 1 << 20 {
            return Err(CursorError::Malformed("a header extension of at most 1 MiB"));
        }
        cursor.take(extension as usize)?;
        self.state = State::Rows;
        Ok(())
    }

    fn row(&mut self, cursor: &mut Cursor<'_>) -> Result<(), RowError> {
        let fields = i16::from_be_bytes(cursor.array()?);
        if fields == -1 {
            self.state = State::End;
            return Ok(());
        }
        if usize::try_from(fields) != Ok(self.rows.columns().fields()) {
            return Err(CursorError::Malformed("as many fields as columns were asked for").into());
        }
        self.rows.row(cursor)?;
        self.seen += 1;
        Ok(())
    }

    fn broken(&self, expected: &'static str) -> LoadError {
        let place = self.rows.columns().place.clone();
        CopyError::Protocol { place, row: self.seen + 1, expected }.into()
    }
}

impl CopyColumns {
    /// Fields of a row.
    pub(crate) fn fields(&self) -> usize {
        usize::from(self.series.is_some()) + 1 + self.values.len()
    }

    /// Values of a row.
    pub(crate) fn width(&self) -> usize {
        self.values.iter().map(|column| column.width).sum()
    }

    /// The names of the values; those of an array are numbered from 1, as the server does.
    pub(crate) fn value_names(&self) -> Vec<String> {
        let names = |column: &ValueColumn| match column.field {
            ValueField::Scalar(_) => vec![column.name.clone()],
            ValueField::Array(_) => {
                (1..=column.width).map(|n| format!("{}[{n}]", column.name)).collect()
            }
        };
        self.values.iter().flat_map(names).collect()
    }

    /// What the values are.
    pub(crate) fn value_kinds(&self) -> Vec<ColumnKind> {
        let kinds =
            |column: &ValueColumn| std::iter::repeat_n(column.field.measure(), column.width);
        self.values.iter().flat_map(kinds).collect()
    }

    /// What times are of which some are of one kind and some of another.
    pub(crate) fn common_kind(
        &self,
        known: Option<TimeKind>,
        found: TimeKind,
    ) -> Result<TimeKind, LoadError> {
        let (place, column) = (&self.place, &self.time.0);
        TimeKind::common(known, found).ok_or_else(|| LoadError::mixed_times(place, column))
    }

    /// What to call the row with these two fields, as far as they can be read.
    fn row_id(&self, series: Option<&[u8]>, time: Option<&[u8]>) -> String {
        let mut scratch = String::new();
        let series = match &self.series {
            None => String::new(),
            Some((_, field)) => match series.and_then(|bytes| field.decode(bytes, &mut scratch)) {
                Some(name) => format!(" of series {name:?}"),
                None => " without a series".to_owned(),
            },
        };
        let time = match time.and_then(|bytes| self.time.1.decode(bytes).ok()) {
            Some((time, kind)) => format!(" at {}", kind.format(time)),
            None => String::new(),
        };
        format!("the row{series}{time}")
    }

    fn empty_key(&self, column: &str, series: Option<&[u8]>, time: Option<&[u8]>) -> LoadError {
        let (place, column) = (self.place.clone(), column.to_owned());
        LoadError::EmptyKey { place, row: self.row_id(series, time), column }
    }

    fn bad_key(&self, column: &str, kind: &'static str, bytes: &[u8], row: String) -> LoadError {
        let (place, column) = (self.place.clone(), column.to_owned());
        CopyError::Field { place, row, column, kind, bytes: bytes.len() }.into()
    }

    /// What is wrong with a value, as an error about its row.
    fn bad_value(&self, bad: BadValue, row: String) -> LoadError {
        let column = &self.values[bad.column];
        let (place, name) = (self.place.clone(), column.name.clone());
        LoadError::from(match bad.why {
            ValueError::Form { bytes } => {
                CopyError::Field { place, row, column: name, kind: column.field.name(), bytes }
            }
            ValueError::Length { found } => {
                let expected = column.width;
                CopyError::Ragged { place, row, column: name, found, expected }
            }
        })
    }
}

/// A value that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BadValue {
    /// Position among the value columns.
    column: usize,
    why: ValueError,
}

/// Why the bytes of a field are no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueError {
    /// They do not have the form of the type.
    Form { bytes: usize },
    /// An array of another length than the others.
    Length { found: usize },
}

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod tests;
