//! [`KnownValues`]: what was known of a target when, and the naive forecasts that follow from it.
//!
//! Of a level there is one sequence for each series, in the order of its times; of a change one for each
//! series and step, as a change over two rows is not one over three. A row of a sequence is a step; a time at
//! which it is known that there is no value is a row too.

use std::ops::Range;

/// A value, or NaN for none, at a time of a sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) sequence: u32,
    pub(crate) time: i64,
    pub(crate) value: f64,
}

#[derive(Debug, Default)]
pub(crate) struct KnownValues {
    /// Where each sequence begins, and the end of the last.
    starts: Vec<usize>,
    times: Vec<i64>,
    /// NaN where there is none.
    values: Vec<f64>,
    /// The last value up to each row; NaN where there was none.
    last: Vec<f64>,
    /// Sum and number of the values up to each row.
    sums: Vec<(f64, u32)>,
    /// Two entries that say different things of the same time, if there are any.
    pub(crate) conflict: Option<[Entry; 2]>,
}

impl KnownValues {
    /// Of entries in any order, of so many sequences.
    pub(crate) fn new(mut entries: Vec<Entry>, sequences: usize) -> KnownValues {
        // What is there before what is not.
        entries.sort_by_key(|entry| (entry.sequence, entry.time, entry.value.is_nan()));
        let mut known =
            KnownValues { starts: Vec::with_capacity(sequences + 1), ..Self::default() };
        let mut before: Option<Entry> = None;
        for entry in entries {
            if let Some(same) =
                before.filter(|b| (b.sequence, b.time) == (entry.sequence, entry.time))
            {
                if !entry.value.is_nan() && !alike(entry.value, same.value) {
                    known.conflict.get_or_insert([same, entry]);
                }
                continue;
            }
            let begins = before.is_none_or(|before| before.sequence != entry.sequence);
            known.starts.resize(entry.sequence as usize + 1, known.times.len());
            let (last, sum) = match begins {
                true => (f64::NAN, (0.0, 0)),
                false => (known.last[known.last.len() - 1], known.sums[known.sums.len() - 1]),
            };
            let there = !entry.value.is_nan();
            known.last.push(if there { entry.value } else { last });
            known.sums.push(if there { (sum.0 + entry.value, sum.1 + 1) } else { sum });
            known.times.push(entry.time);
            known.values.push(entry.value);
            before = Some(entry);
        }
        known.starts.resize(sequences + 1, known.times.len());
        known
    }

    fn rows(&self, sequence: u32) -> Range<usize> {
        self.starts[sequence as usize]..self.starts[sequence as usize + 1]
    }

    /// The row of a time, if it has one.
    fn at(&self, sequence: u32, time: i64) -> Option<usize> {
        let rows = self.rows(sequence);
        let found = self.times[rows.clone()].binary_search(&time).ok()?;
        Some(rows.start + found)
    }

    /// The last row that was known at a time.
    fn until(&self, sequence: u32, time: i64) -> Option<usize> {
        let rows = self.rows(sequence);
        let count = self.times[rows.clone()].partition_point(|known| *known <= time);
        (count > 0).then(|| rows.start + count - 1)
    }

    /// The last value, where it is known what there was at this very time: what lies further back need not be
    /// the last.
    pub(crate) fn last(&self, sequence: u32, time: i64) -> Option<f64> {
        Some(self.last[self.at(sequence, time)?]).filter(|value| !value.is_nan())
    }

    /// The mean of all values up to a time.
    pub(crate) fn mean(&self, sequence: u32, time: i64) -> Option<f64> {
        let (sum, count) = self.sums[self.until(sequence, time)?];
        (count > 0).then(|| sum / f64::from(count))
    }

    /// What came a season before `target_time`, or as many as it takes for that to be known at `time`.
    pub(crate) fn a_season_before(
        &self,
        sequence: u32,
        time: i64,
        target_time: i64,
        season: usize,
    ) -> Option<f64> {
        let (target, known) = (self.at(sequence, target_time)?, self.until(sequence, time)?);
        let back = target.saturating_sub(known).max(1).next_multiple_of(season);
        let row = target.checked_sub(back).filter(|row| *row >= self.rows(sequence).start)?;
        Some(self.values[row]).filter(|value| !value.is_nan())
    }

