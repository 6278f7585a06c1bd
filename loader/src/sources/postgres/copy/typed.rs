//! [`TypedRows`]: rows of a COPY stream into plain Arrow columns, a column per field.
//!
//! For programs that want the table and not a panel: integers stay integers, dates dates, NULL is
//! null and NaN is NaN. `numeric` becomes the nearest `Float64`. Dates and times that Arrow has no
//! value for (the infinities) are null, but in the time column they are an error.

use super::{
    BadValue, CopyColumns, DecodeRow, RowError, ValueColumn, ValueError, array,
    cursor::Cursor,
    fields::{self, IntegerField, Scalar, TimeField, ValueField, fixed},
    numeric::numeric,
    packed::bad_time,
};
use crate::filter::RowFilter;
use arrow::{
    array::{
        ArrayRef, BooleanBuilder, FixedSizeListBuilder, PrimitiveBuilder, RecordBatch,
        StringBuilder,
        types::{
            Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
            Time64MicrosecondType, TimestampMicrosecondType,
        },
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use millstream_data::TimeKind;
use std::sync::Arc;

/// The rows of a stream, column by column.
#[derive(Debug)]
pub(crate) struct TypedRows {
    columns: Arc<CopyColumns>,
    filter: Arc<RowFilter>,
    schema: SchemaRef,
    series: StringBuilder,
    time: ScalarBuilder,
    values: Vec<ValueBuilder>,
    rows: usize,
    time_kind: Option<TimeKind>,
    scratch: String,
}

#[derive(Debug)]
enum ValueBuilder {
    Scalar(ScalarBuilder),
    /// The elements' type, how many there are, and the lists so far.
    Array(Scalar, usize, FixedSizeListBuilder<PrimitiveBuilder<Float64Type>>),
}

#[derive(Debug)]
enum ScalarBuilder {
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Float4(PrimitiveBuilder<Float32Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Numeric(PrimitiveBuilder<Float64Type>),
    Bool(BooleanBuilder),
    Date(PrimitiveBuilder<Date32Type>),
    Clock(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Text(StringBuilder),
}

impl TypedRows {
    pub(crate) fn new(columns: Arc<CopyColumns>, filter: Arc<RowFilter>) -> Self {
        let values = columns.values.iter().map(ValueBuilder::new).collect();
        TypedRows {
            schema: schema(&columns),
            series: StringBuilder::new(),
            time: ScalarBuilder::for_time(columns.time.1),
            values,
            rows: 0,
            time_kind: None,
            scratch: String::new(),
            columns,
            filter,
        }
    }

    /// Rows not taken yet.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the rows so far.
    pub(crate) fn take(&mut self) -> RecordBatch {
        self.rows = 0;
        let series =
            self.columns.series.as_ref().map(|_| Arc::new(self.series.finish()) as ArrayRef);
        let values: Vec<ArrayRef> = self.values.iter_mut().map(ValueBuilder::finish).collect();
        let columns = series.into_iter().chain([self.time.finish()]).chain(values).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("every row adds a value to every column")
    }
}

impl DecodeRow for TypedRows {
    fn row(&mut self, fields: &mut Cursor<'_>) -> Result<(), RowError> {
        // Builders take nothing back, so the row must be there as a whole.
        let mut ahead = *fields;
        ahead.skip(self.columns.fields())?;

        let columns = &*self.columns;
        let series = if columns.series.is_some() { fields.field()? } else { None };
        let time = fields.field()?;
        let at = match time.map(|bytes| (bytes, columns.time.1.decode(bytes))) {
            Some((_, Ok((at, kind)))) => {
                if self.time_kind != Some(kind) {
                    let kind = columns.common_kind(self.time_kind, kind)?;
                    self.filter.check_kind(kind)?;
                    self.time_kind = Some(kind);
                }
                Some(at)
            }
            Some((bytes, Err(bad))) => return Err(bad_time(columns, bad, bytes, series).into()),
            None => None,
        };
        let name = match (&columns.series, series) {
            (Some((column, field)), Some(bytes)) => match field.decode(bytes, &mut self.scratch) {
                Some(name) => Some(name),
                None => {
                    let row = columns.row_id(None, time);
                    return Err(columns.bad_key(column, field.name(), bytes, row).into());
                }
            },
            _ => None,
        };
        if at.is_some_and(|at| !self.filter.admits_time(at)) {
            fields.go_on_at(ahead.rest());
            return Ok(());
        }
        if columns.series.is_some() {
            self.series.append_option(name);
        }
        self.time.append(time).expect("the time was decoded before");
        for (column, builder) in self.values.iter_mut().enumerate() {
            let bytes = fields.field()?;
            builder.append(bytes).map_err(|why| {
                columns.bad_value(BadValue { column, why }, columns.row_id(series, time))
            })?;
        }
        self.rows += 1;
        Ok(())
    }

    fn columns(&self) -> &CopyColumns {
        &self.columns
    }
}

/// The schema of the record batches.
pub(crate) fn schema(columns: &CopyColumns) -> SchemaRef {
    let series = columns.series.iter().map(|(name, _)| Field::new(name, DataType::Utf8, true));
    let time = Field::new(&columns.time.0, time_type(columns.time.1), true);
    let value = |column: &ValueColumn| Field::new(&column.name, value_type(column), true);
    Arc::new(Schema::new(
        series.chain([time]).chain(columns.values.iter().map(value)).collect::<Vec<_>>(),
    ))
}

fn time_type(field: TimeField) -> DataType {
    match field {
        TimeField::Date => DataType::Date32,
        TimeField::Timestamp => scalar_type(Scalar::Timestamp),
        TimeField::ZonedTimestamp => scalar_type(Scalar::ZonedTimestamp),
        TimeField::Clock => scalar_type(Scalar::Clock),
        TimeField::Integer(integer) => scalar_type(Scalar::Integer(integer)),
        TimeField::Text => DataType::Utf8,
    }
}

fn value_type(column: &ValueColumn) -> DataType {
    match column.field {
        ValueField::Scalar(scalar) => scalar_type(scalar),
        ValueField::Array(_) => {
            DataType::new_fixed_size_list(DataType::Float64, list_width(column), true)
        }
    }
}

fn list_width(column: &ValueColumn) -> i32 {
    i32::try_from(column.width).expect("the server's arrays are shorter than 2^31")
}

fn scalar_type(scalar: Scalar) -> DataType {
    match scalar {
        Scalar::Integer(IntegerField::Int2) => DataType::Int16,
        Scalar::Integer(IntegerField::Int4) => DataType::Int32,
        Scalar::Integer(IntegerField::Int8) => DataType::Int64,
        Scalar::Float4 => DataType::Float32,
        Scalar::Float8 | Scalar::Numeric => DataType::Float64,
        Scalar::Bool => DataType::Boolean,
        Scalar::Date => DataType::Date32,
        Scalar::Clock => DataType::Time64(TimeUnit::Microsecond),
        Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Scalar::ZonedTimestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    }
}

impl ValueBuilder {
    fn new(column: &ValueColumn) -> Self {
        match column.field {
            ValueField::Scalar(scalar) => ValueBuilder::Scalar(ScalarBuilder::new(scalar)),
            ValueField::Array(scalar) => {
                let width = list_width(column);
                let builder = FixedSizeListBuilder::new(PrimitiveBuilder::new(), width);
                ValueBuilder::Array(scalar, column.width, builder)
            }
        }
    }

    fn append(&mut self, bytes: Option<&[u8]>) -> Result<(), ValueError> {
        match (self, bytes) {
            (ValueBuilder::Scalar(builder), bytes) => {
                let length = bytes.map_or(0, <[u8]>::len);
                builder.append(bytes).ok_or(ValueError::Form { bytes: length })
            }
            (ValueBuilder::Array(_, width, builder), None) => {
                builder.values().append_nulls(*width);
                builder.append(false);
                Ok(())
            }
            (ValueBuilder::Array(scalar, width, builder), Some(bytes)) => {
                array::elements(bytes, *width, |_, element| {
                    builder.values().append_option(of(element, |b| scalar.number(b))?);
                    Some(())
                })?;
                builder.append(true);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ValueBuilder::Scalar(builder) => builder.finish(),
            ValueBuilder::Array(_, _, builder) => Arc::new(builder.finish()),
        }
    }
}

impl ScalarBuilder {
    fn new(scalar: Scalar) -> Self {
        use PrimitiveBuilder as Primitive;
        match scalar {
            Scalar::Integer(IntegerField::Int2) => ScalarBuilder::Int2(Primitive::new()),
            Scalar::Integer(IntegerField::Int4) => ScalarBuilder::Int4(Primitive::new()),
            Scalar::Integer(IntegerField::Int8) => ScalarBuilder::Int8(Primitive::new()),
            Scalar::Float4 => ScalarBuilder::Float4(Primitive::new()),
            Scalar::Float8 => ScalarBuilder::Float8(Primitive::new()),
            Scalar::Numeric => ScalarBuilder::Numeric(Primitive::new()),
            Scalar::Bool => ScalarBuilder::Bool(BooleanBuilder::new()),
            Scalar::Date => ScalarBuilder::Date(Primitive::new()),
            Scalar::Clock => ScalarBuilder::Clock(Primitive::new()),
            Scalar::Timestamp | Scalar::ZonedTimestamp => {
                let builder = Primitive::new().with_data_type(scalar_type(scalar));
                ScalarBuilder::Timestamp(builder)
            }
        }
    }

    fn for_time(field: TimeField) -> Self {
        match field {
            TimeField::Text => ScalarBuilder::Text(StringBuilder::new()),
            TimeField::Date => ScalarBuilder::new(Scalar::Date),
            TimeField::Timestamp => ScalarBuilder::new(Scalar::Timestamp),
            TimeField::ZonedTimestamp => ScalarBuilder::new(Scalar::ZonedTimestamp),
            TimeField::Clock => ScalarBuilder::new(Scalar::Clock),
            TimeField::Integer(integer) => ScalarBuilder::new(Scalar::Integer(integer)),
        }
    }

    /// Adds a field; `None` when its bytes do not have the form of the type.
    fn append(&mut self, bytes: Option<&[u8]>) -> Option<()> {
        match self {
            ScalarBuilder::Int2(to) => to.append_option(of(bytes, fixed)?.map(i16::from_be_bytes)),
            ScalarBuilder::Int4(to) => to.append_option(of(bytes, fixed)?.map(i32::from_be_bytes)),
            ScalarBuilder::Int8(to) => to.append_option(of(bytes, fixed)?.map(i64::from_be_bytes)),
            ScalarBuilder::Float4(to) => {
                to.append_option(of(bytes, fixed)?.map(f32::from_be_bytes));
            }
            ScalarBuilder::Float8(to) => {
                to.append_option(of(bytes, fixed)?.map(f64::from_be_bytes));
            }
            ScalarBuilder::Numeric(to) => to.append_option(of(bytes, numeric)?),
            ScalarBuilder::Bool(to) => to.append_option(of(bytes, fields::boolean)?),
            ScalarBuilder::Date(to) => {
                let days = of(bytes, fixed)?.and_then(|b| fields::day(i32::from_be_bytes(b)));
                to.append_option(days.and_then(|days| i32::try_from(days).ok()));
            }
            ScalarBuilder::Clock(to) => to.append_option(of(bytes, fixed)?.map(i64::from_be_bytes)),
            ScalarBuilder::Timestamp(to) => {
                let moment = of(bytes, fixed)?.and_then(|b| fields::moment(i64::from_be_bytes(b)));
                to.append_option(moment);
            }
            ScalarBuilder::Text(to) => to.append_option(of(bytes, |b| str::from_utf8(b).ok())?),
        }
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ScalarBuilder::Int2(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Int4(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Int8(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Float4(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Float8(builder) | ScalarBuilder::Numeric(builder) => {
                Arc::new(builder.finish())
            }
            ScalarBuilder::Bool(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Date(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Clock(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Timestamp(builder) => Arc::new(builder.finish()),
            ScalarBuilder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Decodes a field that may be NULL; `None` when it does not have the form of its type.
fn of<'a, T>(
    bytes: Option<&'a [u8]>,
    decode: impl FnOnce(&'a [u8]) -> Option<T>,
) -> Option<Option<T>> {
    match bytes {
        None => Some(None),
        Some(bytes) => decode(bytes).map(Some),
    }
}
