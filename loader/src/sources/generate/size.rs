//! Whether a generated table fits: by its settings, before anything of it is made.
//!
//! An estimate from below of what holding it takes, against the memory there is. What is refused
//! would have ended in an abort, or in somebody else's being killed.

use crate::{GenerateSettings, LoadError};

/// Business days whose time can be written down: 64 bits of microseconds end in the year 294247.
const MOST_ROWS: u128 = 76_000_000;

/// Series are numbered by 32 bits.
const MOST_SERIES: u128 = u32::MAX as u128;

/// Bytes of the keys of a row: the number of its series and its time.
const KEY_BYTES: u128 = 12;

/// Bytes of a series besides its rows: its name, in the list of names and in that by name.
const SERIES_BYTES: u128 = 120;

/// Bytes of a column besides its cells: its description, its name, how it is made.
const COLUMN_BYTES: u128 = 300;

/// How large the table is. Of what is not kept, series that are not among `source.symbols` for one,
/// nothing counts but what it takes to make it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    series: u128,
    rows: u128,
    columns: u128,
    /// Series that are kept.
    kept: Option<u128>,
    /// Whether all columns are kept.
    is_wide: bool,
}

impl Size {
    /// The size of the table; `symbols` says how many series are kept, where not all are, and
    /// `is_wide` whether every feature is.
    pub(crate) fn new(made: &GenerateSettings, symbols: Option<usize>, is_wide: bool) -> Self {
        Size {
            series: made.series.get() as u128,
            rows: made.rows.get() as u128,
            columns: made.features.get() as u128 + 1,
            kept: symbols.map(|count| count as u128),
            is_wide,
        }
    }

    /// Refuses what does not fit into `memory` bytes, if that is known, or cannot be numbered.
    ///
    /// # Errors
    /// [`LoadError::TooLarge`], which names the key that is most beyond what is usual.
    pub(crate) fn check(self, memory: Option<u64>) -> Result<(), LoadError> {
        for (key, value, most) in
            [("generate.rows", self.rows, MOST_ROWS), ("generate.series", self.series, MOST_SERIES)]
        {
            if value > most {
                let why = "times, or series, beyond that have no number".to_owned();
                return Err(too_large(key, value, most, why));
            }
        }
        let Some(memory) = memory.map(u128::from) else { return Ok(()) };
        let needed = self.bytes();
        if needed <= memory {
            return Ok(());
        }
        let standard = GenerateSettings::default();
        let keys = [
            ("generate.series", self.series, standard.series.get() as u128),
            ("generate.rows", self.rows, standard.rows.get() as u128),
            ("generate.features", self.columns - 1, standard.features.get() as u128),
        ];
        let beyond = |(_, value, usual): &(&str, u128, u128)| value / usual;
        let (key, value, _) = keys.into_iter().max_by_key(beyond).expect("there are three");
        let with = |value: u128| match key {
            "generate.series" => Size { series: value, ..self },
            "generate.rows" => Size { rows: value, ..self },
            _ => Size { columns: value + 1, ..self },
        };
        let most = largest(value, |value| with(value).bytes() <= memory);
        let why = format!(
            "with the other settings it would take {} of memory, and there are {}",
            gib(needed),
            gib(memory)
        );
        Err(too_large(key, value, most, why))
    }

    /// About what the table takes while it is in memory.
    fn bytes(self) -> u128 {
        let kept = self.kept.map_or(self.series, |kept| kept.min(self.series));
        let width = if self.is_wide { self.columns } else { 1 };
        let row = KEY_BYTES + 4 * width;
        // All but the short ones, and the days at the ends that many do not have.
        let rows = kept.saturating_mul(self.rows) * 9 / 10;
        let names = match self.kept {
            // The names of all are kept, to tell what may have been meant.
            Some(_) => self.series,
            None => kept,
        };
        // Two hidden processes of 8 bytes a day.
        let hidden = 16 * self.rows;
        rows.saturating_mul(row)
            .saturating_add(names.saturating_mul(SERIES_BYTES))
            .saturating_add(self.columns.saturating_mul(COLUMN_BYTES))
            .saturating_add(hidden)
    }
}

fn too_large(key: &'static str, value: u128, most: u128, why: String) -> LoadError {
    // What is set came as 64 bits, and what fits is less.
    let number = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    LoadError::TooLarge { key, value: number(value), most: number(most), why }
}

/// The largest number below `limit` that fits, given that smaller ones fit where larger ones do.
fn largest(limit: u128, fits: impl Fn(u128) -> bool) -> u128 {
    let (mut low, mut high) = (0, limit);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn gib(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(series: usize, rows: usize, features: usize) -> Size {
        let number = |n: usize| n.try_into().unwrap();
        let made = GenerateSettings {
            series: number(series),
            rows: number(rows),
            features: number(features),
            ..GenerateSettings::default()
        };
        Size::new(&made, None, true)
    }

    fn check(size: Size, memory: u64, expected: Option<&str>) {
        let found = size.check(Some(memory)).err().map(|error| error.to_string());
        match (&found, expected) {
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
            _ => assert_eq!(found.as_deref(), expected, "{size:?}"),
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_the_key_that_is_to_blame() {
        let memory = 8 << 30;
        check(size(500, 220, 16), memory, None);
        check(size(1_000_000, 220, 16), memory, Some("source.generate.series = 1000000 "));
        check(size(500, 50_000_000, 16), memory, Some("source.generate.rows = 50000000 "));
        check(size(500, 220, 1_000_000), memory, Some("source.generate.features = 1000000 "));
        for huge in [1_000_000_000, 1 << 31, 1 << 32, (1 << 63) - 1, usize::MAX] {
            check(size(huge, 220, 16), memory, Some("source.generate.series = "));
            check(size(500, huge, 16), memory, Some("source.generate.rows = "));
            check(size(500, 220, huge), memory, Some("source.generate.features = "));
            check(size(huge, huge, huge), memory, Some("cannot be used"));
        }
    }

    #[test]
    fn what_is_said_to_fit_fits_and_one_more_does_not() {
        let LoadError::TooLarge { most, value, .. } =
            size(1_000_000, 220, 16).check(Some(1 << 30)).unwrap_err()
        else {
            panic!("another error")
        };
        let most = usize::try_from(most).unwrap();
        assert!(most > 10_000 && value == 1_000_000);
        check(size(most, 220, 16), 1 << 30, None);
        check(size(most + 1, 220, 16), 1 << 30, Some("at most"));
    }

    #[test]
    fn what_is_not_kept_does_not_count() {
        let some = Size { kept: Some(3), ..size(1_000_000, 220, 16) };
        check(some, 1 << 30, None);
        assert!(size(1, 76_000_001, 1).check(None).is_err(), "whatever memory there is");
    }
}
