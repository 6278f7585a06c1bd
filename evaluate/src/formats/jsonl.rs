//! JSON lines: an object for every row, as `millstream predict` writes them. A missing value may be left out,
//! so all lines are looked at before it is known what columns there are. Cells are read as text, as of CSV.

use super::{BATCH_ROWS, Batches, Broken, Opened, Rows};
use arrow::{
    array::{ArrayRef, RecordBatch, StringBuilder},
    datatypes::DataType,
    util::display::array_value_to_string,
};
use millstream_data::WholeFile;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::{
    collections::HashSet,
    fmt,
    fs::File,
    io::{BufRead, BufReader, BufWriter, IntoInnerError, Lines, Seek, Write},
    sync::Arc,
};

pub(super) const NAME: &str = "JSON lines";
pub(super) const ENDINGS: &[&str] = &["jsonl", "ndjson"];

struct JsonLines {
    file: File,
    names: Vec<String>,
}

/// The names and values of a row in the order of the line, which a map of the library would sort: what
/// columns of ours are is told by their places.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of a row")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut entries = Vec::new();
                let mut known = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if !known.insert(name.clone()) {
                        return Err(M::Error::custom(format!("it has {name:?} twice")));
                    }
                    entries.push((name, value));
                }
                Ok(Object(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Object {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Rows that come as objects.
struct Objects {
    lines: Lines<BufReader<File>>,
    number: u64,
}

impl Iterator for Objects {
    type Item = Result<Object, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.lines.next()?;
            self.number += 1;
            let number = self.number;
            match line {
                Err(error) => return Some(Err(error.into())),
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    let object = serde_json::from_str(&line);
                    return Some(object.map_err(|error| format!("line {number}: {error}").into()));
                }
            }
        }
    }
}

fn objects(file: File) -> Objects {
    Objects { lines: BufReader::new(file).lines(), number: 0 }
}

pub(super) fn open(mut file: File) -> Result<Opened, Broken> {
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    for object in objects(file.try_clone()?) {
        for (name, _) in object?.0 {
            if !known.contains(&name) {
                known.insert(name.clone());
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return Err("it is empty; every line is an object of a row".into());
    }
    file.rewind()?;
    Ok(Opened { names: names.clone(), rows: Box::new(JsonLines { file, names }) })
}

impl Rows for JsonLines {
    fn read(self: Box<Self>, columns: &[usize]) -> Result<Batches, Broken> {
        let names: Vec<String> = columns.iter().map(|at| self.names[*at].clone()).collect();
        let mut objects = objects(self.file);
        Ok(Box::new(std::iter::from_fn(move || batch(&names, &mut objects).transpose())))
    }
}

/// The next rows, if there are any.
fn batch(names: &[String], objects: &mut Objects) -> Result<Option<RecordBatch>, Broken> {
    let mut columns: Vec<StringBuilder> = names.iter().map(|_| StringBuilder::new()).collect();
    let mut rows = 0;
    for object in objects.take(BATCH_ROWS) {
        let object = object?;
        for (name, column) in names.iter().zip(&mut columns) {
            match object.get(name) {
                None | Some(Value::Null) => column.append_null(),
                Some(Value::String(text)) => column.append_value(text),
                Some(value) => column.append_value(value.to_string()),
            }
        }
        rows += 1;
    }
    if rows == 0 {
        return Ok(None);
    }
    let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
    let columns = names.iter().zip(columns).map(|(name, column)| (name, column, true));
    Ok(Some(RecordBatch::try_from_iter_with_nullable(columns)?))
}

pub(super) fn write(file: WholeFile, table: &RecordBatch) -> Result<WholeFile, Broken> {
    let mut writer = BufWriter::new(file);
    for row in 0..table.num_rows() {
        let mut object = Map::new();
        for (field, column) in table.schema().fields().iter().zip(table.columns()) {
            let value = match (column.is_null(row), field.data_type()) {
                (true, _) => Value::Null,
                (false, DataType::Utf8) => array_value_to_string(column, row)?.into(),
                (false, _) => serde_json::from_str(&array_value_to_string(column, row)?)?,
            };
            object.insert(field.name().clone(), value);
        }
        writeln!(writer, "{}", Value::Object(object))?;
    }
    Ok(writer.into_inner().map_err(IntoInnerError::into_error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_the_order_of_the_lines_and_may_be_missing() {
        let mut file = tempfile::tempfile().unwrap();
        let text = "{\"z\": \"001\", \"a\": 1.5}\n\n{\"z\": 2, \"y\": 3, \"a\": null}\n";
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        let opened = open(file).unwrap();
        assert_eq!(opened.names, ["z", "a", "y"]);
        let batches: Vec<RecordBatch> =
            opened.rows.read(&[0, 2]).unwrap().map(Result::unwrap).collect();
        let cells = |column: usize| {
            let column = batches[0].column(column);
            [0, 1].map(|row| array_value_to_string(column, row).unwrap())
        };
        assert_eq!(
            (batches.len(), cells(0), cells(1)),
            (1, ["001", "2"].map(String::from), ["", "3"].map(String::from))
        );
    }

    #[test]
    fn lines_that_are_no_objects_are_named() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"{\"a\": 1}\n[1]\n").unwrap();
        file.rewind().unwrap();
        let error = open(file).err().unwrap().to_string();
        assert!(error.starts_with("line 2: ") && error.contains("an object of a row"), "{error}");
    }

    #[test]
    fn a_line_that_says_a_thing_twice_is_named() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"{\"a\": 1}\n{\"a\": 1, \"b\": 2, \"a\": 3}\n").unwrap();
        file.rewind().unwrap();
        let error = open(file).err().unwrap().to_string();
        assert!(error.starts_with("line 2: it has \"a\" twice"), "{error}");
    }
}
