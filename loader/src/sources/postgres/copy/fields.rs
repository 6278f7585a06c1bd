//! The field types of PostgreSQL that a panel can use, and their binary forms.
//!
//! Every decoder takes the bytes of one field and answers `None` (or an error) when they do not
//! have the form of its type; none can panic. A type that is not here is refused before any row is
//! read.

use super::numeric::numeric;
use crate::time;
use millstream_data::{ColumnKind, TimeKind, table::panel_value};
use millstream_postgres::types::{Kind, Type};

/// Microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
const EPOCH: i64 = 946_684_800_000_000;

/// A column that holds times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeField {
    Date,
    Timestamp,
    /// As a timestamp on the wire, and always UTC there; compared with zoned literals.
    ZonedTimestamp,
    /// A time of day: a moment of 1970-01-01.
    Clock,
    Integer(IntegerField),
    Text,
}

/// A column that holds numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueField {
    Scalar(Scalar),
    /// One-dimensional, of one length: a block of features.
    Array(Scalar),
}

/// A type that is one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Integer(IntegerField),
    Float4,
    Float8,
    Numeric,
    Bool,
    /// Days since 1970-01-01.
    Date,
    /// Seconds since midnight.
    Clock,
    /// Seconds since 1970-01-01.
    Timestamp,
    ZonedTimestamp,
}

/// A signed integer of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerField {
    Int2,
    Int4,
    Int8,
}

/// Why a time was not decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadTime {
    /// The bytes are not of the type.
    Form,
    /// They are, but are no time.
    Value(String),
    /// It is infinite, and whether in the future.
    Infinite(bool),
    /// It is of a year so far away that no panel can hold it.
    Far(i64),
}

/// The type that a domain stands for; any other type stands for itself.
pub(crate) fn base(kind: &Type) -> &Type {
    match kind.kind() {
        Kind::Domain(inner) => base(inner),
        _ => kind,
    }
}

impl TimeField {
    pub(crate) fn of(kind: &Type) -> Option<Self> {
        match *base(kind) {
            Type::DATE => Some(TimeField::Date),
            Type::TIMESTAMP => Some(TimeField::Timestamp),
            Type::TIMESTAMPTZ => Some(TimeField::ZonedTimestamp),
            Type::TIME => Some(TimeField::Clock),
            ref kind if is_text(kind) => Some(TimeField::Text),
            ref kind => IntegerField::of(kind).map(TimeField::Integer),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeField::Date => "date",
            TimeField::Timestamp => "timestamp",
            TimeField::ZonedTimestamp => "timestamptz",
            TimeField::Clock => "time",
            TimeField::Integer(integer) => integer.name(),
            TimeField::Text => "UTF-8 text",
        }
    }

    /// What its times are; `None` for text, where each row may differ.
    pub(crate) fn kind(self) -> Option<TimeKind> {
        match self {
            TimeField::Date => Some(TimeKind::Date),
            TimeField::Timestamp | TimeField::ZonedTimestamp | TimeField::Clock => {
                Some(TimeKind::Timestamp)
            }
            TimeField::Integer(_) => Some(TimeKind::Integer),
            TimeField::Text => None,
        }
    }

    pub(crate) fn decode(self, bytes: &[u8]) -> Result<(i64, TimeKind), BadTime> {
        let form = BadTime::Form;
        match self {
            TimeField::Date => {
                let days = i32::from_be_bytes(fixed(bytes).ok_or(form)?);
                let time = day(days).and_then(|day| day.checked_mul(time::DAY));
                let infinite = days == i32::MAX || days == i32::MIN;
                let time = time.ok_or_else(|| out_of_range(i64::from(days), infinite));
                time.map(|time| (time, TimeKind::Date))
            }
            TimeField::Timestamp | TimeField::ZonedTimestamp => {
                let micros = i64::from_be_bytes(fixed(bytes).ok_or(form)?);
                let infinite = micros == i64::MAX || micros == i64::MIN;
                let days = micros.div_euclid(time::DAY);
                let time = moment(micros).ok_or_else(|| out_of_range(days, infinite));
                time.map(|time| (time, TimeKind::Timestamp))
            }
            TimeField::Clock => {
                let micros = i64::from_be_bytes(fixed(bytes).ok_or(form)?);
                Ok((micros, TimeKind::Timestamp))
            }
            TimeField::Integer(integer) => {
                let number = integer.decode(bytes).ok_or(form)?;
                Ok((number, TimeKind::Integer))
            }
            TimeField::Text => {
                let text = str::from_utf8(bytes).map_err(|_| form)?;
                time::parse(text).ok_or_else(|| BadTime::Value(format!("{text:?}")))
            }
        }
    }
}

