//! CSV files with a header line to rows.
//!
//! Cells are read as text and converted here, not by arrow-csv's own inference: a series called
//! `000001` keeps its zeros, and `NaN` or `NA` is a missing number rather than a reason to call a
//! column text. What a column holds is decided by every row of every file, at the price of reading
//! the files twice; nothing is guessed from a sample. How it is decided is in
//! [`cell_counts`].

mod cell_counts;
mod row_lines;

use crate::{
    LoadError,
    columns::TableColumn,
    files::SourceFile,
    progress::ProgressReporter,
    record_batch_rows::{RecordBatchRows, batch_rows},
    request::Request,
    sources::ReadSource,
    table::Table,
};
use arrow::{
    array::AsArray,
    csv::{ReaderBuilder, reader::Format},
    datatypes::{DataType, Field, Schema},
    error::ArrowError,
};
use cell_counts::CellCounts;
use row_lines::{RowLines, line_of};
use std::{fs::File, sync::Arc};

/// CSV files with a header line.
pub(crate) struct Csv;

impl ReadSource for Csv {
    fn keys(&self) -> &'static [&'static str] {
        &["path", "na"]
    }

    fn extension(&self) -> Option<&'static str> {
        Some("csv")
    }

    fn read(
        &self,
        request: &Request<'_>,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Table, LoadError> {
        let files = &request.files;
        let header = header(&files[0])?;
        if header.is_empty() {
            return Err(LoadError::EmptyFile { path: files[0].path().to_path_buf() });
        }
        let table = scan(request, &header, reporter)?;
        let place = files[0].path().display().to_string();
        let mut rows = RecordBatchRows::new(request, table, place)?;
        let needed = rows.needed();
        for file in files {
            rows.enter(&file.path().display().to_string());
            file.read(|| {
                for batch in open(file, &header, Some(needed.clone()))? {
                    rows.append(&batch.map_err(|source| broken(file, source))?)?;
                    reporter.rows(rows.rows())?;
                }
                Ok(())
            })?;
        }
        rows.finish(request, Some(line_of))
    }
}

/// What each column holds, over all files.
fn scan(
    request: &Request<'_>,
    header: &[String],
    reporter: &mut ProgressReporter<'_>,
) -> Result<Vec<TableColumn>, LoadError> {
    let settings = request.settings;
    let keys = [settings.series_column(), Some(settings.time.as_str())];
    let is_value = |name: &String| !keys.contains(&Some(name.as_str()));
    let mut counts: Vec<CellCounts> =
        header.iter().map(|name| CellCounts::new(is_value(name), &settings.na)).collect();
    let mut all_rows = 0;
    for file in &request.files {
        file.read(|| {
            let mut rows = 0;
            for batch in open(file, header, None)? {
                let batch = batch.map_err(|source| broken(file, source))?;
                for (cells, column) in counts.iter_mut().zip(batch.columns()) {
                    cells.add(column.as_string(), file, rows);
                }
                rows += batch.num_rows() as u64;
                reporter.check_interrupt()?;
            }
            all_rows += rows;
            Ok(())
        })?;
    }
    if all_rows == 0 {
        let path = match &request.files[..] {
            [file] => file.path().to_path_buf(),
            _ => settings.path.clone().unwrap_or_default().into(),
        };
        return Err(LoadError::HeaderOnly { path });
    }
    let lines = RowLines::of(counts.iter().filter_map(CellCounts::row_to_name));
    Ok(header.iter().zip(&counts).map(|(name, cells)| cells.describe(name, &lines)).collect())
}

fn header(file: &SourceFile) -> Result<Vec<String>, LoadError> {
    let format = Format::default().with_header(true);
    let (schema, _) =
        format.infer_schema(file.open()?, Some(0)).map_err(|source| broken(file, source))?;
    Ok(schema.fields().iter().map(|field| field.name().trim().to_owned()).collect())
}

/// Batches of text columns. The header must be the one of the first file: columns are found by
/// position.
fn open(
    file: &SourceFile,
    expected: &[String],
    needed: Option<Vec<usize>>,
) -> Result<arrow::csv::Reader<File>, LoadError> {
    let found = header(file)?;
    if found != expected {
        let reason = format!(
            "its header is {found:?}, but the first file's is {expected:?}; files read together need the same columns in the same order"
        );
        return Err(broken(file, ArrowError::CsvError(reason)));
    }
    let fields: Vec<Field> =
        expected.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
    let builder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_header(true)
        .with_batch_size(batch_rows(expected.len()));
    let builder = match needed {
        Some(columns) => builder.with_projection(columns),
        None => builder,
    };
    builder.build(file.open()?).map_err(|source| broken(file, source))
}

