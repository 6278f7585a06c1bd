//! A shard: one record batch of a panel, with its three columns at hand.
//!
//! Columns are the series code (`UInt32`), the time (`Int64`) and the row's values
//! (`FixedSizeList<Float32, F>`). Order and names of the rows are the panel's to check.

use crate::panel::PanelError;
use arrow::{
    array::{
        Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch,
        UInt32Array,
    },
    buffer::ScalarBuffer,
    datatypes::{DataType, Field, Float32Type, Int64Type, Schema, UInt32Type},
};
use std::{collections::HashMap, sync::Arc};

/// One record batch of a panel, with its three columns at hand.
#[derive(Debug, Clone)]
pub struct Shard {
    codes: ScalarBuffer<u32>,
    times: ScalarBuffer<i64>,
    values: ScalarBuffer<f32>,
}

impl Shard {
    /// Wraps three columns of equal length; `values` holds `width` values a row.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    #[must_use]
    pub fn new(codes: Vec<u32>, times: Vec<i64>, values: Vec<f32>, width: usize) -> Self {
        assert_eq!(codes.len(), times.len(), "one time per row");
        assert_eq!(codes.len() * width, values.len(), "{width} values per row");
        Shard { codes: codes.into(), times: times.into(), values: values.into() }
    }

    /// Series codes, one a row.
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Times, one a row.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Values, row-major. A missing value is NaN.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// The shard as an Arrow record batch, sharing its memory.
    ///
    /// # Panics
    /// When `width` is not the width the shard was made with.
    #[must_use]
    pub fn to_record_batch(&self, width: usize) -> RecordBatch {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let values = FixedSizeListArray::try_new(
            item,
            i32::try_from(width).expect("a row has fewer than 2^31 values"),
            Arc::new(Float32Array::new(self.values.clone(), None)),
            None,
        )
        .expect("a shard's values are whole rows");
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::new(self.codes.clone(), None)),
            Arc::new(Int64Array::new(self.times.clone(), None)),
            Arc::new(values),
        ];
        RecordBatch::try_new(shard_schema(width), columns)
            .expect("a shard's columns fit its schema")
    }

    pub(crate) fn from_record_batch(
        batch: &RecordBatch,
        shard: usize,
        width: usize,
    ) -> Result<Self, PanelError> {
        let wrong =
            || PanelError::Shape { shard, width, found: format!("{:?}", batch.schema().fields()) };
        if batch.num_columns() != 3 || batch.columns().iter().any(|c| c.null_count() > 0) {
            return Err(wrong());
        }
        let codes = batch.column(0).as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
        let times = batch.column(1).as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let lists = batch.column(2).as_fixed_size_list_opt().ok_or_else(wrong)?;
        let inner = lists.values().as_primitive_opt::<Float32Type>().ok_or_else(wrong)?;
        if lists.value_length() as usize != width || inner.null_count() > 0 {
            return Err(wrong());
        }
        Ok(Shard {
            codes: codes.values().clone(),
            times: times.values().clone(),
            values: inner.values().clone(),
        })
    }
}

/// The Arrow schema of every shard of a panel with `width` values a row.
///
/// # Panics
/// When `width` does not fit Arrow's 31-bit list length.
#[must_use]
pub fn shard_schema(width: usize) -> Arc<Schema> {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let length = i32::try_from(width).expect("a row has fewer than 2^31 values");
    let tensor = HashMap::from([
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), format!("{{\"shape\":[{width}]}}")),
    ]);
    Arc::new(Schema::new(vec![
        Field::new("series", DataType::UInt32, false),
        Field::new("time", DataType::Int64, false),
        Field::new("values", DataType::FixedSizeList(item, length), false).with_metadata(tensor),
    ]))
}
