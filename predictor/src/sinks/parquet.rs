//! Parquet, compressed with Snappy. Left out of builds without the feature `parquet`, where asking for
//! it is an error.

use super::Opened;
use arrow::datatypes::SchemaRef;
use millstream_data::WholeFile;

pub(super) const ENDINGS: &[&str] = &["parquet", "pq"];

#[cfg(not(feature = "parquet"))]
pub(super) fn open(_: WholeFile, _: &SchemaRef) -> Opened {
    Err("this build has no Parquet; name a .csv file with --output, or build with the cargo feature \"parquet\""
        .into())
}

#[cfg(feature = "parquet")]
pub(super) use writer::open;

#[cfg(feature = "parquet")]
mod writer {
    use super::*;
    use crate::sinks::{FileWriter, WriteError};
    use arrow::array::RecordBatch;
    use parquet::{
        arrow::ArrowWriter, basic::Compression, errors::ParquetError,
        file::properties::WriterProperties,
    };
    use std::sync::Arc;

    /// Rows that are gathered before they are written: some megabytes.
    const ROW_GROUP: usize = 128 * 1024;

    pub(in super::super) fn open(file: WholeFile, schema: &SchemaRef) -> Opened {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .build();
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
        Ok(Box::new(writer.map_err(bare)?))
    }

    impl FileWriter for ArrowWriter<WholeFile> {
        fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
            ArrowWriter::write(self, rows).map_err(bare)
        }

        fn finish(self: Box<Self>) -> Result<WholeFile, WriteError> {
            self.into_inner().map_err(bare)
        }
    }

    /// The file system's own errors are not wrapped.
    fn bare(error: ParquetError) -> WriteError {
        match error {
            ParquetError::External(source) => source,
            error => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "parquet")]
    #[test]
    fn it_is_compressed_and_reads_back() {
        use parquet::{arrow::arrow_reader::ParquetRecordBatchReaderBuilder, basic::Compression};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, super::super::written(super::open)).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let column = reader.metadata().row_group(0).column(0).compression();
        assert_eq!(column, Compression::SNAPPY);
        let rows = reader.build().unwrap().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(rows, [super::super::sample()]);
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn what_is_left_out_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = millstream_data::WholeFile::create(&folder.path().join("x")).unwrap();
        let error = super::open(file, &super::super::sample().schema()).unwrap_err().to_string();
        assert!(error.contains("the feature \"parquet\""), "{error}");
    }
}
