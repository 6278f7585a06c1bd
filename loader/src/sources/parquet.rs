//! Parquet files to rows: row group by row group, decoding only the columns that are needed.
//!
//! The first file decides which columns globs match; later files must have those columns, in any
//! place and of any numeric type, and what else they have is not read.

use crate::{
    LoadError, SourceSettings,
    columns::{Content, EMPTY, Selection, TableColumn},
    files::SourceFile,
    progress::ProgressReporter,
    record_batch_rows::{RecordBatchRows, batch_rows},
    request::Request,
    sources::ReadSource,
    table::Table,
};
use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use millstream_data::ColumnKind;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::Type as PhysicalType,
    errors::ParquetError,
};
use std::{fs::File, sync::Arc};

/// Parquet files.
pub(crate) struct Parquet;

impl ReadSource for Parquet {
    fn keys(&self) -> &'static [&'static str] {
        &["path"]
    }

    fn extension(&self) -> Option<&'static str> {
        Some("parquet")
    }

    fn read(
        &self,
        request: &Request<'_>,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Table, LoadError> {
        let Request { settings, files, .. } = request;
        let table = files[0].read(|| Ok(describe(open(&files[0])?.schema())))?;
        let place = files[0].path().display().to_string();
        let mut rows = RecordBatchRows::new(request, table, place)?;
        // The names, exactly, and the rules of the first file: a text column of a later file that is
        // called like a feature must not be read as numbers.
        let same = SourceSettings { features: rows.value_names().to_vec(), ..(*settings).clone() };
        for file in files {
            file.read(|| read_file(file, &same, &mut rows, reporter))?;
        }
        rows.finish(request, None)
    }
}

fn read_file(
    file: &SourceFile,
    settings: &SourceSettings,
    rows: &mut RecordBatchRows<'_>,
    reporter: &mut ProgressReporter<'_>,
) -> Result<(), LoadError> {
    let place = file.path().display().to_string();
    rows.enter(&place);
    let builder = open(file)?;
    let here = Selection::choose(&describe(builder.schema()), settings, &[], &place)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), here.needed());
    let rows_at_once = batch_rows(settings.features.len());
    let reader = builder.with_projection(mask).with_batch_size(rows_at_once).build();
    for batch in reader.map_err(|source| broken(file, source))? {
        let batch = batch.map_err(|source| broken(file, source.into()))?;
        rows.append(&batch)?;
        reporter.rows(rows.rows())?;
    }
    Ok(())
}

fn open(file: &SourceFile) -> Result<ParquetRecordBatchReaderBuilder<File>, LoadError> {
    let failed = |source| broken(file, source);
    let handle = file.open()?;
    let options = ArrowReaderOptions::new();
    let mut metadata = ArrowReaderMetadata::load(&handle, options.clone()).map_err(failed)?;
    if let Some(schema) = without_nanoseconds(&metadata) {
        let options = options.with_schema(Arc::new(schema));
        metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
            .map_err(failed)?;
    }
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata))
}

/// The schema of a file with times of 96 bits, as Spark writes them. They hold any date; read as
/// nanoseconds, as is usual, those before 1677 and after 2262 would come out as others.
fn without_nanoseconds(metadata: &ArrowReaderMetadata) -> Option<Schema> {
    let columns = metadata.parquet_schema().columns().iter().enumerate();
    let roots: Vec<usize> = columns
        .filter(|(_, column)| column.physical_type() == PhysicalType::INT96)
        .map(|(column, _)| metadata.parquet_schema().get_column_root_idx(column))
        .collect();
    let field = |(position, field): (usize, &FieldRef)| match field.data_type() {
        DataType::Timestamp(_, zone) if roots.contains(&position) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Arc::new(field.as_ref().clone().with_data_type(micros))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = metadata.schema().fields().iter().enumerate().map(field).collect();
    let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
    (!roots.is_empty()).then_some(schema)
}

fn describe(schema: &Schema) -> Vec<TableColumn> {
    schema
        .fields()
        .iter()
        .map(|field| TableColumn {
            name: field.name().clone(),
            kind: field.data_type().to_string(),
            content: content(field.data_type()),
            measure: measure(field.data_type()),
            left_out: left_out(field.data_type()),
        })
        .collect()
}

fn content(kind: &DataType) -> Content {
    match kind {
        DataType::Null => Content::OnRequest,
        DataType::Boolean | DataType::Decimal128(..) => Content::Numbers,
        DataType::Dictionary(_, values) => content(values),
        kind if kind.is_integer() || kind.is_floating() => Content::Numbers,
        _ => Content::Other,
    }
}

fn measure(kind: &DataType) -> ColumnKind {
    match kind {
        DataType::Boolean => ColumnKind::Boolean,
        DataType::Dictionary(_, values) => measure(values),
        _ => ColumnKind::Number,
    }
}

/// Why a glob does not pick a column up. Nobody expects it to pick up text and times.
fn left_out(kind: &DataType) -> Option<String> {
    let advice = match kind {
        DataType::Null => return Some(EMPTY.to_owned()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return None,
        DataType::Dictionary(_, values) => return left_out(values),
        kind if kind.is_temporal() || content(kind) == Content::Numbers => return None,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => "give every element a column of its own",
        DataType::Decimal256(..) => "write it as Decimal128 or as floating point",
        _ => "write it as numbers, or list the features without it",
    };
    Some(format!("its type is {kind}, which is not read; {advice}"))
}

fn broken(file: &SourceFile, source: ParquetError) -> LoadError {
    LoadError::Parquet { path: file.path().to_path_buf(), source }
}