    /// The mean of the absolute errors of "as a season before", over the rows up to a time.
    pub(crate) fn naive_error(&self, sequence: u32, season: usize, until: i64) -> Option<f64> {
        let start = self.rows(sequence).start;
        let values = &self.values[start..=self.until(sequence, until)?];
        let pairs = values.iter().zip(values.get(season..)?);
        let errors = pairs.map(|(before, value)| (value - before).abs());
        let errors = errors.filter(|error| !error.is_nan());
        let (sum, count) = errors.fold((0.0, 0u32), |(sum, count), error| (sum + error, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }
}

/// Whether two numbers say the same: one of them may have been through a file of 32 bits.
fn alike(one: f64, other: f64) -> bool {
    let single = one as f32;
    one == other || (single.is_finite() && single == other as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(entries: &[(u32, i64, f64)], sequences: usize) -> KnownValues {
        let entry = |&(sequence, time, value): &(u32, i64, f64)| Entry { sequence, time, value };
        KnownValues::new(entries.iter().map(entry).collect(), sequences)
    }

    #[test]
    fn what_was_known_is_of_the_time_and_before() {
        let nan = f64::NAN;
        let entries =
            [(2, 10, 5.0), (0, 3, nan), (0, 1, 1.0), (0, 2, 3.0), (0, 3, nan), (0, 4, 8.0)];
        let known = known(&entries, 4);
        assert_eq!(known.last(0, 2), Some(3.0));
        assert_eq!(known.last(0, 3), Some(3.0), "there was none at 3, and that is known");
        assert_eq!(known.last(0, 5), None, "who knows what there was at 5");
        assert_eq!(
            (known.last(1, 2), known.last(2, 10), known.last(3, 10)),
            (None, Some(5.0), None)
        );
        assert_eq!((known.mean(0, 3), known.mean(0, 9)), (Some(2.0), Some(4.0)));
        assert_eq!((known.mean(0, 0), known.mean(2, 9)), (None, None));
        assert!(known.conflict.is_none());
    }

    #[test]
    fn a_season_is_as_many_as_it_takes() {
        let entries: Vec<_> = (0..10).map(|time| (0, time, time as f64)).collect();
        let known = known(&entries, 1);
        let check = |time, target, season, expected| {
            assert_eq!(known.a_season_before(0, time, target, season), expected, "{time} {target}");
        };
        check(5, 6, 1, Some(5.0));
        check(5, 7, 1, Some(5.0));
        check(5, 6, 3, Some(3.0));
        check(5, 9, 3, Some(3.0));
        check(5, 8, 3, Some(5.0));
        check(1, 2, 3, None);
        check(5, 12, 3, None);
        assert_eq!(known.naive_error(0, 3, 9), Some(3.0));
        assert_eq!((known.naive_error(0, 3, 2), known.naive_error(0, 10, 9)), (None, None));
    }

    #[test]
    fn what_is_said_in_two_ways_is_a_conflict() {
        let found = known(&[(0, 1, 2.0), (0, 1, 2.0), (0, 1, f64::NAN)], 1);
        assert!(found.conflict.is_none());
        let found = known(&[(0, 1, f64::from(0.1f32)), (0, 1, 0.1)], 1);
        assert!(found.conflict.is_none());
        let found = known(&[(0, 1, 2.0), (0, 1, 2.5)], 1);
        assert_eq!(found.conflict.map(|pair| pair.map(|entry| entry.value)), Some([2.0, 2.5]));
    }

    proptest! {
        /// Nothing that became known after `time` changes what is said of it.
        #[test]
        fn nobody_looks_ahead(
            values in prop::collection::vec(prop_oneof![Just(f64::NAN), -9.0..9.0f64], 2..20),
            at in 0usize..20, step in 1usize..4, season in 1usize..5, later in -9.0..9.0f64,
        ) {
            let at = at % (values.len() - 1);
            let target = (at + step).min(values.len() - 1);
            let sequence = |after: f64| {
                let changed = |(time, value): (usize, &f64)| {
                    (0, time as i64, if time > at { after } else { *value })
                };
                known(&values.iter().enumerate().map(changed).collect::<Vec<_>>(), 1)
            };
            let said = |known: &KnownValues| {
                let (at, target) = (at as i64, target as i64);
                (known.last(0, at), known.mean(0, at), known.a_season_before(0, at, target, season),
                 known.naive_error(0, season, at))
            };
            prop_assert_eq!(said(&sequence(later)), said(&sequence(later + 1.0)));
        }
    }
}
