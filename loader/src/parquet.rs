//! Parquet files to rows: row group by row group, decoding only the columns that are needed.
//!
//! The first file decides which columns globs match; later files must have those columns, in any
//! place and of any numeric type, and what else they have is not read.

use crate::{
    LoadError, SourceSettings,
    assemble::Table,
    columns::{Content, Selection, TableColumn},
    files,
    filter::RowFilter,
    progress::Tell,
    wide::{BATCH_ROWS, WideColumns, WideRows},
};
use arrow::datatypes::{DataType, Schema};
use parquet::{
    arrow::{ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder},
    errors::ParquetError,
};
use std::{fs::File, path::Path};

/// Reads the files that `source.path` means.
pub(crate) fn read(
    settings: &SourceSettings,
    required: &[String],
    tell: &mut Tell<'_>,
) -> Result<Table, LoadError> {
    let files = files::find(settings)?;
    let table = describe(open(&files[0])?.schema());
    let place = files[0].display().to_string();
    let chosen = Selection::choose(&table, settings, required, &place)?;
    let names = chosen.value_names(&table);
    let columns = WideColumns {
        series: chosen.series.map(|column| table[column].name.clone()),
        time: table[chosen.time].name.clone(),
        values: names.clone(),
    };
    let mut rows = WideRows::new(columns, RowFilter::new(settings)?);
    for file in &files {
        rows.enter(&file.display().to_string());
        let builder = open(file)?;
        // The names, exactly, and the rules of the first file: a text column of a later file that
        // is called like a feature must not be read as numbers.
        let same = SourceSettings { features: names.clone(), ..settings.clone() };
        let here = describe(builder.schema());
        let here = Selection::choose(&here, &same, &[], &file.display().to_string())?;
        let needed = here.series.into_iter().chain([here.time]).chain(here.values);
        let mask = ProjectionMask::roots(builder.parquet_schema(), needed);
        let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build();
        for batch in reader.map_err(|source| broken(file, source))? {
            let batch = batch.map_err(|source| broken(file, source.into()))?;
            rows.append(&batch)?;
            tell.rows(rows.rows())?;
        }
    }
    Table::from_wide(settings, &files, names, chosen.inputs, rows)
}

fn open(file: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, LoadError> {
    let handle = File::open(file)
        .map_err(|source| LoadError::ReadFile { path: file.to_path_buf(), source })?;
    ParquetRecordBatchReaderBuilder::try_new(handle).map_err(|source| broken(file, source))
}

fn describe(schema: &Schema) -> Vec<TableColumn> {
    schema
        .fields()
        .iter()
        .map(|field| TableColumn {
            name: field.name().clone(),
            kind: field.data_type().to_string(),
            content: content(field.data_type()),
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

fn broken(file: &Path, source: ParquetError) -> LoadError {
    LoadError::Parquet { path: file.to_path_buf(), source }
}
