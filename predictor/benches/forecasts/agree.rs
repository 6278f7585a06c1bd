//! Whether the file holds what the model gives: otherwise the times would not be about the same
//! work.

use crate::{forward, harness::Failure, ours, workload::Work};
use arrow::{array::AsArray as _, datatypes::Float32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use tch::Tensor;

/// # Errors
/// When the two forecast different things.
pub(crate) fn check(work: &Work) -> Result<(), Failure> {
    ours::run(work)?;
    let expected = Tensor::cat(&forward::run(work)?.1, 0);
    let mut forecasts = Vec::new();
    for rows in ParquetRecordBatchReaderBuilder::try_new(File::open(ours::file(work))?)?.build()? {
        let rows = rows?;
        let column = rows.column_by_name("f000_forecast").ok_or("there are no forecasts")?;
        forecasts.extend_from_slice(column.as_primitive::<Float32Type>().values());
    }
    let found = Tensor::from_slice(&forecasts).view([-1, 1, 1]);
    if found.size() != expected.size() || !found.equal(&expected) {
        return Err("the file does not hold the model's forecasts".into());
    }
    eprintln!("{}: {} forecasts, the same on both sides", work.kind.describe(), forecasts.len());
    Ok(())
}
