//! The place that forecasts go to: a sink of somebody else, a stream of bytes, or a [`WholeFile`], which has
//! a temporary name until it is complete.
//!
//! Rows are written as they come; memory holds at most one row group. A file that is dropped before it
//! is finished removes itself, so a failed run leaves nothing; what a killed one leaves, the next
//! removes. How rows look in a file is in `sinks/`.

use crate::{
    error::PredictError,
    sinks::{FORMATS, FileWriter, ForecastSink, Format, WriteError, jsonl::JsonLines},
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millstream_data::WholeFile;
use millstream_stage::Flow;
use std::{
    ffi::OsStr,
    fmt, fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Where forecasts go.
#[derive(Debug)]
pub struct Output(Target);

type OpenSink = Box<dyn FnOnce(&SchemaRef) -> Result<Box<dyn ForecastSink>, WriteError>>;

enum Target {
    File { path: PathBuf, format: &'static Format },
    Sink(OpenSink),
    Lines(Box<dyn Write>),
}

impl Output {
    /// A file in the format that its name ends like (one of [`endings`](Output::endings), in capitals
    /// too), or in Parquet if it has no ending.
    ///
    /// # Errors
    /// [`PredictError::Ending`] when there is no such format.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self, PredictError> {
        let path = path.into();
        let ending = Self::ending(&path);
        match Format::of(ending.as_deref()) {
            Some(format) => Ok(Output(Target::File { path, format })),
            None => Err(PredictError::Ending { path, ending: ending.unwrap_or_default() }),
        }
    }

    /// What a file's name ends like, in small letters. A name that is nothing but a known ending (`.csv`) ends
    /// like that.
    #[must_use]
    pub fn ending(path: &Path) -> Option<String> {
        let small = |text: &OsStr| text.to_string_lossy().to_lowercase();
        path.extension().map(small).or_else(|| {
            let name = path.file_name().map(small)?;
            let ending = name.strip_prefix('.')?;
            Format::of(Some(ending)).map(|_| ending.to_owned())
        })
    }

    /// A sink of your own. It is opened before the first batch, with the schema of all rows to come.
    pub fn sink(
        open: impl FnOnce(&SchemaRef) -> Result<Box<dyn ForecastSink>, WriteError> + 'static,
    ) -> Self {
        Output(Target::Sink(Box::new(open)))
    }

    /// JSON lines to a stream of bytes, such as stdout. What was written stays there, also where the rest
    /// does not come. A reader that goes away (`| head`) has all that he wanted: no more is made then, and
    /// that is no error.
    pub fn json_lines(stream: impl Write + 'static) -> Self {
        Output(Target::Lines(Box::new(stream)))
    }

    /// The endings of files that forecasts can be written to, for each format its usual one first.
    pub fn endings() -> impl Iterator<Item = &'static [&'static str]> {
        FORMATS.iter().map(|format| format.endings)
    }

    /// Begins to write. The place of a file need not exist yet, and is not touched.
    ///
    /// # Errors
    /// [`PredictError::Write`] when the folder cannot be written to, [`PredictError::NotAFile`] when
    /// there is something that is no file, or what the sink says.
    pub(crate) fn open(self, schema: &SchemaRef) -> Result<OpenOutput, PredictError> {
        match self.0 {
            Target::Sink(open) => match open(schema) {
                Ok(sink) => Ok(OpenOutput::Sink(sink)),
                Err(source) => Err(PredictError::Sink { source }),
            },
            Target::Lines(stream) => match JsonLines::new(stream, schema) {
                Ok(lines) => Ok(OpenOutput::Lines(lines)),
                Err(error) => Err(PredictError::Stream { source: error.into() }),
            },
            Target::File { path, format } => {
                let path = replaceable(path)?;
                let file = WholeFile::create(&path).map_err(|error| at(&path, error.into()))?;
                let writer = (format.open)(file, schema).map_err(|error| at(&path, error))?;
                Ok(OpenOutput::File { path, writer })
            }
        }
    }
}

/// What is being written to.
pub(crate) enum OpenOutput {
    File { path: PathBuf, writer: Box<dyn FileWriter> },
    Sink(Box<dyn ForecastSink>),
    Lines(JsonLines<Box<dyn Write>>),
}

impl OpenOutput {
    /// Takes rows; says whether more are welcome.
    ///
    /// # Errors
    /// [`PredictError::Write`], [`PredictError::WriteRows`], [`PredictError::Stream`] or
    /// [`PredictError::Sink`].
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<Flow, PredictError> {
        match self {
            OpenOutput::File { path, writer } => writer.write(rows).map_err(|e| at(path, e))?,
            OpenOutput::Sink(sink) => {
                sink.write(rows).map_err(|source| PredictError::Sink { source })?;
            }
            OpenOutput::Lines(lines) => return stays(lines.append(rows)),
        }
        Ok(Flow::Continue)
    }

    /// Completes a file, waits until it is on the disk and gives it its name; gives that.
    ///
    /// # Errors
    /// Writing or renaming failed; the file is removed.
    pub(crate) fn finish(self) -> Result<Option<PathBuf>, PredictError> {
        match self {
            OpenOutput::File { path, writer } => {
                let file = writer.finish().map_err(|error| at(&path, error))?;
                file.commit().map_err(|error| at(&path, error.into()))?;
                Ok(Some(path))
            }
            OpenOutput::Sink(sink) => sink.finish().map_err(|source| PredictError::Sink { source }),
            OpenOutput::Lines(mut lines) => {
                stays(lines.flush().map_err(WriteError::from)).map(|_| None)
            }
        }
    }
}

/// Whether the reader of a stream still reads.
fn stays(written: Result<(), WriteError>) -> Result<Flow, PredictError> {
    let Err(source) = written else { return Ok(Flow::Continue) };
    let gone = source.downcast_ref::<std::io::Error>();
    match gone.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        true => Ok(Flow::Stop),
        false => Err(PredictError::Stream { source }),
    }
}

/// The same place with links followed, if what is there may be replaced: nothing or a file. To rename
/// over anything else would take it away from the whole machine.
fn replaceable(path: PathBuf) -> Result<PathBuf, PredictError> {
    let Ok(found) = fs::symlink_metadata(&path) else { return Ok(path) };
    let refused = |path, what| Err(PredictError::NotAFile { path, what });
    if found.is_dir() {
        return refused(path, "a folder");
    }
    if !found.is_symlink() {
        return if found.is_file() { Ok(path) } else { refused(path, "no regular file") };
    }
    match fs::canonicalize(&path) {
        Ok(real) if real.is_file() => Ok(real),
        _ => refused(path, "a link that leads to no regular file"),
    }
}

/// An error of a file with its name; the file system's own are said in its own words.
fn at(path: &Path, error: WriteError) -> PredictError {
    let path = path.to_owned();
    match error.downcast() {
        Ok(source) => PredictError::Write { path, source: *source },
        Err(source) => PredictError::WriteRows { path, source },
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File { path, format } => write!(f, "{format:?} {}", path.display()),
            Target::Sink(_) => f.write_str("a sink"),
            Target::Lines(_) => f.write_str("JSON lines"),
        }
    }
}