/// What is wrong with a time, so many days after 2000-01-01, that does not fit 64 bits of
/// microseconds.
fn out_of_range(days: i64, infinite: bool) -> BadTime {
    if infinite {
        return BadTime::Infinite(days > 0);
    }
    let days = days + EPOCH / time::DAY;
    let starts = |year| time::days_from_civil(year, 1, 1);
    // Off by one at most, as years differ in length.
    let mut year = 1970 + (days * 400).div_euclid(146_097);
    while starts(year) > days {
        year -= 1;
    }
    while starts(year + 1) <= days {
        year += 1;
    }
    BadTime::Far(year)
}

/// Days since 1970-01-01; `None` for the infinities.
pub(super) fn day(days: i32) -> Option<i64> {
    let infinite = days == i32::MAX || days == i32::MIN;
    (!infinite).then_some(i64::from(days) + EPOCH / time::DAY)
}

/// Microseconds since 1970-01-01; `None` for the infinities, and for what does not fit.
pub(super) fn moment(micros: i64) -> Option<i64> {
    let infinite = micros == i64::MAX || micros == i64::MIN;
    micros.checked_add(EPOCH).filter(|_| !infinite)
}

impl ValueField {
    pub(crate) fn of(kind: &Type) -> Option<Self> {
        match base(kind).kind() {
            Kind::Array(element) => Scalar::of(element).map(ValueField::Array),
            _ => Scalar::of(kind).map(ValueField::Scalar),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ValueField::Scalar(scalar) => scalar.name(),
            ValueField::Array(_) => "one-dimensional array",
        }
    }

    /// What its numbers are.
    pub(crate) fn measure(self) -> ColumnKind {
        let (ValueField::Scalar(scalar) | ValueField::Array(scalar)) = self;
        scalar.measure()
    }
}

impl Scalar {
    fn measure(self) -> ColumnKind {
        match self {
            Scalar::Bool => ColumnKind::Boolean,
            scalar if scalar.is_number() => ColumnKind::Number,
            _ => ColumnKind::Time,
        }
    }

    fn of(kind: &Type) -> Option<Self> {
        match *base(kind) {
            Type::FLOAT4 => Some(Scalar::Float4),
            Type::FLOAT8 => Some(Scalar::Float8),
            Type::NUMERIC => Some(Scalar::Numeric),
            Type::BOOL => Some(Scalar::Bool),
            Type::DATE => Some(Scalar::Date),
            Type::TIME => Some(Scalar::Clock),
            Type::TIMESTAMP => Some(Scalar::Timestamp),
            Type::TIMESTAMPTZ => Some(Scalar::ZonedTimestamp),
            ref kind => IntegerField::of(kind).map(Scalar::Integer),
        }
    }

    /// Whether it is a number in itself, and not a time made one.
    pub(crate) fn is_number(self) -> bool {
        use Scalar::{Clock, Date, Timestamp, ZonedTimestamp};
        !matches!(self, Date | Clock | Timestamp | ZonedTimestamp)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scalar::Integer(integer) => integer.name(),
            Scalar::Float4 => "float4",
            Scalar::Float8 => "float8",
            Scalar::Numeric => "numeric",
            Scalar::Bool => "bool",
            Scalar::Date => "date",
            Scalar::Clock => "time",
            Scalar::Timestamp => "timestamp",
            Scalar::ZonedTimestamp => "timestamptz",
        }
    }

    /// The number as a panel keeps it.
    #[inline]
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<f32> {
        self.number(bytes).map(panel_value)
    }

    /// The number, or the nearest. The infinities of dates are NaN.
    #[inline]
    pub(super) fn number(self, bytes: &[u8]) -> Option<f64> {
        match self {
            Scalar::Integer(integer) => integer.decode(bytes).map(|n| n as f64),
            Scalar::Float4 => fixed(bytes).map(|bytes| f64::from(f32::from_be_bytes(bytes))),
            Scalar::Float8 => fixed(bytes).map(f64::from_be_bytes),
            Scalar::Numeric => numeric(bytes),
            Scalar::Bool => boolean(bytes).map(|truth| f64::from(u8::from(truth))),
            Scalar::Date => {
                let days = day(i32::from_be_bytes(fixed(bytes)?));
                Some(days.map_or(f64::NAN, |days| days as f64))
            }
            Scalar::Clock => fixed(bytes).map(|bytes| seconds(i64::from_be_bytes(bytes))),
            Scalar::Timestamp | Scalar::ZonedTimestamp => {
                let moment = moment(i64::from_be_bytes(fixed(bytes)?));
                Some(moment.map_or(f64::NAN, seconds))
            }
        }
    }
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

