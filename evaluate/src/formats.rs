//! The files that tables are read from and written to: one line and one file each.

use crate::error::EvaluateError;
use arrow::{array::RecordBatch, error::ArrowError};
use millstream_data::{WholeFile, plain_file};
use std::{
    fs::File,
    io::{Read, Seek},
    path::{Path, PathBuf},
};

/// Rows that are read at once.
const BATCH_ROWS: usize = 16 * 1024;

/// A file whose names of columns are known.
pub(crate) struct Opened {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Box<dyn Rows>,
}

/// The rows of a file, to be read once.
pub(crate) trait Rows {
    /// Batches of these columns alone, by their places.
    fn read(self: Box<Self>, columns: &[usize]) -> Result<Batches, Broken>;
}

/// Batches of rows, or what is wrong with the file.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Broken>>>;

/// What a library says of a file.
pub(crate) type Broken = Box<dyn std::error::Error + Send + Sync>;

/// A file format.
pub(crate) struct Format {
    /// In a word.
    pub(crate) name: &'static str,
    /// How files in it end.
    pub(crate) endings: &'static [&'static str],
    /// Reads what there is before the rows.
    pub(crate) open: fn(File) -> Result<Opened, Broken>,
    /// Writes a table.
    pub(crate) write: fn(WholeFile, &RecordBatch) -> Result<WholeFile, Broken>,
}

/// Makes of the list its modules, each with its `NAME`, its `ENDINGS` and two functions, and [`FORMATS`].
macro_rules! formats {
    ($($module:ident;)+) => {
        $(mod $module;)+

        /// The formats there are.
        const FORMATS: &[Format] = &[$(Format {
            name: $module::NAME,
            endings: $module::ENDINGS,
            open: $module::open,
            write: $module::write,
        }),+];
    };
}

formats! {
    csv;
    jsonl;
    parquet;
}

/// How Parquet begins.
const PARQUET: [u8; 4] = *b"PAR1";

/// How files can end, for a message.
const EXPECTED: &str = ".parquet, .csv or .jsonl";

impl Format {
    /// By the ending of a name; `what` is to be done with the file.
    fn of(path: &Path, what: &'static str) -> Result<&'static Format, EvaluateError> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let ends =
            |format: &&Format| format.endings.iter().any(|one| ending.as_deref() == Some(*one));
        let path = path.to_owned();
        let expected = EXPECTED;
        FORMATS.iter().find(ends).ok_or(EvaluateError::Ending { path, what, expected })
    }

    /// Of a file that is there: where its name does not say so, Parquet says it in its first bytes.
    fn of_file(path: &Path, file: &mut File) -> Result<&'static Format, EvaluateError> {
        let by_name = Format::of(path, "read");
        let mut start = [0; PARQUET.len()];
        if by_name.is_err() && file.read_exact(&mut start).is_ok() && start == PARQUET {
            let back = file.rewind();
            back.map_err(|source| EvaluateError::Read { path: path.to_owned(), source })?;
            return Format::of("x.parquet".as_ref(), "read");
        }
        by_name
    }
}

/// A table in a file, Parquet, CSV or JSON lines by the ending of its name; Parquet is known by its first bytes too. CSV has a header line, and all cells
/// of it and of JSON are text until somebody wants numbers.
pub struct TableFile {
    path: PathBuf,
    format: &'static Format,
    opened: Opened,
}

