//! CSV with a header line; missing values are empty.

use super::{FileWriter, Opened, WriteError};
use arrow::{array::RecordBatch, csv::Writer, datatypes::SchemaRef, error::ArrowError};
use millstream_data::WholeFile;
use std::{io::BufWriter, sync::Arc};

pub(super) const ENDINGS: &[&str] = &["csv"];

pub(super) fn open(file: WholeFile, schema: &SchemaRef) -> Opened {
    let mut writer = Box::new(Writer::new(BufWriter::new(file)));
    // The header comes with the first batch, even one without rows.
    FileWriter::write(&mut *writer, &RecordBatch::new_empty(Arc::clone(schema)))?;
    Ok(writer)
}

impl FileWriter for Writer<BufWriter<WholeFile>> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
        Writer::write(self, rows).map_err(|error| match error {
            ArrowError::IoError(_, source) => source.into(),
            error => error.into(),
        })
    }

    fn finish(self: Box<Self>) -> Result<WholeFile, WriteError> {
        Ok(self.into_inner().into_inner().map_err(std::io::IntoInnerError::into_error)?)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_header_and_the_unknown_is_empty() {
        let found = super::super::written(super::open);
        assert_eq!(String::from_utf8(found).unwrap(), "step,y\n1,0.5\n2,\n");
    }
}
