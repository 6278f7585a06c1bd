//! The names of all series of a table, to tell what somebody who asked for another may have meant.

use super::copy::CopyColumns;
use super::select;
use crate::{LoadError, SourceSettings};
use millstream_postgres::{Server, Session, quote_name};

/// How long the server may look for them.
const TIMEOUT: &str = "2s";

/// More would not be worth their memory.
const MOST: usize = 100_000;

/// The names, or none where the server cannot say quickly: they only make a message better.
pub(super) fn series_names(
    server: &Server,
    columns: &CopyColumns,
    settings: &SourceSettings,
) -> Vec<String> {
    let Some((series, field)) = &columns.series else { return Vec::new() };
    let ask = || -> Result<Vec<String>, LoadError> {
        let (series, relation) = (quote_name(series), select::relation(settings)?);
        let mut session = Session::begin(server, server.connect()?, None, None)?;
        session.run(&format!("SET LOCAL statement_timeout = '{TIMEOUT}'"), "limit the time")?;
        let sql = format!(
            "SELECT DISTINCT {series}::text FROM {} WHERE {series} IS NOT NULL LIMIT {MOST}",
            relation.sql
        );
        let rows = session.text_rows(&sql, &format!("list the series of {}", relation.place))?;
        Ok(rows.into_iter().flatten().flatten().map(|name| field.spell(&name)).collect())
    };
    ask().unwrap_or_else(|error| {
        tracing::debug!(%error, "no names to suggest");
        Vec::new()
    })
}
