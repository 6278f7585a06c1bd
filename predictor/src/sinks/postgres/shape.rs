//! What a table must be like to take forecasts, and what its role may do: looked at before anything is
//! forecast, and again when they are merged, as it may have changed in between.

use super::{
    TableName,
    columns::{Column, Columns, KEY, key_sql},
    error::PostgresTableError,
};
use millstream_data::is_said_by_a_model;
use millstream_postgres::{WriteSession, quote_name, quote_value};
use std::collections::BTreeMap;

/// What there is under the name of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Table,
}

/// A column as it is in the table.
struct Standing {
    kind: String,
    /// Whether rows must say it: it takes no nulls, and nothing else fills it.
    needed: bool,
}

/// A yes of the server's.
fn is_yes(text: Option<&String>) -> bool {
    text.is_some_and(|text| text == "t" || text == "on")
}

/// Looks whether the rows can be written to the table, or the table be made.
///
/// # Errors
/// The first thing that stands in the way.
pub(super) fn check(
    session: &mut WriteSession,
    name: &TableName,
    columns: &Columns,
) -> Result<(), PostgresTableError> {
    let what = "say what it allows";
    let sql = "SELECT current_user, current_setting('transaction_read_only'), current_database(), \
               has_database_privilege(current_database(), 'TEMPORARY')";
    let rows = session.text_rows(sql, what)?;
    let row = rows.first().map(Vec::as_slice).unwrap_or_default();
    let text = |column: usize| row.get(column).and_then(Option::as_ref);
    if is_yes(text(1)) {
        return Err(PostgresTableError::ReadOnly);
    }
    let role = quote_name(text(0).map_or("", String::as_str));
    if !is_yes(text(3)) {
        let database = quote_name(text(2).map_or("", String::as_str));
        let what = format!("make temporary tables in database {database}");
        let sql = format!("GRANT TEMPORARY ON DATABASE {database} TO {role}");
        return Err(PostgresTableError::Denied { role, what, sql });
    }
    match check_fit(session, name, columns)? {
        Found::Table => check_rights(session, name, &role),
        Found::Nothing => check_schema(session, name, &role),
    }
}

/// Looks whether the table that has the name, if there is one, can hold the rows.
///
/// # Errors
/// It is of another kind or shape.
pub(super) fn check_fit(
    session: &mut WriteSession,
    name: &TableName,
    columns: &Columns,
) -> Result<Found, PostgresTableError> {
    let table = name.sql();
    let oid = oid(name)?;
    let sql = format!("SELECT relkind FROM pg_class WHERE oid = {oid}");
    let rows = session.text_rows(&sql, "look for the table")?;
    let found = match rows.first().and_then(|row| row.first()?.as_deref()) {
        None => return Ok(Found::Nothing),
        Some("r" | "p") => None,
        Some("v" | "m") => Some("a view"),
        Some("f") => Some("a foreign table"),
        Some(_) => Some("no table"),
    };
    if let Some(found) = found {
        return Err(PostgresTableError::NoTableThere { table, found });
    }
    let standing = standing(session, &oid)?;
    let (mut problems, mut changes) = (Vec::new(), Vec::new());
    for Column { name, kind } in columns.all() {
        let (quoted, wanted) = (quote_name(&name), kind.name());
        match standing.get(&name) {
            None => {
                problems.push(format!("it has no column {quoted}"));
                changes.push(format!("ADD COLUMN {quoted} {wanted}"));
            }
            Some(Standing { kind: found, .. }) if !kind.fits(found) => {
                problems.push(format!("column {quoted} is {found}, not {wanted}"));
                changes
                    .push(format!("ALTER COLUMN {quoted} TYPE {wanted} USING {quoted}::{wanted}"));
            }
            Some(_) => {}
        }
    }
    let written = |name: &String| columns.all().any(|column| column.name == *name);
    for (name, _) in standing.iter().filter(|(name, column)| column.needed && !written(name)) {
        let quoted = quote_name(name);
        problems.push(format!("column {quoted} must have a value and has no default"));
        changes.push(format!("ALTER COLUMN {quoted} DROP NOT NULL"));
    }
    let key = key_sql();
    let Keys { there, deferrable } = keys(session, &oid)?;
    if let Some(drop) = &deferrable {
        problems.push(format!("rows cannot be merged by a deferrable key of ({key})"));
        changes.push(drop.clone());
    }
    if !there {
        problems.push(format!("nothing makes ({key}) unique"));
        changes.push(format!("ADD UNIQUE ({key})"));
    }
    if problems.is_empty() {
        return Ok(Found::Table);
    }
    let sql = format!("ALTER TABLE {table} {}", changes.join(", "));
    Err(PostgresTableError::Misfit { table, problems: problems.join(", "), sql })
}

