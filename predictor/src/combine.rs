//! [`combine_folds`]: the forecasts of many folds as one table, with a column that says of which fold
//! each row is.
//!
//! Files are read and written a batch of rows at a time. Folds follow each other in time, so a forecast
//! of a series that is not made after all those of the folds before was made twice, and is refused; to
//! know, one time for each series is enough.

use crate::{
    contract::Contract, error::PredictError, forecast_table::ForecastTable, output::Output,
    sinks::WriteError,
};
use arrow::{
    array::{ArrayRef, AsArray, Int32Array, RecordBatch},
    compute::cast,
    csv::ReaderBuilder,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
    error::ArrowError,
};
use millstream_data::{SameName, TimeKind};
use millstream_stage::Flow;
use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The column that names the fold, which is the first.
pub const FOLD_COLUMN: &str = "fold";

/// The forecasts of a fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldForecasts {
    /// Its number.
    pub fold: usize,
    /// The file that its predictor wrote.
    pub path: PathBuf,
}

/// What the folds have together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Combined {
    /// Rows of all folds.
    pub rows: u64,
    /// Of each of them, in the order they were given.
    pub rows_by_fold: Vec<u64>,
    /// Different series among them.
    pub series: u64,
    /// The file; `None` where a sink is no file.
    pub output: Option<PathBuf>,
}

/// A batch of rows, or why there is none.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Writes the forecasts of these folds, which are in their order in time, to one output. `contract` is
/// that of any of their models, as all have one. The output appears when all rows are in it.
///
/// # Errors
/// [`PredictError::ReadForecasts`] when a file is not what a predictor with this contract writes,
/// [`PredictError::Twice`] when two folds hold the same forecast, [`PredictError::TwoColumns`] when a
/// column of theirs is called [`FOLD_COLUMN`], and as for writing any forecasts.
pub fn combine_folds(
    contract: &Contract,
    folds: &[FoldForecasts],
    output: Output,
) -> Result<Combined, PredictError> {
    let table = ForecastTable::new(contract, &[])?;
    let columns = Arc::clone(table.schema());
    let schema = with_fold(&columns)?;
    let time_kind = contract.schema.time_kind;
    let mut made = Made::new(contract.schema.series_column.is_some(), time_kind);
    let mut output = output.open(&schema)?;
    let mut combined = Combined::default();
    for FoldForecasts { fold, path } in folds {
        let failed =
            |source: WriteError| PredictError::ReadForecasts { path: path.clone(), source };
        let mut rows = 0;
        for batch in open(path, &columns).map_err(failed)? {
            let batch = batch.map_err(|error| failed(error.into()))?;
            made.add(&batch, *fold).map_err(|error| error.or(failed))?;
            rows += batch.num_rows() as u64;
            let number = i32::try_from(*fold).expect("folds are as many as times at most");
            let number: ArrayRef = Arc::new(Int32Array::from(vec![number; batch.num_rows()]));
            let all = std::iter::once(number).chain(batch.columns().iter().cloned());
            let batch = RecordBatch::try_new(Arc::clone(&schema), all.collect());
            let batch = batch.map_err(|error| failed(error.into()))?;
            if output.write(&batch)? == Flow::Stop {
                return Ok(combined);
            }
        }
        made.end_fold();
        combined.rows += rows;
        combined.rows_by_fold.push(rows);
    }
    combined.series = made.before.len() as u64;
    combined.output = output.finish()?;
    Ok(combined)
}

