//! [`Columns`]: the columns of a table of forecasts in PostgreSQL.
//!
//! The key is called `series`, `time`, `step` and `model` whatever the source calls its columns, so that one
//! table can hold the forecasts of many models. All else has its name from the schema of the rows.

use super::{
    error::{PostgresTableError, check_length},
    merge::STAGING,
};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use millstream_postgres::quote_name;
use std::collections::HashSet;

/// What names a forecast.
pub(super) const KEY: [&str; 4] = ["series", "time", "step", "model"];

/// Where rows say how many steps ahead they are. The column before it is the time, and the text before that the
/// series.
const STEP: &str = "step";

/// A column and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
}

/// A type of PostgreSQL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Date,
    Timestamp,
    TimestampWithZone,
    Integer,
    BigInt,
    Real,
    Double,
}

impl Type {
    fn of(data: &DataType) -> Option<Type> {
        Some(match data {
            DataType::Utf8 => Type::Text,
            DataType::Date32 => Type::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Type::Timestamp,
            DataType::Int32 => Type::Integer,
            DataType::Int64 => Type::BigInt,
            DataType::Float32 => Type::Real,
            DataType::Float64 => Type::Double,
            _ => return None,
        })
    }

    /// As the server calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Date => "date",
            Type::Timestamp => "timestamp without time zone",
            Type::TimestampWithZone => "timestamp with time zone",
            Type::Integer => "integer",
            Type::BigInt => "bigint",
            Type::Real => "real",
            Type::Double => "double precision",
        }
    }

    /// Whether a column of a type that the server calls so holds all its values as they are.
    pub(super) fn fits(self, found: &str) -> bool {
        let wider = match self {
            Type::Text => "character varying",
            Type::Integer => "bigint",
            Type::Real => "double precision",
            _ => "",
        };
        found == self.name() || found == wider
    }
}

/// The columns of the rows that come, and of the table they go to.
#[derive(Debug)]
pub(super) struct Columns {
    /// Whether rows have a series.
    pub(super) with_series: bool,
    /// Those that come, in their order, by their names in the table.
    pub(super) sent: Vec<Column>,
}

impl Columns {
    /// # Errors
    /// Two columns would have one name, or one has a name that is too long or a type that is not written.
    pub(super) fn of(schema: &SchemaRef) -> Result<Self, PostgresTableError> {
        let fields = schema.fields();
        let step = fields.iter().position(|field| field.name() == STEP);
        let time = step.and_then(|step| step.checked_sub(1)).ok_or(PostgresTableError::NoTime)?;
        let is_text = |at: &usize| *fields[*at].data_type() == DataType::Utf8;
        let series = time.checked_sub(1).filter(is_text);
        let with_series = series.is_some();
        let mut sent = Vec::with_capacity(fields.len());
        for (position, field) in fields.iter().enumerate() {
            let name = match position {
                _ if Some(position) == series => KEY[0].to_owned(),
                _ if position == time => KEY[1].to_owned(),
                _ => field.name().clone(),
            };
            let Some(kind) = Type::of(field.data_type()) else {
                let found = field.data_type().to_string();
                return Err(PostgresTableError::Type { name, found });
            };
            check_length("column", &name)?;
            sent.push(Column { name, kind });
        }
        let columns = Columns { with_series, sent };
        let mut seen = HashSet::new();
        let twice = columns.all().find(|column| !seen.insert(column.name.clone()));
        match twice {
            Some(Column { name, .. }) => Err(PostgresTableError::SameName { name }),
            None => Ok(columns),
        }
    }

    /// Those of the table, in its order.
    pub(super) fn all(&self) -> impl Iterator<Item = Column> + '_ {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let series = (!self.with_series).then(|| column(KEY[0], Type::Text));
        let whose = [
            column(KEY[3], Type::Text),
            column("run", Type::Text),
            column("created_at", Type::TimestampWithZone),
        ];
        series.into_iter().chain(self.sent.iter().cloned()).chain(whose)
    }

    /// What makes the table that rows wait in.
    pub(super) fn staging_sql(&self) -> String {
        let columns = self.sent.iter().map(definition);
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("CREATE TEMPORARY TABLE {STAGING} ({columns}) ON COMMIT DROP")
    }

    /// What makes the table, without its key.
    pub(super) fn table_sql(&self, table: &str) -> String {
        let columns = self.all().map(|column| {
            let needed = is_key(&column.name) || ["run", "created_at"].contains(&&*column.name);
            let needed = if needed { " NOT NULL" } else { "" };
            format!("{}{needed}", definition(&column))
        });
        format!("CREATE TABLE {table} ({})", columns.collect::<Vec<_>>().join(", "))
    }
}

/// A column as tables are made with it. Texts are compared by their bytes, which takes a fraction of the time
/// that the rules of a language do.
fn definition(Column { name, kind }: &Column) -> String {
    let collation = if *kind == Type::Text { " COLLATE \"C\"" } else { "" };
    format!("{} {}{collation}", quote_name(name), kind.name())
}

/// Whether a column is one of those that name a forecast.
pub(super) fn is_key(name: &str) -> bool {
    KEY.contains(&name)
}

/// The names of the key, quoted.
pub(super) fn key_sql() -> String {
    KEY.map(quote_name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
        let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    #[test]
    fn the_key_has_its_own_names() {
        let names = |columns: &[(&str, DataType)]| {
            let columns = Columns::of(&schema(columns)).unwrap();
            columns.all().map(|column| column.name).collect::<Vec<_>>().join(" ")
        };
        let (text, day, int) = (DataType::Utf8, DataType::Date32, DataType::Int32);
        let with =
            [("symbol", text), ("day", day.clone()), ("step", int.clone()), ("y", int.clone())];
        assert_eq!(names(&with), "series time step y model run created_at");
        let without = [("day", day), ("step", int.clone()), ("y_q0.1", DataType::Float32)];
        assert_eq!(names(&without), "series time step y_q0.1 model run created_at");
        let (text, day, int) = (DataType::Utf8, DataType::Date32, DataType::Int32);
        let folds =
            [("fold", int.clone()), ("symbol", text), ("day", day.clone()), ("step", int.clone())];
        assert_eq!(names(&folds), "fold series time step model run created_at");
        let folds = [("fold", int.clone()), ("day", day), ("step", int)];
        assert_eq!(names(&folds), "series fold time step model run created_at");
    }

    #[test]
    fn what_cannot_be_a_column_is_named() {
        let check = |columns: &[(&str, DataType)], expected: &str| {
            let error = Columns::of(&schema(columns)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let (day, int) = (DataType::Date32, DataType::Int32);
        let clash = [("day", day.clone()), ("step", int.clone()), ("run", int.clone())];
        check(&clash, "two columns named \"run\"");
        let odd = [("day", day), ("step", int), ("b", DataType::Boolean)];
        check(&odd, "column \"b\" is of type Boolean");
        let (day, int, long) = (DataType::Date32, DataType::Int32, "é".repeat(32));
        let cut = [("day", day), ("step", int.clone()), (&*long, int)];
        check(&cut, &format!("column {long:?} has 64 bytes"));
        check(&[("step", DataType::Int32)], "no column of times before a column \"step\"");
    }
}