/// An expression for the table's number, null where there is none.
fn oid(name: &TableName) -> Result<String, PostgresTableError> {
    Ok(format!("to_regclass({})::oid", literal(&name.sql())?))
}

/// A text in SQL.
pub(super) fn literal(text: &str) -> Result<String, PostgresTableError> {
    quote_value(text).ok_or_else(|| PostgresTableError::TableName { name: text.to_owned() })
}

fn standing(
    session: &mut WriteSession,
    oid: &str,
) -> Result<BTreeMap<String, Standing>, PostgresTableError> {
    let sql = format!(
        "SELECT attname, format_type(atttypid, atttypmod), \
         attnotnull AND NOT atthasdef AND attidentity = '' \
         FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped"
    );
    let rows = session.text_rows(&sql, "look at the table's columns")?;
    let column = |row: Vec<Option<String>>| {
        let mut texts = row.into_iter();
        let (name, kind) = (texts.next()??, texts.next()??);
        Some((name, Standing { kind, needed: is_yes(texts.next()?.as_ref()) }))
    };
    Ok(rows.into_iter().filter_map(column).collect())
}

/// Columns of the table that hold what a model said, and which these rows say nothing of: beside what
/// they replace they would be another model's.
///
/// # Errors
/// The server does not tell.
pub(super) fn left_out(
    session: &mut WriteSession,
    name: &TableName,
    columns: &Columns,
) -> Result<Vec<String>, PostgresTableError> {
    let standing = standing(session, &oid(name)?)?;
    let written = |name: &String| columns.all().any(|column| column.name == *name);
    Ok(standing.into_keys().filter(|name| is_said_by_a_model(name) && !written(name)).collect())
}

/// What makes the key unique.
struct Keys {
    /// Whether there is an index that `ON CONFLICT` can go by.
    there: bool,
    /// What drops those that it does not bear.
    deferrable: Option<String>,
}

fn keys(session: &mut WriteSession, oid: &str) -> Result<Keys, PostgresTableError> {
    let mut key = KEY.map(|name| format!("'{name}'"));
    key.sort_unstable();
    let sql = format!(
        "SELECT count(*) FILTER (WHERE i.indimmediate) > 0, \
         string_agg('DROP CONSTRAINT ' || quote_ident(c.conname), ', ') FILTER (WHERE NOT i.indimmediate) \
         FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid \
         WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid \
         AND i.indpred IS NULL AND i.indexprs IS NULL \
         AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE \"C\") \
              FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) \
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
              WHERE k.place <= i.indnkeyatts) = ARRAY[{}]",
        key.join(", ")
    );
    let rows = session.text_rows(&sql, "look at the table's keys")?;
    let mut row = rows.into_iter().next().unwrap_or_default().into_iter();
    let there = is_yes(row.next().flatten().as_ref());
    Ok(Keys { there, deferrable: row.next().flatten() })
}

fn check_rights(
    session: &mut WriteSession,
    name: &TableName,
    role: &str,
) -> Result<(), PostgresTableError> {
    let (table, oid) = (name.sql(), oid(name)?);
    let rights = ["SELECT", "INSERT", "UPDATE"];
    let asked = rights.map(|right| format!("has_table_privilege({oid}, '{right}')"));
    let sql = format!("SELECT {}", asked.join(", "));
    let rows = session.text_rows(&sql, "say what it allows")?;
    let row = rows.first().map(Vec::as_slice).unwrap_or_default();
    let missing: Vec<&str> = rights
        .into_iter()
        .zip(row)
        .filter(|(_, has)| !is_yes(has.as_ref()))
        .map(|it| it.0)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let rights = missing.join(", ");
    let what = format!("{rights} in table {table}");
    let sql = format!("GRANT {rights} ON {table} TO {role}");
    Err(PostgresTableError::Denied { role: role.to_owned(), what, sql })
}

/// Whether the table can be made.
fn check_schema(
    session: &mut WriteSession,
    name: &TableName,
    role: &str,
) -> Result<(), PostgresTableError> {
    let schema = match &name.schema {
        Some(schema) => literal(schema)?,
        None => "current_schema()".to_owned(),
    };
    let sql = format!(
        "SELECT n.nspname, has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n \
         WHERE n.nspname = {schema}"
    );
    let rows = session.text_rows(&sql, "look at the schema")?;
    let Some([Some(found), create]) = rows.first().map(Vec::as_slice) else {
        let schema = quote_name(name.schema.as_deref().unwrap_or("public"));
        return Err(PostgresTableError::NoSchema { schema });
    };
    if is_yes(create.as_ref()) {
        return Ok(());
    }
    let schema = quote_name(found);
    let what = format!("make table {} in schema {schema}", quote_name(&name.table));
    let sql = format!("GRANT CREATE ON SCHEMA {schema} TO {role}");
    Err(PostgresTableError::Denied { role: role.to_owned(), what, sql })
}
