//! Times: what the panel's `i64` means, how it is read from text and written as text.
//!
//! Of rows only the forms that sort and mean the same everywhere are read ([`parse`]); `3/4/2020` is
//! refused rather than guessed at. An offset is applied, so that every time is UTC. Who types a time
//! whose kind is known ([`TimeKind::parse`]) has a few more forms.

use arrow::{
    array::timezone::Tz, compute::kernels::cast_utils::string_to_datetime,
    temporal_conversions::timestamp_us_to_datetime,
};
use serde::{Deserialize, Serialize};

/// Microseconds in a day.
pub const DAY: i64 = 86_400_000_000;

/// What [`parse`] reads, for error messages.
pub const EXPECTED: &str =
    "YYYY-MM-DD, YYYY-MM-DD HH:MM:SS[.ffffff] with an optional UTC offset, or an integer";

/// How to read a panel's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// Microseconds since 1970-01-01, always at midnight.
    Date,
    /// Microseconds since 1970-01-01 00:00:00.
    Timestamp,
    /// A plain number.
    Integer,
}

impl TimeKind {
    /// A time as people write it.
    #[must_use]
    pub fn format(self, time: i64) -> String {
        match (self, timestamp_us_to_datetime(time)) {
            (TimeKind::Date, Some(moment)) => moment.format("%Y-%m-%d").to_string(),
            (TimeKind::Timestamp, Some(moment)) => {
                moment.format("%Y-%m-%d %H:%M:%S%.f").to_string()
            }
            (TimeKind::Integer, _) | (_, None) => time.to_string(),
        }
    }

    /// Reads a time as [`format`](Self::format) writes it, or in one of the laxer forms that Arrow
    /// knows: a small `t` or `z`, a clock without colons.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<i64> {
        match self {
            TimeKind::Integer => text.trim().parse().ok(),
            TimeKind::Date | TimeKind::Timestamp => near_year(text).or_else(|| far_year(text)),
        }
    }

    /// What times are of which some are of one kind and some of another: dates among timestamps are
    /// midnights, dates among numbers (`None`) are a mistake.
    #[must_use]
    pub fn common(known: Option<TimeKind>, found: TimeKind) -> Option<TimeKind> {
        match known {
            Some(known) if known == found => Some(found),
            Some(TimeKind::Integer) => None,
            Some(_) if found == TimeKind::Integer => None,
            Some(_) => Some(TimeKind::Timestamp),
            None => Some(found),
        }
    }
}

/// Reads a time as it stands in a row. Digits alone are a plain number.
#[must_use]
pub fn parse(text: &str) -> Option<(i64, TimeKind)> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Some((number, TimeKind::Integer));
    }
    let (date, clock) = text.split_at_checked(10)?;
    let day = parse_date(date.as_bytes())? * DAY;
    if clock.is_empty() {
        return Some((day, TimeKind::Date));
    }
    let clock = clock.strip_prefix(['T', ' '])?;
    Some((day + parse_clock(clock.as_bytes())?, TimeKind::Timestamp))
}

/// Whether a time that [`parse`] reads says how far it is from UTC.
#[must_use]
pub fn has_offset(text: &str) -> bool {
    let clock = text.trim().as_bytes().get(10..).unwrap_or_default();
    clock.iter().any(|byte| matches!(byte, b'Z' | b'+' | b'-'))
}

/// A time of the years 0 to 9999: as rows have it, or in one of the laxer forms that Arrow knows. By
/// way of nanoseconds those would end in 2262.
fn near_year(text: &str) -> Option<i64> {
    match parse(text) {
        Some((time, TimeKind::Date | TimeKind::Timestamp)) => Some(time),
        _ => {
            let utc: Tz = "+00:00".parse().ok()?;
            string_to_datetime(&utc, text).ok().map(|moment| moment.timestamp_micros())
        }
    }
}

/// A time of a year before 0 or after 9999, written with its sign as [`TimeKind::format`] does it:
/// the calendar repeats itself every 400 years. What is beyond that is written in microseconds.
fn far_year(text: &str) -> Option<i64> {
    const CYCLE_YEARS: i64 = 400;
    const CYCLE_MICROS: i64 = 146_097 * DAY;
    // The years of the library that writes times end in 262142.
    const UNWRITTEN: u64 = 8_200_000_000_000_000_000;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((year, rest)) = digits.split_once('-') else {
        return text.parse::<i64>().ok().filter(|micros| micros.unsigned_abs() > UNWRITTEN);
    };
    // A year of two digits is a mistake.
    if year.len() < if digits == text { 5 } else { 4 } {
        return None;
    }
    let year: i64 = year.parse().ok()?;
    let year = if text.starts_with('-') { -year } else { year };
    let like = 2000 + year.rem_euclid(CYCLE_YEARS);
    let cycles = (year - like).div_euclid(CYCLE_YEARS);
    near_year(&format!("{like}-{rest}"))?.checked_add(cycles.checked_mul(CYCLE_MICROS)?)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
///
/// After Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn parse_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let (year, month, day) = (digits(&[y1, y2, y3, y4])?, digits(&[m1, m2])?, digits(&[d1, d2])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    (1..=length).contains(&day).then(|| days_from_civil(year, month, day))
}