/// The columns of all folds together.
///
/// # Errors
/// One of them is called like the fold's.
fn with_fold(columns: &SchemaRef) -> Result<SchemaRef, SameName> {
    if columns.fields().iter().any(|field| field.name() == FOLD_COLUMN) {
        return Err(SameName { name: FOLD_COLUMN.to_owned() });
    }
    let fold = Arc::new(Field::new(FOLD_COLUMN, DataType::Int32, false));
    let fields: Vec<_> = std::iter::once(fold).chain(columns.fields().iter().cloned()).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The rows of a file of forecasts.
fn open(path: &Path, columns: &SchemaRef) -> Result<Batches, WriteError> {
    let file = File::open(path)?;
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    if is_csv {
        let reader = ReaderBuilder::new(Arc::clone(columns)).with_header(true).build(file)?;
        return Ok(Box::new(reader));
    }
    open_parquet(file, columns)
}

#[cfg(feature = "parquet")]
fn open_parquet(file: File, columns: &SchemaRef) -> Result<Batches, WriteError> {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
    if reader.schema().fields() != columns.fields() {
        return Err("its columns are not those that the model forecasts".into());
    }
    Ok(Box::new(reader.build()?))
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: File, _: &SchemaRef) -> Result<Batches, WriteError> {
    Err("this build has no Parquet; build with the cargo feature \"parquet\"".into())
}

/// The last forecast of every series: of the folds before, and of this one.
struct Made {
    with_series: bool,
    time_kind: TimeKind,
    before: HashMap<String, Last>,
    now: HashMap<String, Last>,
}

#[derive(Clone, Copy)]
struct Last {
    time: i64,
    fold: usize,
}

/// Why rows are not taken.
enum NotTaken {
    Twice(PredictError),
    NoTimes(ArrowError),
}

impl NotTaken {
    fn or(self, unreadable: impl FnOnce(WriteError) -> PredictError) -> PredictError {
        match self {
            NotTaken::Twice(error) => error,
            NotTaken::NoTimes(error) => unreadable(error.into()),
        }
    }
}

impl Made {
    fn new(with_series: bool, time_kind: TimeKind) -> Self {
        let (before, now) = (HashMap::new(), HashMap::new());
        Made { with_series, time_kind, before, now }
    }

    fn add(&mut self, batch: &RecordBatch, fold: usize) -> Result<(), NotTaken> {
        let times = batch.column(usize::from(self.with_series));
        let of_day = if self.time_kind == TimeKind::Date { 86_400_000_000 } else { 1 };
        let times = cast(times, &DataType::Int64).map_err(NotTaken::NoTimes)?;
        let times = times.as_primitive::<Int64Type>().values();
        let series = self.with_series.then(|| batch.column(0).as_string::<i32>());
        for (row, time) in times.iter().enumerate() {
            let (name, time) = (series.map_or("", |series| series.value(row)), time * of_day);
            if let Some(last) = self.before.get(name).filter(|last| time <= last.time) {
                return Err(NotTaken::Twice(PredictError::Twice {
                    series: name.to_owned(),
                    time: self.time_kind.format(time),
                    folds: [last.fold, fold],
                }));
            }
            match self.now.get_mut(name) {
                Some(last) => last.time = last.time.max(time),
                None => drop(self.now.insert(name.to_owned(), Last { time, fold })),
            }
        }
        Ok(())
    }

    fn end_fold(&mut self) {
        self.before.extend(self.now.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{DataSchema, Heads, Scaling};
    use millstream_model::{ModelDescription, Precision};
    use std::fs;

    fn contract() -> Contract {
        let schema = DataSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            time_kind: TimeKind::Date,
            targets: Vec::new(),
            ..DataSchema::default()
        };
        let (kind, options) = ("lstm".into(), serde_json::Value::Null);
        let model = ModelDescription { kind, options, heads: Heads::Value };
        Contract { schema, scaling: Scaling::default(), model, precision: Precision::default() }
    }

    /// What comes of these folds, each with rows of a CSV file.
    fn combined(folds: &[&str]) -> Result<String, PredictError> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(at, rows): (usize, &&str)| {
            let path = folder.path().join(format!("{at}.csv"));
            fs::write(&path, format!("symbol,day,step,target_time\n{rows}")).unwrap();
            FoldForecasts { fold: at + 1, path }
        };
        let files: Vec<FoldForecasts> = folds.iter().enumerate().map(write).collect();
        let path = folder.path().join("all.csv");
        let output = Output::file(&path).unwrap();
        let found = combine_folds(&contract(), &files, output);
        assert_eq!(path.exists(), found.is_ok(), "a table is there whole or not at all");
        let Combined { rows, rows_by_fold, .. } = found?;
        assert_eq!(rows, rows_by_fold.iter().sum::<u64>());
        Ok(fs::read_to_string(path).unwrap())
    }

    const FIRST: &str = "a,2020-01-01,1,2020-01-02\na,2020-01-02,1,2020-01-03\nb,2020-01-01,1,\n";

    #[test]
    fn rows_say_of_which_fold_they_are() {
        let found = combined(&[FIRST, "a,2020-01-03,1,\n", "", "b,2020-01-02,1,\n"]).unwrap();
        let expected = "fold,symbol,day,step,target_time\n1,a,2020-01-01,1,2020-01-02\n\
            1,a,2020-01-02,1,2020-01-03\n1,b,2020-01-01,1,\n2,a,2020-01-03,1,\n4,b,2020-01-02,1,\n";
        assert_eq!(found, expected);
    }

    #[test]
    fn what_two_folds_forecast_is_refused() {
        let error = combined(&[FIRST, "", "a,2020-01-02,1,\n"]).unwrap_err().to_string();
        let expected = "\"a\" at 2020-01-02 is forecast by fold 1 and by fold 3";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_file_that_is_none_of_forecasts_is_named() {
        let error = combined(&[FIRST, "a,soon,1,\n"]).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("1.csv"), "{error}");
    }

    #[test]
    fn a_column_called_fold_is_refused() {
        let mut contract = contract();
        contract.schema.time_column = FOLD_COLUMN.to_owned();
        let folder = tempfile::tempdir().unwrap();
        let output = Output::file(folder.path().join("all.csv")).unwrap();
        let error = combine_folds(&contract, &[], output).unwrap_err().to_string();
        assert!(error.contains("two columns named \"fold\""), "{error}");
    }
}
