//! The file that forecasts go into: a [`WholeFile`], under a temporary name until it is complete.
//!
//! Rows are written as they come; memory holds at most one row group. A file that is dropped
//! before [`OutputFile::finish`] removes itself, so a failed run leaves nothing; what a killed one
//! leaves, the next removes.

use crate::error::PredictError;
use arrow::{array::RecordBatch, csv, datatypes::Schema, error::ArrowError};
use millstream_data::WholeFile;
use parquet::{
    arrow::ArrowWriter, basic::Compression, errors::ParquetError,
    file::properties::WriterProperties,
};
use std::{
    fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows that are gathered before they are written: some megabytes.
const ROW_GROUP: usize = 128 * 1024;

/// Where forecasts go, and in what format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A Parquet file, compressed with Snappy.
    Parquet(PathBuf),
    /// A CSV file with a header line; missing values are empty.
    Csv(PathBuf),
}

impl Output {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Output::Parquet(path) | Output::Csv(path) => path,
        }
    }

    /// The same place with links followed, if what is there may be replaced: nothing or a file. To
    /// rename over anything else would take it away from the whole machine.
    fn replaceable(self) -> Result<Self, PredictError> {
        let path = self.path();
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(self) };
        let refused = |what| Err(PredictError::NotAFile { path: path.to_owned(), what });
        if found.is_dir() {
            return refused("a folder");
        }
        if !found.is_symlink() {
            return if found.is_file() { Ok(self) } else { refused("no regular file") };
        }
        match fs::canonicalize(path) {
            Ok(real) if real.is_file() => Ok(match self {
                Output::Parquet(_) => Output::Parquet(real),
                Output::Csv(_) => Output::Csv(real),
            }),
            _ => refused("a link that leads to no regular file"),
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Parquet(ArrowWriter<WholeFile>),
    Csv(csv::Writer<BufWriter<WholeFile>>),
}

impl OutputFile {
    /// Starts a file beside its final place, which need not exist yet and is not touched.
    ///
    /// # Errors
    /// [`PredictError::Write`] when the folder cannot be written to, [`PredictError::NotAFile`] when
    /// there is something that is no file.
    pub(crate) fn create(output: Output, schema: &Arc<Schema>) -> Result<Self, PredictError> {
        let output = output.replaceable()?;
        let path = output.path().to_owned();
        let file = WholeFile::create(&path)
            .map_err(|source| PredictError::Write { path: path.clone(), source })?;
        let format = match output {
            Output::Parquet(_) => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(ROW_GROUP))
                    .build();
                let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
                Format::Parquet(writer.map_err(in_parquet(&path))?)
            }
            Output::Csv(_) => {
                let mut writer = csv::Writer::new(BufWriter::new(file));
                // The header comes with the first batch, even one without rows.
                let header = writer.write(&RecordBatch::new_empty(Arc::clone(schema)));
                header.map_err(in_csv(&path))?;
                Format::Csv(writer)
            }
        };
        Ok(OutputFile { path, format })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// [`PredictError::WriteParquet`] or [`PredictError::WriteCsv`].
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), PredictError> {
        match &mut self.format {
            Format::Parquet(writer) => writer.write(rows).map_err(in_parquet(&self.path)),
            Format::Csv(writer) => writer.write(rows).map_err(in_csv(&self.path)),
        }
    }

    /// Completes the file, waits until it is on the disk and gives it its name.
    ///
    /// # Errors
    /// Writing or renaming failed; the file is removed.
    pub(crate) fn finish(self) -> Result<PathBuf, PredictError> {
        let OutputFile { path, format } = self;
        let io = |source| PredictError::Write { path: path.clone(), source };
        let file = match format {
            Format::Parquet(writer) => writer.into_inner().map_err(in_parquet(&path))?,
            Format::Csv(writer) => {
                writer.into_inner().into_inner().map_err(|error| io(error.into_error()))?
            }
        };
        file.commit().map_err(io)?;
        Ok(path)
    }
}

/// The file system's own errors are said in its own words.
fn in_parquet(path: &Path) -> impl FnOnce(ParquetError) -> PredictError {
    let path = path.to_owned();
    |source| match source {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => PredictError::Write { path, source: *source },
            Err(source) => {
                PredictError::WriteParquet { path, source: ParquetError::External(source) }
            }
        },
        source => PredictError::WriteParquet { path, source },
    }
}

fn in_csv(path: &Path) -> impl FnOnce(ArrowError) -> PredictError {
    let path = path.to_owned();
    |source| match source {
        ArrowError::IoError(_, source) => PredictError::Write { path, source },
        source => PredictError::WriteCsv { path, source },
    }
}