pub(super) fn boolean(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

impl IntegerField {
    pub(super) fn of(kind: &Type) -> Option<Self> {
        match *kind {
            Type::INT2 => Some(IntegerField::Int2),
            Type::INT4 => Some(IntegerField::Int4),
            Type::INT8 => Some(IntegerField::Int8),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            IntegerField::Int2 => "int2",
            IntegerField::Int4 => "int4",
            IntegerField::Int8 => "int8",
        }
    }

    pub(super) fn decode(self, bytes: &[u8]) -> Option<i64> {
        match self {
            IntegerField::Int2 => fixed(bytes).map(|bytes| i16::from_be_bytes(bytes).into()),
            IntegerField::Int4 => fixed(bytes).map(|bytes| i32::from_be_bytes(bytes).into()),
            IntegerField::Int8 => fixed(bytes).map(i64::from_be_bytes),
        }
    }
}

pub(super) fn is_text(kind: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR, Type::NAME, Type::CHAR].contains(kind)
}

pub(super) fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_without_a_number_are_refused() {
        let infinity = |positive| Err(BadTime::Infinite(positive));
        assert_eq!(TimeField::Date.decode(&i32::MAX.to_be_bytes()), infinity(true));
        assert_eq!(TimeField::Timestamp.decode(&i64::MIN.to_be_bytes()), infinity(false));
        let far = TimeField::Date.decode(&(i32::MIN + 1).to_be_bytes());
        assert_eq!(far, Err(BadTime::Far(-5_877_611)));
        // 294276-12-31 23:59:59.999999, the last that PostgreSQL has.
        let last = 9_223_371_331_199_999_999_i64.to_be_bytes();
        assert_eq!(TimeField::Timestamp.decode(&last), Err(BadTime::Far(294_276)));
        assert_eq!(TimeField::Timestamp.decode(&[1]), Err(BadTime::Form));
        let day = TimeField::Date.decode(&0_i32.to_be_bytes());
        assert_eq!(day, Ok((EPOCH, TimeKind::Date)));
    }

    #[test]
    fn times_as_features_are_days_and_seconds() {
        let check = |scalar: Scalar, bytes: &[u8], expected: f32| {
            let found = scalar.decode(bytes).map(f32::to_bits);
            assert_eq!(found, Some(expected.to_bits()), "{scalar:?}");
        };
        check(Scalar::Date, &0_i32.to_be_bytes(), 10_957.0);
        check(Scalar::Date, &i32::MAX.to_be_bytes(), f32::NAN);
        check(Scalar::Clock, &1_500_000_i64.to_be_bytes(), 1.5);
        check(Scalar::Timestamp, &0_i64.to_be_bytes(), 946_684_800.0);
        check(Scalar::Timestamp, &i64::MIN.to_be_bytes(), f32::NAN);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_field_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            use IntegerField::{Int2, Int4, Int8};
            for integer in [Int2, Int4, Int8] {
                Scalar::Integer(integer).decode(&bytes);
            }
            use Scalar::{Bool, Clock, Date, Float4, Float8, Numeric, Timestamp};
            for value in [Float4, Float8, Numeric, Bool, Date, Clock, Timestamp] {
                value.decode(&bytes);
            }
            use TimeField::Text;
            for time in [TimeField::Date, TimeField::Timestamp, TimeField::Clock, Text] {
                prop_assert!(!bytes.is_empty() || time.decode(&bytes).is_err());
            }
        }
    }
}