fn broken(file: &SourceFile, source: ArrowError) -> LoadError {
    LoadError::Csv { path: file.path().to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceSettings;
    use millstream_data::{Panel, TimeKind};
    use millstream_stage::Warnings;
    use std::ops::ControlFlow;

    /// Writes a file, finds it and does something with it.
    fn with_request<T>(
        text: &str,
        change: impl Fn(&mut SourceSettings),
        work: impl FnOnce(&Request<'_>) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        std::fs::write(&file, text).unwrap();
        let mut settings = SourceSettings {
            kind: crate::SourceKind::Csv,
            path: Some(file.to_str().unwrap().to_owned()),
            ..SourceSettings::default()
        };
        change(&mut settings);
        let warnings = &Warnings::default();
        work(&Request::new(&settings, &[], warnings)?)
    }

    fn read_text(text: &str, change: impl Fn(&mut SourceSettings)) -> Result<Panel, LoadError> {
        with_request(text, change, |request| {
            let go_on = &mut |_| ControlFlow::Continue(());
            let reporter = &mut ProgressReporter::new(go_on);
            let table = Csv.read(request, reporter)?;
            Ok(table.into_panel(reporter)?.panel)
        })
    }

    #[test]
    fn the_first_pass_stops_when_it_is_told_to() {
        let rows: String = (0..5_000).map(|n| format!("x,{n},1\n")).collect();
        let text = format!("symbol,trade_date,a\n{rows}");
        let mut asked = Vec::new();
        let read = with_request(
            &text,
            |_| {},
            |request| {
                let stop = &mut |progress: crate::LoadProgress| {
                    asked.push(progress.rows);
                    ControlFlow::Break(())
                };
                Csv.read(request, &mut ProgressReporter::eager(stop)).map(|_| ())
            },
        );
        assert!(matches!(read, Err(LoadError::Interrupted)));
        assert_eq!(asked, [0], "before a row is kept");
    }

    #[test]
    fn zeros_of_a_name_and_every_spelling_of_missing_survive() {
        let text = "symbol,trade_date,a,b,note\n\
                    000002,2020-01-02,1,NaN,x\n\
                    000001,2020-01-03,,1,y\n\
                    000001,2020-01-02,NA,-2.5e1,z\n";
        let panel = read_text(text, |_| {}).unwrap();
        let schema = panel.schema();
        assert_eq!(schema.series, ["000001", "000002"]);
        assert_eq!(
            (schema.columns.as_slice(), schema.time_kind),
            (["a", "b"].map(String::from).as_slice(), TimeKind::Date)
        );
        let values = panel.shards()[0].values();
        assert!(values[0].is_nan() && values[2].is_nan() && values[5].is_nan());
        assert_eq!((values[1], values[3], values[4]), (-25.0, 1.0, 1.0));
    }

    fn check_refused(text: &str, expected: &str) {
        let error = read_text(text, |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn bad_cells_are_refused_with_their_place() {
        check_refused(
            "symbol,trade_date,a\nx,2020-01-02,1\n,2020-01-03,1\n",
            "row 2: column \"symbol\" is empty",
        );
        check_refused("symbol,trade_date,a\nx,,1\n", "row 1: column \"trade_date\" is empty");
        check_refused(
            "symbol,trade_date,a\nx,2.1.2020,1\n",
            "column \"trade_date\" holds \"2.1.2020\"; expected YYYY-MM-DD",
        );
        check_refused(
            "symbol,trade_date,a\nx,1,1\nx,2020-01-02,1\n",
            "both dates and plain numbers",
        );
        check_refused("symbol,trade_date,a\nx,2020-01-02,one\n", "matches no numeric column");
        check_refused("symbol,trade_date,a\n", "has no rows below its header line; write them");
        check_refused("", "is empty; a CSV table has a header line");
        check_refused("\n\n", "is empty; a CSV table has a header line");
        check_refused("symbol,trade_date,a\nx,2020-01-02\n", "not a CSV table");
    }

    #[test]
    fn two_rows_at_one_time_name_series_and_time() {
        let text = "symbol,trade_date,a\nx,2020-01-02,1\nx,2020-01-02,2\n";
        let error = read_text(text, |_| {}).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("\"x\" has two rows at 2020-01-02"), "{cause}");
    }

    #[test]
    fn symbols_and_bounds_choose_rows() {
        let text = "symbol,trade_date,a\nx,5,1\nx,6,2\nx,7,3\ny,6,4\n";
        let panel = read_text(text, |settings| {
            settings.symbols = vec!["x".to_owned()];
            settings.from = Some("6".to_owned());
            settings.to = Some("7".to_owned());
        })
        .unwrap();
        assert_eq!(panel.shards()[0].values(), [2.0]);
        let error = read_text(text, |settings| settings.from = Some("9".to_owned())).unwrap_err();
        assert!(error.to_string().contains("gave no rows"), "{error}");
    }

    #[test]
    fn a_table_without_a_series_column_is_one_series() {
        let text = "trade_date,a\n2020-01-02 10:00:00,1\n2020-01-02,2\n";
        let panel = read_text(text, |settings| settings.series = Some(String::new())).unwrap();
        assert_eq!(panel.schema().series, ["series"]);
        assert_eq!(panel.schema().time_kind, TimeKind::Timestamp);
        assert_eq!(panel.shards()[0].values(), [2.0, 1.0]);
    }
}
