//! [`RowStore`]: where readers put rows, and how rows become sorted shards.
//!
//! Rows go straight into shard-sized row-major buffers. Rows that arrive sorted by series and time
//! (as from PostgreSQL) stay where they are; others are moved once, by a sorted permutation. Which
//! rows end up in which shard depends on the sorted order only, never on the order of arrival.
//!
//! The whole panel is held in memory while it is read; a panel larger than memory can be opened
//! from the cache but not imported on this machine.

use millstream_stage::Shard;
use std::collections::HashMap;

/// Size at which a shard is cut, in bytes of values.
const SHARD_BYTES: usize = 64 << 20;

/// Rows on their way to a panel.
#[derive(Debug)]
pub(crate) struct RowStore {
    width: usize,
    shard_rows: usize,
    names: SeriesNames,
    full: Vec<Rows>,
    open: Rows,
}

#[derive(Debug, Default)]
struct Rows {
    codes: Vec<u32>,
    times: Vec<i64>,
    values: Vec<f32>,
}

/// Series names in order of first appearance.
#[derive(Debug, Default)]
struct SeriesNames {
    names: Vec<String>,
    codes: HashMap<String, u32>,
    /// Neighbouring rows mostly share their series.
    last: u32,
}

impl RowStore {
    pub(crate) fn new(width: usize) -> Self {
        RowStore::with_shard_rows(width, (SHARD_BYTES / (4 * width.max(1))).max(1))
    }

    fn with_shard_rows(width: usize, shard_rows: usize) -> Self {
        RowStore {
            width,
            shard_rows,
            names: SeriesNames::default(),
            full: Vec::new(),
            open: Rows::default(),
        }
    }

    /// The code for a series, new or known.
    pub(crate) fn code(&mut self, name: &str) -> u32 {
        self.names.code(name)
    }

    /// Adds a row whose values are all missing, and hands them out to be filled.
    pub(crate) fn push(&mut self, code: u32, time: i64) -> &mut [f32] {
        if self.open.codes.len() == self.shard_rows {
            self.close_shard(code);
        }
        let open = &mut self.open;
        open.codes.push(code);
        open.times.push(time);
        open.values.resize(open.values.len() + self.width, f32::NAN);
        self.last_mut()
    }

    /// The values of the row that was pushed last.
    pub(crate) fn last_mut(&mut self) -> &mut [f32] {
        let start = self.open.values.len() - self.width;
        &mut self.open.values[start..]
    }

    /// Takes the last row back; only right after a [`push`](Self::push).
    pub(crate) fn retract(&mut self) {
        let open = &mut self.open;
        open.codes.pop();
        open.times.pop();
        open.values.truncate(open.codes.len() * self.width);
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.parts().map(|rows| rows.codes.len() as u64).sum()
    }

    /// The names of the series, whose positions are the codes, and the sorted shards.
    pub(crate) fn finish(self) -> (Vec<String>, Vec<Shard>) {
        let sorted = if self.is_sorted() { self } else { self.sort() };
        let width = sorted.width;
        let shard = |rows: Rows| Shard::new(rows.codes, rows.times, rows.values, width);
        let parts = sorted.full.into_iter().chain(Some(sorted.open));
        let shards = parts.filter(|rows| !rows.codes.is_empty()).map(shard).collect();
        (sorted.names.names, shards)
    }

    fn parts(&self) -> impl Iterator<Item = &Rows> {
        self.full.iter().chain(Some(&self.open))
    }

    /// The series of the next row moves on as a whole, unless it fills the shard by itself.
    fn close_shard(&mut self, next: u32) {
        let start = self.open.codes.iter().rposition(|code| *code != next).map_or(0, |i| i + 1);
        let rest = if start == 0 {
            Rows::default()
        } else {
            Rows {
                codes: self.open.codes.split_off(start),
                times: self.open.times.split_off(start),
                values: self.open.values.split_off(start * self.width),
            }
        };
        self.full.push(std::mem::replace(&mut self.open, rest));
    }

    fn is_sorted(&self) -> bool {
        self.names.names.is_sorted()
            && self
                .parts()
                .flat_map(|rows| rows.codes.iter().copied().zip(rows.times.iter().copied()))
                .is_sorted()
    }

