//! Rows from PostgreSQL: one connection, one snapshot, one binary COPY, sorted by the server.
//!
//! The server sorts in its own collation, so that an index on (series, time) serves; where that
//! differs from byte order, the row store puts the series in order. What can go wrong with columns
//! and types is found out before any row is read. No second connection yet.

mod parameters;
mod password;
mod server;
mod tls;

pub(crate) use parameters::without_password;
pub(crate) use server::server_name;

use crate::{
    LoadError, SourceSettings,
    assemble::Table,
    columns::{Content, Selection, TableColumn},
    copy_binary::{CopyColumns, CopyDecoder},
    copy_fields::{KeyField, TimeField, ValueField},
    filter::RowFilter,
    sql,
};
use ::postgres::{IsolationLevel, types::Type};
use server::Server;
use std::io::BufRead;

/// Rows between two calls of progress.
const PROGRESS_ROWS: u64 = 8192;

/// Reads the table or query.
pub(crate) fn read(
    settings: &SourceSettings,
    required: &[String],
    progress: &mut dyn FnMut(u64),
) -> Result<Table, LoadError> {
    let relation = sql::relation(settings)?;
    let filter = RowFilter::new(settings)?;
    let source = Server::new(settings)?;
    let server = source.name().to_owned();
    let refused = |action: &str| {
        let (server, action) = (server.clone(), action.to_owned());
        move |source| LoadError::Query { server, action, source }
    };
    let mut client = source.connect()?;
    let mut snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .map_err(refused("start a read-only transaction"))?;

    let statement = snapshot
        .prepare(&format!("SELECT * FROM {} LIMIT 0", relation.sql))
        .map_err(refused(&format!("describe {}", relation.place)))?;
    let types: Vec<Type> = statement.columns().iter().map(|c| c.type_().clone()).collect();
    let table: Vec<TableColumn> = statement
        .columns()
        .iter()
        .map(|column| TableColumn {
            name: column.name().to_owned(),
            kind: column.type_().name().to_owned(),
            content: match ValueField::of(column.type_()) {
                Some(_) => Content::Numbers,
                None => Content::Other,
            },
        })
        .collect();
    let chosen = Selection::choose(&table, settings, required, &relation.place)?;
    let columns = copy_columns(&table, &types, &chosen, &relation.place)?;
    if let Some(kind) = columns.time.1.kind() {
        filter.check_kind(kind)?;
    }
    let copy = sql::copy(&relation, &columns, settings, &filter)?;
    tracing::debug!(server, copy, "reading");

    let mut decoder = CopyDecoder::new(columns, filter);
    let mut stream =
        snapshot.copy_out(&copy).map_err(refused(&format!("start copying {}", relation.place)))?;
    let mut told = 0;
    loop {
        let bytes = stream.fill_buf().map_err(|source| LoadError::Stream {
            server: server.clone(),
            place: relation.place.clone(),
            row: decoder.seen(),
            source,
        })?;
        if bytes.is_empty() {
            break;
        }
        let used = bytes.len();
        decoder.feed(bytes)?;
        stream.consume(used);
        if decoder.seen() - told >= PROGRESS_ROWS {
            told = decoder.seen();
            progress(told);
        }
    }
    progress(decoder.seen());

    let place = relation.place;
    let (rows, time_kind, filter) = decoder.finish()?;
    let Some(time_kind) = time_kind else { return Err(LoadError::NoRows { place }) };
    Ok(Table {
        place,
        series_column: settings.series_column().map(str::to_owned),
        time_column: settings.time.clone(),
        time_kind,
        columns: chosen.value_names(&table),
        inputs: chosen.inputs,
        rows,
        filter,
    })
}

/// How to decode the chosen columns, or which of them cannot be.
fn copy_columns(
    table: &[TableColumn],
    types: &[Type],
    chosen: &Selection,
    place: &str,
) -> Result<CopyColumns, LoadError> {
    let wrong_key = |column: usize, key, expected| LoadError::KeyType {
        place: place.to_owned(),
        column: table[column].name.clone(),
        key,
        found: types[column].name().to_owned(),
        expected,
    };
    let series = match chosen.series {
        None => None,
        Some(column) => match KeyField::of(&types[column]) {
            Some(field) => Some((table[column].name.clone(), field)),
            None => return Err(wrong_key(column, "series", "text, an enum or an integer")),
        },
    };
    let expected = "a date, a timestamp, an integer or text in ISO form";
    let time = TimeField::of(&types[chosen.time])
        .ok_or_else(|| wrong_key(chosen.time, "time", expected))?;
    let value = |column: &usize| {
        let field = ValueField::of(&types[*column]).expect("only numbers are chosen as values");
        (table[*column].name.clone(), field)
    };
    Ok(CopyColumns {
        place: place.to_owned(),
        series,
        time: (table[chosen.time].name.clone(), time),
        values: chosen.values.iter().map(value).collect(),
    })
}
