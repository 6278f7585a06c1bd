//! The floor of decoding: the Parquet crate's record batches, each dropped when the next one comes.

use crate::harness::{
    Failure,
    sample::{Clock, Sample, Whose},
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::{fs::File, hint::black_box, path::Path};

pub(crate) fn read(path: &Path) -> Result<Sample<()>, Failure> {
    let clock = Clock::start(Whose::Own)?;
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()? {
        black_box(batch?);
    }
    clock.stop()
}