    fn sort(self) -> Self {
        let mut sorted = RowStore::with_shard_rows(self.width, self.shard_rows);
        let mut names: Vec<(&String, u32)> = self.names.names.iter().zip(0..).collect();
        names.sort_unstable();
        let mut ranks = vec![0; names.len()];
        for (name, code) in names {
            ranks[code as usize] = sorted.code(name);
        }
        let parts: Vec<&Rows> = self.parts().collect();
        let mut order: Vec<(u32, i64, usize, usize)> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, rows)| {
                let keys = rows.codes.iter().zip(&rows.times).enumerate();
                let ranks = &ranks;
                keys.map(move |(row, (code, time))| (ranks[*code as usize], *time, part, row))
            })
            .collect();
        order.sort_unstable();
        for (code, time, part, row) in order {
            let values = &parts[part].values[row * self.width..][..self.width];
            sorted.push(code, time).copy_from_slice(values);
        }
        sorted
    }
}

impl SeriesNames {
    fn code(&mut self, name: &str) -> u32 {
        if self.names.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = match self.codes.get(name) {
            Some(code) => *code,
            None => {
                let code =
                    u32::try_from(self.names.len()).expect("fewer than 2^32 names fit in memory");
                self.names.push(name.to_owned());
                self.codes.insert(name.to_owned(), code);
                code
            }
        };
        self.last
    }
}

/// A number as the panel keeps it: rounded to the nearest `f32`, with one NaN for "missing", so
/// that equal tables have equal bits.
pub(crate) fn panel_value(number: f64) -> f32 {
    if number.is_nan() { f32::NAN } else { number as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn store(rows: &[(&str, i64)], shard_rows: usize) -> RowStore {
        let mut store = RowStore::with_shard_rows(1, shard_rows);
        for (name, time) in rows {
            let code = store.code(name);
            store.push(code, *time)[0] = *time as f32;
        }
        store
    }

    fn check_shards(rows: &[(&str, i64)], expected: &[&[(u32, i64)]]) {
        let (_, shards) = store(rows, 3).finish();
        let found: Vec<Vec<(u32, i64)>> = shards
            .iter()
            .map(|s| s.codes().iter().copied().zip(s.times().iter().copied()).collect())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_series_that_fits_stays_whole() {
        let rows = [("a", 1), ("a", 2), ("b", 1), ("b", 2)];
        check_shards(&rows, &[&[(0, 1), (0, 2)], &[(1, 1), (1, 2)]]);
    }

    #[test]
    fn a_series_longer_than_a_shard_is_cut() {
        let rows = [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("b", 5)];
        check_shards(&rows, &[&[(0, 1)], &[(1, 1), (1, 2), (1, 3)], &[(1, 4), (1, 5)]]);
    }

    #[test]
    fn sorted_rows_are_not_moved() {
        let store = store(&[("a", 1), ("a", 2), ("b", 1)], 10);
        let before = store.open.values.as_ptr();
        let (_, shards) = store.finish();
        assert_eq!(shards[0].values().as_ptr(), before);
    }

    #[test]
    fn a_retracted_row_leaves_no_trace() {
        let mut store = store(&[("a", 1), ("a", 2), ("a", 3)], 3);
        store.push(0, 4);
        store.retract();
        store.push(0, 5)[0] = 5.0;
        let (_, shards) = store.finish();
        assert_eq!(shards.iter().map(Shard::rows).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(shards[1].values(), [5.0]);
    }

    proptest! {
        #[test]
        fn arrival_order_does_not_matter(
            keys in prop::collection::btree_set(("[a-e]{1,2}", 0_i64..50), 1..60),
            seed in any::<u64>(),
        ) {
            let sorted: Vec<(&str, i64)> = keys.iter().map(|(n, t)| (n.as_str(), *t)).collect();
            let mut shuffled = sorted.clone();
            shuffled.sort_by_key(|(name, time)| {
                xxhash_rust::xxh3::xxh3_64_with_seed(format!("{name}{time}").as_bytes(), seed)
            });
            let (names, shards) = store(&sorted, 7).finish();
            let (other_names, other_shards) = store(&shuffled, 7).finish();
            prop_assert_eq!(names, other_names);
            prop_assert_eq!(shards.len(), other_shards.len());
            for (one, other) in shards.iter().zip(&other_shards) {
                prop_assert_eq!(one.codes(), other.codes());
                prop_assert_eq!(one.times(), other.times());
                prop_assert_eq!(one.values(), other.values());
            }
        }
    }
}
