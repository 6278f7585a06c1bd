//! The SQL that asks PostgreSQL for a panel's rows.
//!
//! COPY takes no parameters, so names and values are quoted here. `source.query` and
//! `source.where` are the user's own SQL and are passed on as they are; the transaction around
//! them is read-only, and [`where_condition`](super::where_condition) has seen that the latter ends where it should.

use super::copy::{CopyColumns, fields::TimeField};
use crate::{LoadError, SourceSettings, filter::RowFilter};
use millstream_data::TimeKind;
use millstream_postgres::{name_parts, quote_name};

/// What to read from.
#[derive(Debug)]
pub(crate) struct Relation {
    /// What to put after `FROM`.
    pub(crate) sql: String,
    /// What to call it in messages.
    pub(crate) place: String,
}

/// The relation that `source.table` or `source.query` names.
pub(crate) fn relation(settings: &SourceSettings) -> Result<Relation, LoadError> {
    match (&settings.table, &settings.query) {
        (Some(table), None) => {
            Ok(Relation { sql: quote_path(table)?, place: format!("table {table}") })
        }
        (None, Some(query)) => {
            // The line break ends a comment that the query may close with.
            let query = query.trim().trim_end_matches(';');
            Ok(Relation { sql: format!("({query}\n) AS source"), place: "the query".to_owned() })
        }
        (Some(_), Some(_)) => Err(LoadError::Setting {
            key: "query",
            value: settings.query.clone().unwrap_or_default(),
            expected: "source.table is set too; leave one of them out",
        }),
        (None, None) => Err(LoadError::MissingSetting {
            kind: settings.kind.name(),
            key: "table",
            expected: "a table's name, or source.query with a SELECT",
        }),
    }
}

/// The table that `source.table` names, quoted; a query has none that could be locked by name.
pub(crate) fn table_to_lock(settings: &SourceSettings) -> Result<Option<String>, LoadError> {
    settings.table.as_deref().map(quote_path).transpose()
}

/// A SELECT of some rows, to be split into tasks.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    /// What to put after `FROM`.
    relation: String,
    columns: Vec<String>,
    conditions: Vec<String>,
}

impl Select {
    /// The rows that the settings ask for.
    pub(crate) fn new(
        relation: &Relation,
        columns: &CopyColumns,
        settings: &SourceSettings,
        filter: &RowFilter,
    ) -> Result<Self, LoadError> {
        let series = columns.series.as_ref().map(|(name, _)| quote_name(name));
        let time = quote_name(&columns.time.0);
        let mut conditions = Vec::new();
        if let Some(condition) = &settings.filter {
            conditions.push(format!("({condition})"));
        }
        if let (Some(series), false) = (&series, settings.symbols.is_empty()) {
            let symbols: Result<Vec<String>, LoadError> =
                settings.symbols.iter().map(|symbol| quote_value(symbol)).collect();
            conditions.push(format!("{series} IN ({})", symbols?.join(", ")));
        }
        let (from, to) = filter.bounds();
        for (bound, operator) in [(from, ">="), (to, "<")] {
            if let Some(literal) = bound.and_then(|bound| time_literal(columns.time.1, bound)) {
                conditions.push(format!("{time} {operator} {literal}"));
            }
        }
        let values = columns.values.iter().map(|column| quote_name(&column.name));
        let columns = series.into_iter().chain([time]).chain(values).collect();
        Ok(Select { relation: relation.sql.clone(), columns, conditions })
    }

    /// Those of the rows for which the condition holds as well.
    #[must_use]
    pub(crate) fn with(&self, condition: Option<String>) -> Self {
        let mut select = self.clone();
        select.conditions.extend(condition);
        select
    }

    /// The rows of the table itself, without those of tables that inherit from it.
    #[must_use]
    pub(crate) fn only(&self) -> Self {
        Select { relation: format!("ONLY {}", self.relation), ..self.clone() }
    }

    /// The statement for these rows and other columns.
    pub(crate) fn sql_of(&self, columns: &str) -> String {
        let condition = match self.conditions.as_slice() {
            [] => String::new(),
            conditions => format!(" WHERE {}", conditions.join(" AND ")),
        };
        format!("SELECT {columns} FROM {}{condition}", self.relation)
    }

    /// The statement.
    pub(crate) fn sql(&self) -> String {
        self.sql_of(&self.columns.join(", "))
    }

    /// The statement that sends the rows, in whatever order the server finds them.
    pub(crate) fn copy_sql(&self) -> String {
        format!("COPY ({}) TO STDOUT (FORMAT binary)", self.sql())
    }
}

