//! [`BinaryRows`]: a batch of rows as `COPY … (FORMAT binary)` has them.

use super::{columns::Columns, error::PostgresTableError};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{
        DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type,
        TimestampMicrosecondType,
    },
};
use millstream_postgres::CopyWriter;

/// What comes before the first row: the signature, no flags, no extension.
pub(super) const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What comes after the last.
pub(super) const TRAILER: &[u8] = &(-1i16).to_be_bytes();

/// PostgreSQL counts days and microseconds from 2000-01-01.
const DAYS: i32 = 10_957;
const MICROSECONDS: i64 = DAYS as i64 * 86_400_000_000;

/// The length of a value that is null.
const NULL: [u8; 4] = (-1i32).to_be_bytes();

/// Rows to be sent.
pub(super) struct BinaryRows<'a> {
    columns: Vec<Values<'a>>,
    rows: usize,
}

struct Values<'a> {
    array: &'a ArrayRef,
    name: &'a str,
    append: Append,
}

/// Appends a value that is not null, behind its length; `None` when it has no counterpart.
type Append = fn(&ArrayRef, usize, &mut Vec<u8>) -> Option<()>;

impl<'a> BinaryRows<'a> {
    /// # Errors
    /// The rows have another schema than the columns were made of.
    pub(super) fn new(
        rows: &'a RecordBatch,
        columns: &'a Columns,
    ) -> Result<Self, PostgresTableError> {
        let values = rows.columns().iter().zip(&columns.sent).map(|(array, column)| {
            let name = column.name.as_str();
            let append = append(array.data_type()).ok_or_else(|| PostgresTableError::Type {
                name: name.to_owned(),
                found: array.data_type().to_string(),
            })?;
            Ok(Values { array, name, append })
        });
        let columns = values.collect::<Result<_, PostgresTableError>>()?;
        Ok(BinaryRows { columns, rows: rows.num_rows() })
    }

    /// # Errors
    /// The connection broke, or a time is one that PostgreSQL does not have.
    pub(super) fn write_to(&self, writer: &mut CopyWriter) -> Result<(), PostgresTableError> {
        let count = i16::try_from(self.columns.len()).expect("a table has at most 1600 columns");
        let mut bytes = Vec::new();
        for row in 0..self.rows {
            bytes.clear();
            self.append(row, count, &mut bytes)?;
            writer.write(&bytes)?;
        }
        Ok(())
    }

    fn append(&self, row: usize, count: i16, to: &mut Vec<u8>) -> Result<(), PostgresTableError> {
        to.extend_from_slice(&count.to_be_bytes());
        for Values { array, name, append } in &self.columns {
            if array.is_null(row) {
                to.extend_from_slice(&NULL);
            } else if append(array, row, to).is_none() {
                return Err(PostgresTableError::Time { name: (*name).to_owned() });
            }
        }
        Ok(())
    }
}

/// How values of a type are appended.
fn append(kind: &DataType) -> Option<Append> {
    fn put(bytes: &[u8], to: &mut Vec<u8>) -> Option<()> {
        to.extend_from_slice(&i32::try_from(bytes.len()).ok()?.to_be_bytes());
        to.extend_from_slice(bytes);
        Some(())
    }
    Some(match kind {
        DataType::Utf8 => |array, row, to| put(array.as_string::<i32>().value(row).as_bytes(), to),
        DataType::Date32 => |array, row, to| {
            let days = array.as_primitive::<Date32Type>().value(row).checked_sub(DAYS)?;
            put(&days.to_be_bytes(), to)
        },
        DataType::Timestamp(..) => |array, row, to| {
            let time = array.as_primitive::<TimestampMicrosecondType>().value(row);
            put(&time.checked_sub(MICROSECONDS)?.to_be_bytes(), to)
        },
        DataType::Int32 => {
            |array, row, to| put(&array.as_primitive::<Int32Type>().value(row).to_be_bytes(), to)
        }
        DataType::Int64 => {
            |array, row, to| put(&array.as_primitive::<Int64Type>().value(row).to_be_bytes(), to)
        }
        DataType::Float32 => {
            |array, row, to| put(&array.as_primitive::<Float32Type>().value(row).to_be_bytes(), to)
        }
        DataType::Float64 => {
            |array, row, to| put(&array.as_primitive::<Float64Type>().value(row).to_be_bytes(), to)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Int32Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn a_row_is_its_values_behind_their_lengths() {
        let columns: [(&str, ArrayRef); 3] = [
            ("s", Arc::new(StringArray::from(vec!["AB"]))),
            ("day", Arc::new(Date32Array::from(vec![DAYS + 1]))),
            ("step", Arc::new(Int32Array::from(vec![None]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let columns = Columns::of(&rows.schema()).unwrap();
        let mut bytes = Vec::new();
        BinaryRows::new(&rows, &columns).unwrap().append(0, 3, &mut bytes).unwrap();
        let expected = b"\0\x03\0\0\0\x02AB\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff";
        assert_eq!(bytes, expected);
        let early: [(&str, ArrayRef); 2] = [
            ("day", Arc::new(Date32Array::from(vec![i32::MIN]))),
            ("step", Arc::new(Int32Array::from(vec![1]))),
        ];
        let rows = RecordBatch::try_from_iter(early).unwrap();
        let columns = Columns::of(&rows.schema()).unwrap();
        let error = BinaryRows::new(&rows, &columns).unwrap().append(0, 2, &mut bytes).unwrap_err();
        assert!(error.to_string().contains("\"time\" has a time"), "{error}");
    }
}