impl TableFile {
    /// Opens a file and reads the names of its columns.
    ///
    /// # Errors
    /// When there is no such file, it is in no format that is read, or it is not what its name says.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, EvaluateError> {
        let path = path.into();
        let file = plain_file::open(&path);
        let mut file = file.map_err(|source| EvaluateError::Read { path: path.clone(), source })?;
        let format = Format::of_file(&path, &mut file)?;
        let opened = (format.open)(file).map_err(|source| broken(&path, format, source))?;
        Ok(TableFile { path, format, opened })
    }

    /// The names of the columns.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.opened.names
    }

    /// Reads these columns, batch by batch, and hands each on.
    ///
    /// # Errors
    /// When the file is broken, or what `take` says.
    pub fn read<'a>(
        self,
        columns: impl Iterator<Item = &'a str>,
        mut take: impl FnMut(&RecordBatch) -> Result<(), EvaluateError>,
    ) -> Result<(), EvaluateError> {
        let TableFile { path, format, opened: Opened { names, rows } } = self;
        let mut places: Vec<usize> =
            columns.filter_map(|wanted| names.iter().position(|name| name == wanted)).collect();
        places.sort_unstable();
        places.dedup();
        let failed = |source| broken(&path, format, source);
        for batch in rows.read(&places).map_err(failed)? {
            take(&batch.map_err(failed)?)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for TableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file system's own errors are no fault of the file's contents.
fn broken(path: &Path, format: &Format, source: Broken) -> EvaluateError {
    let path = path.to_owned();
    match source.downcast::<ArrowError>().map(|error| *error) {
        Ok(ArrowError::IoError(_, source)) => EvaluateError::Read { path, source },
        Ok(error) => EvaluateError::Broken { path, format: format.name, source: error.into() },
        Err(source) => EvaluateError::Broken { path, format: format.name, source },
    }
}

/// Whether figures can be written to a file that is called like this.
///
/// # Errors
/// When its name ends like no format that is written.
pub fn check_ending(path: &Path) -> Result<(), EvaluateError> {
    Format::of(path, "written").map(|_| ())
}

/// Writes a table to a file, whole or not at all, in the format that its name ends like.
pub(crate) fn write(path: &Path, table: &RecordBatch) -> Result<(), EvaluateError> {
    let format = Format::of(path, "written")?;
    let failed = |source: Broken| EvaluateError::Write { path: path.to_owned(), source };
    let file = WholeFile::create(path).map_err(|error| failed(error.into()))?;
    let file = (format.write)(file, table).map_err(failed)?;
    file.commit().map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tables::batch;

    #[test]
    fn what_is_written_is_read_and_only_the_columns_that_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let table = batch("a,b,c\n1,x,\n2,\"y,z\",5\n");
        for format in FORMATS.iter().filter(|f| cfg!(feature = "parquet") || f.name != "Parquet") {
            let path = folder.path().join("t").with_extension(format.endings[0]);
            write(&path, &table).unwrap();
            let file = TableFile::open(&path).unwrap();
            assert_eq!(file.names(), ["a", "b", "c"]);
            let mut found = Vec::new();
            let read = file.read(["c", "b", "nothing"].into_iter(), |batch| {
                found.push(batch.clone());
                Ok(())
            });
            read.unwrap();
            assert_eq!(found, [table.project(&[1, 2]).unwrap()], "{}", format.name);
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_is_known_without_an_ending() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, &batch("a,b\n1,x\n")).unwrap();
        let bare = folder.path().join("part-0001");
        std::fs::rename(&path, &bare).unwrap();
        assert_eq!(TableFile::open(&bare).unwrap().names(), ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        for name in ["-", "f.xls"] {
            let error = check_ending(name.as_ref()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name} is in no format that is written;")),
                "{error}"
            );
        }
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: Option<&str>, expected: &str| {
            let path = folder.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let read = TableFile::open(&path).and_then(|file| {
                let names: Vec<String> = file.names().to_vec();
                file.read(names.iter().map(String::as_str), |_| Ok(()))
            });
            let error = read.unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{error}");
        };
        check("gone.csv", None, "cannot read");
        check("a.xlsx", Some(""), "expected a file that ends in .parquet, .csv or .jsonl");
        check("bare", Some(""), "is in no format that is read");
        check("a.csv", Some("a,b\n1\n"), "is not a CSV table");
        check("a.jsonl", Some("{\"a\": 1}\n{\"a\": \n"), "is not JSON lines");
        check("empty.csv", Some(""), "is not a CSV table");
        #[cfg(feature = "parquet")]
        check("a.parquet", Some("a,b\n"), "is not Parquet");
    }
}
