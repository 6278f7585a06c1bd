//! JSON lines: an object for every row, its keys in the order of the columns. What is missing or no number is
//! `null`, times are text as ISO 8601 writes them.

use super::{FileWriter, Opened, WriteError};
use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};
use millstream_data::WholeFile;
use std::{fmt, io::Write};

pub(super) const ENDINGS: &[&str] = &["jsonl", "ndjson"];

pub(super) fn open(file: WholeFile, schema: &SchemaRef) -> Opened {
    Ok(Box::new(JsonLines::new(file, schema)?))
}

/// Writes rows to a file or another stream of bytes, those of a batch at once.
pub(crate) struct JsonLines<W> {
    /// `"name":`, of every column.
    keys: Vec<String>,
    lines: Vec<u8>,
    stream: W,
}

impl<W: Write> JsonLines<W> {
    pub(crate) fn new(stream: W, schema: &SchemaRef) -> Result<Self, serde_json::Error> {
        let names = schema.fields().iter().map(|field| serde_json::to_string(field.name()));
        let keys = names.map(|name| name.map(|name| format!("{name}:")));
        Ok(JsonLines { keys: keys.collect::<Result<_, _>>()?, lines: Vec::new(), stream })
    }

    pub(crate) fn append(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
        // What cannot be shown is an error and no text that says so.
        let options = FormatOptions::new().with_display_error(false);
        let columns = rows.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
        let columns: Vec<ArrayFormatter<'_>> = columns.collect::<Result<_, _>>()?;
        self.lines.clear();
        for row in 0..rows.num_rows() {
            let mut before = b'{';
            for ((key, column), values) in self.keys.iter().zip(&columns).zip(rows.columns()) {
                self.lines.push(before);
                before = b',';
                self.lines.extend_from_slice(key.as_bytes());
                if values.is_null(row) {
                    self.lines.extend_from_slice(b"null");
                } else if values.data_type().is_numeric() {
                    let start = self.lines.len();
                    write!(self.lines, "{}", column.value(row))?;
                    // NaN and the infinities are no numbers of JSON.
                    if self.lines.last().is_none_or(|last| !last.is_ascii_digit()) {
                        self.lines.truncate(start);
                        self.lines.extend_from_slice(b"null");
                    }
                } else {
                    serde_json::to_writer(&mut self.lines, &column.value(row).try_to_string()?)?;
                }
            }
            self.lines.extend_from_slice(b"}\n");
        }
        Ok(self.stream.write_all(&self.lines)?)
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl FileWriter for JsonLines<WholeFile> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
        self.append(rows)
    }

    fn finish(self: Box<Self>) -> Result<WholeFile, WriteError> {
        Ok(self.stream)
    }
}

impl<W> fmt::Debug for JsonLines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLines").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, Date32Array, Float32Array, StringArray, TimestampMicrosecondArray,
    };
    use std::sync::Arc;

    #[test]
    fn a_row_is_an_object_and_the_unknown_is_null() {
        let found = String::from_utf8(super::super::written(open)).unwrap();
        assert_eq!(found, "{\"step\":1,\"y\":0.5}\n{\"step\":2,\"y\":null}\n");
    }

    #[test]
    fn every_line_is_json_whatever_the_values() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.1, -1e-30, f32::MAX];
        let names = ["a \"b\"\n", "c\\", "\u{7}ä", "", "null", "1"];
        let columns: [(&str, ArrayRef); 4] = [
            ("a \"name\"", Arc::new(StringArray::from(names.to_vec()))),
            ("day", Arc::new(Date32Array::from(vec![-1, 0, 1, 365, 20_000, 30_000]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2, 3, 4, 5_000_000]))),
            ("y", Arc::new(Float32Array::from(values.to_vec()))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut written = Vec::new();
        JsonLines::new(&mut written, &rows.schema()).unwrap().append(&rows).unwrap();
        let text = String::from_utf8(written).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 6);
        for ((line, value), name) in lines.iter().zip(values).zip(names) {
            assert_eq!(line["a \"name\""], name);
            let read = line["y"].as_f64().map(|read| read as f32);
            assert_eq!(read, value.is_finite().then_some(value), "{line}");
        }
        assert_eq!(
            (&lines[0]["day"], &lines[3]["day"]),
            (&"1969-12-31".into(), &"1971-01-01".into())
        );
        assert_eq!(lines[5]["at"], "1970-01-01T00:00:05");
        assert!(text.starts_with("{\"a \\\"name\\\"\":"), "{text}");
    }
}