fn parse_clock(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else { return None };
    let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let length = rest.iter().take_while(|c| c.is_ascii_digit()).count();
            (parse_fraction(&rest[..length])?, &rest[length..])
        }
        _ => (0, rest),
    };
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction - parse_offset(zone)?)
}

/// Microseconds; digits beyond the sixth are dropped.
fn parse_fraction(text: &[u8]) -> Option<i64> {
    let length = text.len().min(6);
    (length > 0).then_some(())?;
    let scale = 10_i64.pow(6 - u32::try_from(length).ok()?);
    Some(digits(&text[..length])? * scale)
}

fn parse_offset(text: &[u8]) -> Option<i64> {
    let (sign, hour, minute) = match text {
        [] | [b'Z'] => return Some(0),
        [sign, h1, h2] => (sign, digits(&[*h1, *h2])?, 0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => {
            (sign, digits(&[*h1, *h2])?, digits(&[*m1, *m2])?)
        }
        _ => return None,
    };
    let offset = (hour * 60 + minute) * 60_000_000;
    match sign {
        b'+' => Some(offset),
        b'-' => Some(-offset),
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, TimeKind)>) {
        let found = parse(text).map(|(time, kind)| (kind.format(time), kind));
        assert_eq!(found, expected.map(|(text, kind)| (text.to_owned(), kind)), "{text}");
    }

    #[test]
    fn the_documented_forms_are_read() {
        use TimeKind::{Date, Integer, Timestamp};
        check("2015-01-05", Some(("2015-01-05", Date)));
        check("0001-03-01", Some(("0001-03-01", Date)));
        check("2016-02-29", Some(("2016-02-29", Date)));
        check("1969-12-31 23:59:59.5", Some(("1969-12-31 23:59:59.500", Timestamp)));
        check("2015-01-05T01:02:03Z", Some(("2015-01-05 01:02:03", Timestamp)));
        check("2015-01-05 01:00:00+08:00", Some(("2015-01-04 17:00:00", Timestamp)));
        check("2015-01-05 01:00:00.123456789-03", Some(("2015-01-05 04:00:00.123456", Timestamp)));
        check(" 20150105 ", Some(("20150105", Integer)));
    }

    #[test]
    fn an_offset_is_told_from_none() {
        for text in
            ["2015-01-05T01:02:03Z", " 2015-01-05 01:00:00.5-03 ", "2015-01-05 01:00:00+08:00"]
        {
            assert!(has_offset(text), "{text}");
        }
        for text in ["2015-01-05", "2015-01-05 01:00:00", "-5", "-1234567890123456"] {
            assert!(!has_offset(text), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "2015-1-5",
            "2015-02-29",
            "2015-13-01",
            "2015-01-05 1:00:00",
            "2015-01-05 24:00:00",
            "2015-01-05x01:00:00",
            "2015-01-05 01:00:00.",
            "2015-01-05 01:00:00 CET",
            "05/01/2015",
            "2015-01-0é",
            "１２３４-01-01",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn what_is_typed_may_be_of_any_century() {
        let check = |text: &str, expected: &str| {
            let time = TimeKind::Date.parse(text).unwrap();
            assert_eq!(TimeKind::Date.format(time), expected);
        };
        check("1500-01-01", "1500-01-01");
        check("2020-02-29 00:00:00", "2020-02-29");
        check("2020-02-29t000000z", "2020-02-29");
        check("9999-12-31", "9999-12-31");
        check("+10000-02-29", "+10000-02-29");
        check("+262000-12-31 00:00:00", "+262000-12-31");
        check("-0001-03-01", "-0001-03-01");
        let unwritten = TimeKind::Date.format(i64::MAX / DAY * DAY);
        check(&unwritten, &unwritten);
        check("12345-01-01", "+12345-01-01");
        for text in ["99-01-01", "+99999999-01-01", "-7", "soon"] {
            assert_eq!(TimeKind::Date.parse(text), None, "{text}");
        }
        assert_eq!(TimeKind::Timestamp.parse("1970-01-02 00:00:01.5"), Some(DAY + 1_500_000));
        assert_eq!(TimeKind::Integer.parse("-7"), Some(-7));
    }
}
