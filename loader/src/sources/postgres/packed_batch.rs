//! Record batches with the features of a row packed, for programs that want no panel.
//!
//! Columns are the series (`Utf8`), the time as Arrow keeps it, and one
//! `FixedSizeList<Float32, F>`, named `features`, with all values of the row. A NULL in it is NaN.

use super::copy::{CopyColumns, fields::TimeField};
use crate::{rows::Chunk, time::DAY};
use arrow::{
    array::{
        ArrayRef, Date32Array, FixedSizeListArray, Float32Array, Int64Array, RecordBatch,
        StringArray, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use std::{collections::HashMap, sync::Arc};

/// The name of the packed column.
const FEATURES: &str = "features";

/// The schema of packed batches; the names of the values are in its metadata, one a line.
pub(super) fn schema(columns: &CopyColumns) -> SchemaRef {
    let series = columns.series.iter().map(|(name, _)| Field::new(name, DataType::Utf8, false));
    let time = Field::new(&columns.time.0, time_type(columns.time.1), false);
    let width = i32::try_from(columns.width()).expect("a row has fewer than 2^31 values");
    let features =
        Field::new(FEATURES, DataType::new_fixed_size_list(DataType::Float32, width, false), false);
    let names = columns.value_names().join("\n");
    let fields: Vec<Field> = series.chain([time, features]).collect();
    let metadata = HashMap::from([(FEATURES.to_owned(), names)]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn time_type(field: TimeField) -> DataType {
    match field {
        TimeField::Date => DataType::Date32,
        TimeField::Integer(_) => DataType::Int64,
        TimeField::ZonedTimestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        TimeField::Timestamp | TimeField::Clock | TimeField::Text => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
    }
}

/// A chunk as a record batch; `names` are what its codes mean.
pub(super) fn from_chunk(columns: &CopyColumns, names: &[String], chunk: Chunk) -> RecordBatch {
    let schema = schema(columns);
    let series = columns.series.as_ref().map(|_| {
        let names = chunk.codes.iter().map(|code| &names[*code as usize]);
        Arc::new(StringArray::from_iter_values(names)) as ArrayRef
    });
    let time: ArrayRef = match columns.time.1 {
        TimeField::Integer(_) => Arc::new(Int64Array::from(chunk.times)),
        TimeField::Date => {
            let day = |time: &i64| i32::try_from(time / DAY);
            let days: Result<Vec<i32>, _> = chunk.times.iter().map(day).collect();
            Arc::new(Date32Array::from(days.expect("the server's days fit 32 bits")))
        }
        _ => {
            let times = TimestampMicrosecondArray::from(chunk.times);
            Arc::new(times.with_data_type(time_type(columns.time.1)))
        }
    };
    let width = i32::try_from(columns.width()).expect("checked for the schema");
    let field = Arc::new(Field::new_list_field(DataType::Float32, false));
    let values = Arc::new(Float32Array::from(chunk.values));
    let features = Arc::new(FixedSizeListArray::new(field, width, values, None));
    let columns = series.into_iter().chain([time, features as ArrayRef]).collect();
    RecordBatch::try_new(schema, columns).expect("the columns are those of the schema")
}
