//! Parquet. Left out of builds without the feature `parquet`, where asking for it is an error.

use super::{Broken, Opened};
use arrow::array::RecordBatch;
use millstream_data::WholeFile;
use std::fs::File;

pub(super) const NAME: &str = "Parquet";
pub(super) const ENDINGS: &[&str] = &["parquet", "pq"];

#[cfg(not(feature = "parquet"))]
const LEFT_OUT: &str =
    "this build reads and writes no Parquet; build with the cargo feature \"parquet\"";

#[cfg(not(feature = "parquet"))]
pub(super) fn open(_: File) -> Result<Opened, Broken> {
    Err(LEFT_OUT.into())
}

#[cfg(not(feature = "parquet"))]
pub(super) fn write(_: WholeFile, _: &RecordBatch) -> Result<WholeFile, Broken> {
    Err(LEFT_OUT.into())
}

#[cfg(feature = "parquet")]
pub(super) use with_the_feature::{open, write};

#[cfg(feature = "parquet")]
mod with_the_feature {
    use super::*;
    use crate::formats::{BATCH_ROWS, Batches, Rows};
    use parquet::arrow::{
        ArrowWriter, ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder,
    };

    struct Parquet(ParquetRecordBatchReaderBuilder<File>);

    pub(in super::super) fn open(file: File) -> Result<Opened, Broken> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let names = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        Ok(Opened { names, rows: Box::new(Parquet(builder)) })
    }

    impl Rows for Parquet {
        fn read(self: Box<Self>, columns: &[usize]) -> Result<Batches, Broken> {
            let mask = ProjectionMask::roots(self.0.parquet_schema(), columns.iter().copied());
            let reader = self.0.with_projection(mask).with_batch_size(BATCH_ROWS).build()?;
            Ok(Box::new(reader.map(|batch| batch.map_err(Broken::from))))
        }
    }

    pub(in super::super) fn write(
        file: WholeFile,
        table: &RecordBatch,
    ) -> Result<WholeFile, Broken> {
        let mut writer = ArrowWriter::try_new(file, table.schema(), None)?;
        writer.write(table)?;
        Ok(writer.into_inner()?)
    }
}
