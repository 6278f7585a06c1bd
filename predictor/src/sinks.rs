//! Where forecasts go: what a sink is, and the file formats there are, one line each and a file.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millstream_data::WholeFile;
use std::{error::Error, fmt, fmt::Debug, path::PathBuf};

/// Takes the table of forecasts, a batch of rows after the other.
///
/// Opened by the function given to [`Output::sink`](crate::Output::sink), it gets the rows of every
/// forecast batch by [`write`](ForecastSink::write), in the order of the stream, and once all have come
/// [`finish`](ForecastSink::finish). A stream that fails, is interrupted or stopped ends with the sink
/// being dropped instead: what it took must then be gone, as half the forecasts would look like all.
/// After an error of its own it is dropped too, and nothing more is asked of it.
pub trait ForecastSink {
    /// Takes rows; there may be none of them. They have the schema that the sink was opened with.
    ///
    /// # Errors
    /// Ends the prediction: what went wrong, in a line.
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError>;

    /// All rows have come: makes them last. Gives the file that they are in, or what else their place is called,
    /// where it has a name.
    ///
    /// # Errors
    /// As for [`write`](ForecastSink::write); the forecasts must then be gone.
    fn finish(self: Box<Self>) -> Result<Option<PathBuf>, WriteError>;
}

/// Why a sink does not take forecasts. An [`io::Error`](std::io::Error) is said in the system's words.
pub type WriteError = Box<dyn Error + Send + Sync>;

/// A file that is being written in some format. What of it appears under its name, and when, is not
/// known here.
pub(crate) trait FileWriter: Debug {
    /// Appends rows.
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError>;

    /// Writes what is left, and gives the file back.
    fn finish(self: Box<Self>) -> Result<WholeFile, WriteError>;
}

/// A table that was begun.
pub(crate) type Opened = Result<Box<dyn FileWriter>, WriteError>;

/// A file format.
pub(crate) struct Format {
    /// How files in it end, the usual ending first.
    pub(crate) endings: &'static [&'static str],
    /// Begins a table with these columns.
    pub(crate) open: fn(WholeFile, &SchemaRef) -> Opened,
}

/// Makes of the list its modules, each with its `ENDINGS` and a function `open`, and [`FORMATS`].
macro_rules! formats {
    ($($module:ident;)+) => {
        $(pub(crate) mod $module;)+

        /// The formats there are.
        pub(crate) const FORMATS: &[Format] =
            &[$(Format { endings: $module::ENDINGS, open: $module::open }),+];
    };
}

#[cfg(feature = "postgres")]
pub(crate) mod postgres;

formats! {
    csv;
    jsonl;
    parquet;
}

/// The ending of a file whose name has none.
const DEFAULT: &str = "parquet";

impl Format {
    /// The format of files with this ending, or with none.
    pub(crate) fn of(ending: Option<&str>) -> Option<&'static Format> {
        let ending = ending.unwrap_or(DEFAULT);
        FORMATS.iter().find(|format| format.endings.contains(&ending))
    }
}

impl Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.endings[0])
    }
}

/// Two rows, one of them with nothing known.
#[cfg(test)]
fn sample() -> RecordBatch {
    use arrow::array::{ArrayRef, Float32Array, Int32Array};
    let step: ArrayRef = std::sync::Arc::new(Int32Array::from(vec![1, 2]));
    let y: ArrayRef = std::sync::Arc::new(Float32Array::from(vec![Some(0.5), None]));
    RecordBatch::try_from_iter_with_nullable([("step", step, false), ("y", y, true)]).unwrap()
}

/// The file that a format makes of the [`sample`].
#[cfg(test)]
fn written(open: fn(WholeFile, &SchemaRef) -> Opened) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts");
    let mut writer = open(WholeFile::create(&path).unwrap(), &sample().schema()).unwrap();
    writer.write(&sample()).unwrap();
    writer.finish().unwrap().commit().unwrap();
    std::fs::read(path).unwrap()
}
