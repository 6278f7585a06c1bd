//! Decoder of PostgreSQL's binary COPY format, straight into the row store.
//!
//! Bytes come in pieces of any size through [`CopyDecoder::feed`]. A row that is not there as a
//! whole is taken back and decoded again when the rest has come; the server sends a row per
//! message, so that is rare. Whatever the bytes, the decoder returns and never panics. It knows
//! nothing of connections and SQL.
//!
//! Format: <https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT>.

use crate::{
    LoadError,
    copy_fields::{self, KeyField, TimeField, ValueField},
    filter::RowFilter,
    rows::RowStore,
    time,
    wide::ONE_SERIES,
};
use millstream_stage::TimeKind;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The columns of the stream, in order: the series if there is one, the time, the values.
#[derive(Debug, Clone)]
pub(crate) struct CopyColumns {
    /// Table or query, for error messages.
    pub(crate) place: String,
    pub(crate) series: Option<(String, KeyField)>,
    pub(crate) time: (String, TimeField),
    pub(crate) values: Vec<(String, ValueField)>,
}

/// Decodes a stream.
#[derive(Debug)]
pub(crate) struct CopyDecoder {
    columns: CopyColumns,
    filter: RowFilter,
    store: RowStore,
    time_kind: Option<TimeKind>,
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

/// Why a row was not decoded.
#[derive(Debug)]
enum Stop {
    /// More bytes are needed.
    Incomplete,
    Failed(LoadError),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Stop::Failed(error)
    }
}

impl CopyDecoder {
    pub(crate) fn new(columns: CopyColumns, filter: RowFilter) -> Self {
        CopyDecoder {
            store: RowStore::new(columns.values.len()),
            columns,
            filter,
            time_kind: None,
            state: State::Header,
            seen: 0,
            carry: Vec::new(),
        }
    }

