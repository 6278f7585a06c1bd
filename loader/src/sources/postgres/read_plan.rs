//! [`ReadPlan`]: what a load reads, cut into tasks, worked out in the snapshot that it will read.
//!
//! Everything that can be wrong with columns and types is found out here, before any row is read.
//! How rows are cut into tasks is decided in [`tasks`](super::tasks).

use super::{
    copy::{
        CopyColumns, ValueColumn,
        fields::{TimeField, ValueField, base},
        key::KeyField,
    },
    freshness::TableState,
    select::{self, Relation, Select},
    tasks::{self, Tasks},
};
use crate::{
    LoadError, SourceSettings,
    columns::{Content, Selection, TableColumn},
    filter::RowFilter,
};
use millstream_data::ColumnKind;
use millstream_postgres::{
    Session, quote_name,
    types::{Kind, Type},
};
use std::sync::Arc;

/// What to read.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) columns: Arc<CopyColumns>,
    pub(crate) filter: Arc<RowFilter>,
    /// How many of the values a model sees.
    pub(crate) inputs: usize,
    pub(crate) tasks: Tasks,
    /// What to say about columns that a glob did not pick up.
    pub(crate) left_out: Vec<String>,
    /// What the table was just before, where that is to be known.
    pub(crate) state: Option<TableState>,
    /// The table to lock before a snapshot is taken or adopted.
    pub(crate) lock: Option<String>,
    /// A statement that reads nothing, but after which nothing that a task reads can be rewritten
    /// before the transaction ends: page numbers would mean other rows.
    pub(crate) hold: String,
}

impl ReadPlan {
    pub(crate) fn new(
        session: &mut Session,
        settings: &SourceSettings,
        required: &[String],
    ) -> Result<Self, LoadError> {
        let relation = select::relation(settings)?;
        let mut filter = RowFilter::new(settings)?;
        let describe = format!("SELECT * FROM {} LIMIT 0", relation.sql);
        let statement = session.describe(&describe, &format!("describe {}", relation.place))?;
        let types: Vec<Type> = statement.columns().iter().map(|c| c.type_().clone()).collect();
        let table: Vec<TableColumn> = statement
            .columns()
            .iter()
            .map(|column| TableColumn {
                name: column.name().to_owned(),
                kind: column.type_().name().to_owned(),
                content: content(column.type_()),
                measure: ValueField::of(column.type_())
                    .map_or(ColumnKind::Number, ValueField::measure),
                left_out: left_out(column.type_()),
            })
            .collect();
        let chosen = Selection::choose(&table, settings, required, &relation.place)?;
        let mut columns = copy_columns(&table, &types, &chosen, &relation.place)?;
        if let Some(kind) = columns.time.1.kind() {
            filter.check_kind(kind)?;
        }
        if let Some((_, field)) = columns.series {
            filter.spell_symbols(|symbol| field.spell(symbol));
            if field == KeyField::Caseless {
                filter.ignore_case();
            }
        }
        measure_arrays(session, &relation, &mut columns)?;
        let inputs = columns.values[..chosen.inputs].iter().map(|column| column.width).sum();

        let select = Select::new(&relation, &columns, settings, &filter)?;
        let tasks = tasks::plan_tasks(session, &relation, &columns, &select, settings)?;
        let hold = format!("{} LIMIT 0", select.sql());
        Ok(ReadPlan {
            columns: Arc::new(columns),
            filter: Arc::new(filter),
            inputs,
            tasks,
            left_out: chosen.left_out,
            state: None,
            lock: select::table_to_lock(settings)?,
            hold,
        })
    }
}

fn content(kind: &Type) -> Content {
    match ValueField::of(kind) {
        Some(ValueField::Scalar(scalar)) if scalar.is_number() => Content::Numbers,
        Some(ValueField::Array(scalar)) if scalar.is_number() => Content::Block,
        Some(_) => Content::OnRequest,
        None => Content::Other,
    }
}

/// Why a glob does not pick a column up. Nobody expects it to pick up text, times and the like.
fn left_out(kind: &Type) -> Option<String> {
    const NO_NUMBERS: [Type; 5] = [Type::JSON, Type::JSONB, Type::XML, Type::BYTEA, Type::TIMETZ];
    let element = match base(kind).kind() {
        Kind::Array(element) => base(element),
        _ => base(kind),
    };
    let expected = ValueField::of(kind).is_none()
        && KeyField::of(element).is_none()
        && !NO_NUMBERS.contains(element);
    let name = kind.name();
    expected.then(|| {
        format!("its type is {name}, which is not read; cast it to a number in source.query, or list the features without it")
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
            None => {
                return Err(wrong_key(
                    column,
                    "series",
                    "text, citext, an enum, a uuid or an integer",
                ));
            }
        },
    };
    let expected = "a date, a timestamp, a time, an integer or text in ISO form";
    let time = TimeField::of(&types[chosen.time])
        .ok_or_else(|| wrong_key(chosen.time, "time", expected))?;
    let value = |column: &usize| ValueColumn {
        name: table[*column].name.clone(),
        field: ValueField::of(&types[*column]).expect("only numbers are chosen as values"),
        width: 1,
    };
    Ok(CopyColumns {
        place: place.to_owned(),
        series,
        time: (table[chosen.time].name.clone(), time),
        values: chosen.values.iter().map(value).collect(),
    })
}

/// Finds out how long the arrays are: as long as the first that is not NULL.
fn measure_arrays(
    session: &mut Session,
    relation: &Relation,
    columns: &mut CopyColumns,
) -> Result<(), LoadError> {
    for column in &mut columns.values {
        let ValueField::Array(_) = column.field else { continue };
        let name = quote_name(&column.name);
        let measure = format!(
            "SELECT coalesce(array_length({name}, 1), 0) FROM {} WHERE {name} IS NOT NULL LIMIT 1",
            relation.sql
        );
        let rows = session.text_rows(&measure, &format!("measure the arrays in {name}"))?;
        let length = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        column.width = length.filter(|length| *length > 0).ok_or_else(|| {
            let (place, column) = (relation.place.clone(), column.name.clone());
            LoadError::NoArray { place, column }
        })?;
    }
    Ok(())
}
