//! CSV with a header line. Cells are read as text: a series called `000001` keeps its zeros, and what is no
//! number is refused where one is wanted.

use super::{BATCH_ROWS, Batches, Broken, Opened, Rows};
use arrow::{
    array::RecordBatch,
    csv::{ReaderBuilder, Writer, reader::Format},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use millstream_data::WholeFile;
use std::{
    fs::File,
    io::{BufWriter, IntoInnerError, Seek},
    sync::Arc,
};

pub(super) const NAME: &str = "a CSV table";
pub(super) const ENDINGS: &[&str] = &["csv"];

struct Csv {
    file: File,
    schema: SchemaRef,
}

pub(super) fn open(mut file: File) -> Result<Opened, Broken> {
    let (header, _) = Format::default().with_header(true).infer_schema(&file, Some(0))?;
    file.rewind()?;
    let names: Vec<String> =
        header.fields().iter().map(|field| field.name().trim().to_owned()).collect();
    if names.is_empty() {
        return Err("it is empty; a CSV table has a header line".into());
    }
    let fields: Vec<Field> =
        names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    Ok(Opened { names, rows: Box::new(Csv { file, schema }) })
}

impl Rows for Csv {
    fn read(self: Box<Self>, columns: &[usize]) -> Result<Batches, Broken> {
        let builder = ReaderBuilder::new(self.schema).with_header(true).with_batch_size(BATCH_ROWS);
        let reader = builder.with_projection(columns.to_vec()).build(self.file)?;
        Ok(Box::new(reader.map(|batch| batch.map_err(Broken::from))))
    }
}

pub(super) fn write(file: WholeFile, table: &RecordBatch) -> Result<WholeFile, Broken> {
    let mut writer = Writer::new(BufWriter::new(file));
    writer.write(table)?;
    Ok(writer.into_inner().into_inner().map_err(IntoInnerError::into_error)?)
}