/// A bound in the type of the time column, so that an index serves; `None` for text, which the
/// server would compare as text.
fn time_literal(field: TimeField, bound: i64) -> Option<String> {
    let moment = TimeKind::Timestamp.format(bound);
    match field {
        TimeField::Date | TimeField::Timestamp => Some(format!("TIMESTAMP '{moment}'")),
        TimeField::ZonedTimestamp => Some(format!("TIMESTAMPTZ '{moment}+00'")),
        TimeField::Integer(_) => Some(format!("({bound})")),
        TimeField::Clock => {
            moment.strip_prefix("1970-01-01 ").map(|clock| format!("TIME '{clock}'"))
        }
        TimeField::Text => None,
    }
}

/// Quotes `schema.table`. Parts that are quoted already may hold dots.
fn quote_path(path: &str) -> Result<String, LoadError> {
    let parts = name_parts(path).ok_or_else(|| LoadError::Setting {
        key: "table",
        value: path.to_owned(),
        expected: "a name such as features, public.features or \"a schema\".\"a.table\"",
    })?;
    Ok(parts.iter().map(|part| quote_name(part)).collect::<Vec<_>>().join("."))
}

/// Quotes a value of the settings.
pub(crate) fn quote_value(value: &str) -> Result<String, LoadError> {
    millstream_postgres::quote_value(value).ok_or_else(|| LoadError::Setting {
        key: "symbols",
        value: value.to_owned(),
        expected: "PostgreSQL's text has no zero bytes",
    })
}

#[cfg(test)]
mod tests {
    use super::super::copy::{
        ValueColumn,
        fields::{Scalar, ValueField},
        key::KeyField,
    };
    use super::*;

    fn check_copy(change: impl Fn(&mut SourceSettings), time: TimeField, expected: &str) {
        let mut settings =
            SourceSettings { table: Some("public.t".to_owned()), ..SourceSettings::default() };
        change(&mut settings);
        let columns = CopyColumns {
            place: "t".to_owned(),
            series: Some(("sym\"bol".to_owned(), KeyField::Text)),
            time: ("day".to_owned(), time),
            values: vec![ValueColumn {
                name: "a".to_owned(),
                field: ValueField::Scalar(Scalar::Float8),
                width: 1,
            }],
        };
        let filter = RowFilter::new(&settings).unwrap();
        let relation = relation(&settings).unwrap();
        let select = Select::new(&relation, &columns, &settings, &filter).unwrap();
        assert_eq!(select.copy_sql(), expected);
    }

    #[test]
    fn names_and_values_are_quoted() {
        check_copy(
            |settings| {
                settings.symbols = vec!["it's".to_owned(), "a\\".to_owned()];
                settings.filter = Some("a > 0 or b > 0".to_owned());
            },
            TimeField::Text,
            "COPY (SELECT \"sym\"\"bol\", \"day\", \"a\" FROM \"public\".\"t\" WHERE (a > 0 or b > 0) \
             AND \"sym\"\"bol\" IN ('it''s',  E'a\\\\')) TO STDOUT (FORMAT binary)",
        );
    }

    #[test]
    fn bounds_have_the_type_of_the_column() {
        check_copy(
            |settings| {
                (settings.table, settings.query) = (None, Some("select 1;".to_owned()));
                settings.from = Some("2020-01-01".to_owned());
                settings.to = Some("2020-01-02 03:04:05.5".to_owned());
            },
            TimeField::ZonedTimestamp,
            "COPY (SELECT \"sym\"\"bol\", \"day\", \"a\" FROM (select 1\n) AS source WHERE \
             \"day\" >= TIMESTAMPTZ '2020-01-01 00:00:00+00' AND \"day\" < TIMESTAMPTZ '2020-01-02 03:04:05.500+00') \
             TO STDOUT (FORMAT binary)",
        );
    }

    fn check_path(path: &str, expected: Option<&str>) {
        assert_eq!(quote_path(path).ok().as_deref(), expected, "{path}");
    }

    #[test]
    fn a_table_may_have_a_schema_and_quotes() {
        check_path("t", Some("\"t\""));
        check_path("public.Prices", Some("\"public\".\"Prices\""));
        check_path("\"a.b\".\"c d\"", Some("\"a.b\".\"c d\""));
        check_path("t; drop table t", Some("\"t; drop table t\""));
        check_path("a.", None);
        check_path("\"a", None);
    }
}