    /// Rows decoded, wanted or not.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if self.carry.is_empty() {
            let used = self.decode(bytes)?;
            self.carry.extend_from_slice(&bytes[used..]);
        } else {
            let mut carry = std::mem::take(&mut self.carry);
            carry.extend_from_slice(bytes);
            let used = self.decode(&carry)?;
            carry.drain(..used);
            self.carry = carry;
        }
        Ok(())
    }

    /// Ends the stream: the rows and what their times are (`None` without rows).
    pub(crate) fn finish(self) -> Result<(RowStore, Option<TimeKind>, RowFilter), LoadError> {
        match self.state {
            State::End => Ok((self.store, self.time_kind, self.filter)),
            _ => Err(self.columns.broken(self.seen, "an end marker before the stream ended")),
        }
    }

    /// Decodes what is there as a whole and says how many bytes that was.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, LoadError> {
        let mut input = Input { bytes, at: 0 };
        let mut used = 0;
        loop {
            let step = match self.state {
                State::Header => self.header(&mut input),
                State::Rows => self.row(&mut input),
                State::End if input.at == bytes.len() => return Ok(used),
                State::End => {
                    return Err(self.columns.broken(self.seen, "nothing after the end marker"));
                }
            };
            match step {
                Ok(()) => used = input.at,
                Err(Stop::Incomplete) => return Ok(used),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
    }

    fn header(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        if input.take(SIGNATURE.len())? != SIGNATURE {
            return Err(self.columns.broken(self.seen, "the signature of a binary COPY").into());
        }
        let flags = u32::from_be_bytes(input.array()?);
        // The upper half marks changes of the format that a reader must not ignore.
        if flags >> 16 != 0 {
            return Err(self
                .columns
                .broken(self.seen, "no format flag that this version does not know")
                .into());
        }
        let extension = u32::from_be_bytes(input.array()?);
        if extension > 1 << 20 {
            return Err(self
                .columns
                .broken(self.seen, "a header extension of at most 1 MiB")
                .into());
        }
        input.take(extension as usize)?;
        self.state = State::Rows;
        Ok(())
    }

    fn row(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        let fields = i16::from_be_bytes(input.array()?);
        if fields == -1 {
            self.state = State::End;
            return Ok(());
        }
        let expected = usize::from(self.columns.series.is_some()) + 1 + self.columns.values.len();
        if usize::try_from(fields) != Ok(expected) {
            return Err(self
                .columns
                .broken(self.seen, "as many fields as columns were asked for")
                .into());
        }
        let name = self.series(input)?;
        let time = self.time(input)?;
        let name = name.as_deref().unwrap_or(ONE_SERIES);
        let wanted = self.filter.admits_time(time) && self.filter.admits_series(name);
        if wanted {
            let code = self.store.code(name);
            self.store.push(code, time);
        }
        if let Err(stop) = self.values(input, wanted) {
            if wanted {
                self.store.retract();
            }
            return Err(stop);
        }
        self.seen += 1;
        Ok(())
    }

    fn series<'a>(&self, input: &mut Input<'a>) -> Result<Option<std::borrow::Cow<'a, str>>, Stop> {
        let Some((column, kind)) = &self.columns.series else { return Ok(None) };
        let bytes = self
            .columns
            .field(input, self.seen)?
            .ok_or_else(|| self.columns.empty_key(self.seen, column))?;
        match kind.decode(bytes) {
            Some(name) if name.is_empty() => Err(self.columns.empty_key(self.seen, column).into()),
            Some(name) => Ok(Some(name)),
            None => Err(self.columns.bad_field(self.seen, column, kind.name(), bytes).into()),
        }
    }

    fn time(&mut self, input: &mut Input<'_>) -> Result<i64, Stop> {
        let (column, kind) = &self.columns.time;
        let bytes = self
            .columns
            .field(input, self.seen)?
            .ok_or_else(|| self.columns.empty_key(self.seen, column))?;
        let (time, found) = match kind.decode(bytes) {
            Ok(time) => time,
            Err(copy_fields::BadTime::Form) => {
                return Err(self.columns.bad_field(self.seen, column, kind.name(), bytes).into());
            }
            Err(copy_fields::BadTime::Value(value)) => {
                return Err(Stop::Failed(LoadError::BadTime {
                    place: self.columns.place.clone(),
                    row: self.seen + 1,
                    column: column.clone(),
                    value,
                    expected: time::EXPECTED,
                }));
            }
        };
        if self.time_kind != Some(found) {
            self.meet_kind(found)?;
        }
        Ok(time)
    }

    /// Only a text column can change its mind; dates among timestamps are midnights.
    fn meet_kind(&mut self, found: TimeKind) -> Result<(), LoadError> {
        let kind = match self.time_kind {
            None => found,
            Some(known) if known != TimeKind::Integer && found != TimeKind::Integer => {
                TimeKind::Timestamp
            }
            Some(_) => {
                let (place, column) = (self.columns.place.clone(), self.columns.time.0.clone());
                return Err(LoadError::MixedTimes { place, column });
            }
        };
        self.filter.check_kind(kind)?;
        self.time_kind = Some(kind);
        Ok(())
    }

    /// Fills the row that was pushed last, or skips the fields of one that is not wanted.
    fn values(&mut self, input: &mut Input<'_>, wanted: bool) -> Result<(), Stop> {
        let CopyDecoder { columns, store, seen, .. } = self;
        if !wanted {
            return columns.values.iter().try_for_each(|_| columns.field(input, *seen).map(drop));
        }
        for (cell, (column, kind)) in store.last_mut().iter_mut().zip(&columns.values) {
            let Some(bytes) = columns.field(input, *seen)? else { continue };
            match kind.decode(bytes) {
                Some(value) => *cell = value,
                None => return Err(columns.bad_field(*seen, column, kind.name(), bytes).into()),
            }
        }
        Ok(())
    }
}

impl CopyColumns {
    /// The bytes of a field; `None` for NULL.
    fn field<'a>(&self, input: &mut Input<'a>, seen: u64) -> Result<Option<&'a [u8]>, Stop> {
        match i32::from_be_bytes(input.array()?) {
            -1 => Ok(None),
            // What the server itself allows for a field.
            length @ 0..=0x3fff_ffff => input.take(length as usize).map(Some),
            _ => Err(self.broken(seen, "a field length of at most 1 GiB").into()),
        }
    }

    fn broken(&self, seen: u64, expected: &'static str) -> LoadError {
        LoadError::Protocol { place: self.place.clone(), row: seen + 1, expected }
    }

    fn empty_key(&self, seen: u64, column: &str) -> LoadError {
        let (place, column) = (self.place.clone(), column.to_owned());
        LoadError::EmptyKey { place, row: seen + 1, column }
    }

    fn bad_field(&self, seen: u64, column: &str, kind: &'static str, bytes: &[u8]) -> LoadError {
        let (place, column) = (self.place.clone(), column.to_owned());
        LoadError::Field { place, row: seen + 1, column, kind, bytes: bytes.len() }
    }
}

/// Bytes with a bounds-checked position.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..length));
        self.at += taken.map_or(0, <[u8]>::len);
        taken.ok_or(Stop::Incomplete)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let bytes = self.take(N)?;
        Ok(*bytes.first_chunk().expect("exactly N bytes were taken"))
    }
}

#[cfg(test)]
#[path = "copy_binary_tests.rs"]
mod tests;
