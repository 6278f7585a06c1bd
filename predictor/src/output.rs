//! The file that forecasts go into: under a temporary name until it is complete.
//!
//! Rows are written as they come; memory holds at most one row group. A file that is dropped
//! before [`OutputFile::finish`] removes itself, so a failed run leaves nothing.

use crate::error::PredictError;
use arrow::{array::RecordBatch, csv, datatypes::Schema};
use parquet::{
    arrow::ArrowWriter, basic::Compression, errors::ParquetError,
    file::properties::WriterProperties,
};
use std::{
    fs::{self, File},
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
    partial: PathBuf,
    /// `None` once closed.
    format: Option<Format>,
}

#[derive(Debug)]
enum Format {
    Parquet(ArrowWriter<File>),
    Csv(csv::Writer<BufWriter<File>>),
}

impl OutputFile {
    /// Starts a file beside its final place, which need not exist yet and is not touched.
    ///
    /// # Errors
    /// [`PredictError::Write`] when the folder cannot be written to, [`PredictError::NotAFile`] when
    /// there is something that is no file.
    pub(crate) fn create(output: Output, schema: &Arc<Schema>) -> Result<Self, PredictError> {
        let output = output.replaceable()?;
        let mut partial = output.path().as_os_str().to_owned();
        partial.push(format!(".partial-{}", std::process::id()));
        let partial = PathBuf::from(partial);
        let file = File::create(&partial)
            .map_err(|source| PredictError::Write { path: output.path().to_owned(), source })?;
        // From here on, dropping `this` removes the file.
        let is_parquet = matches!(output, Output::Parquet(_));
        let (Output::Parquet(path) | Output::Csv(path)) = output;
        let mut this = OutputFile { path, partial, format: None };
        this.format = Some(if is_parquet {
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(ROW_GROUP))
                .build();
            let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
            Format::Parquet(writer.map_err(|source| this.parquet(source))?)
        } else {
            let mut writer = csv::Writer::new(BufWriter::new(file));
            // The header comes with the first batch, even one without rows.
            let header = writer.write(&RecordBatch::new_empty(Arc::clone(schema)));
            header.map_err(|source| this.csv(source))?;
            Format::Csv(writer)
        });
        Ok(this)
    }

    /// Appends rows.
    ///
    /// # Errors
    /// [`PredictError::WriteParquet`] or [`PredictError::WriteCsv`].
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), PredictError> {
        let path = &self.path;
        match self.format.as_mut().expect("only `finish` closes the file") {
            Format::Parquet(writer) => writer
                .write(rows)
                .map_err(|source| PredictError::WriteParquet { path: path.clone(), source }),
            Format::Csv(writer) => writer
                .write(rows)
                .map_err(|source| PredictError::WriteCsv { path: path.clone(), source }),
        }
    }

    /// Completes the file, waits until it is on the disk and gives it its name.
    ///
    /// # Errors
    /// Writing or renaming failed; the file is removed.
    pub(crate) fn finish(mut self) -> Result<PathBuf, PredictError> {
        let file = match self.format.take().expect("only `finish` closes the file") {
            Format::Parquet(writer) => {
                writer.into_inner().map_err(|source| self.parquet(source))?
            }
            Format::Csv(writer) => {
                writer.into_inner().into_inner().map_err(|error| self.io(error.into_error()))?
            }
        };
        file.sync_all().map_err(|source| self.io(source))?;
        fs::rename(&self.partial, &self.path).map_err(|source| self.io(source))?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // The new name is part of the folder, which is synced on its own.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| self.io(source))?;
        Ok(self.path.clone())
    }

    fn io(&self, source: io::Error) -> PredictError {
        PredictError::Write { path: self.path.clone(), source }
    }

    fn parquet(&self, source: ParquetError) -> PredictError {
        PredictError::WriteParquet { path: self.path.clone(), source }
    }

    fn csv(&self, source: arrow::error::ArrowError) -> PredictError {
        PredictError::WriteCsv { path: self.path.clone(), source }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Fails when `finish` has renamed the file, which is as it should be; any other failure
        // leaves a file that says by its name that it is incomplete.
        drop(fs::remove_file(&self.partial));
    }
}
