//! Small tables for tests, written as CSV.

use arrow::{
    array::RecordBatch,
    csv::ReaderBuilder,
    datatypes::{DataType, Field, Schema},
};
use std::sync::Arc;

/// A batch of text columns.
pub(crate) fn batch(text: &str) -> RecordBatch {
    let header = text.lines().next().unwrap();
    let fields: Vec<Field> =
        header.split(',').map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let builder = ReaderBuilder::new(Arc::new(Schema::new(fields))).with_header(true);
    builder.build(text.as_bytes()).unwrap().next().unwrap().unwrap()
}

pub(crate) fn names(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.name().clone()).collect()
}
