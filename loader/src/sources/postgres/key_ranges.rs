//! Ranges of a key that hold about the same number of rows each: real quantiles, from a count.
//!
//! The server counts the rows of every key and says where to cut, in its own order of the keys.
//! Rows of one key are never cut apart. Keys that are NULL belong to the last range.

use super::select::{Relation, Select, quote_value};
use crate::LoadError;
use millstream_postgres::{Session, quote_name};

/// Ranges of a key, one after the other.
#[derive(Debug, Clone)]
pub(super) struct KeyRanges {
    /// The key, quoted.
    key: String,
    /// The last key of each range (`None` where it is NULL) and the rows up to its end.
    ends: Vec<(Option<String>, u64)>,
}

/// Counts rows by key and cuts them into ranges; `wanted` says into how many, given the total.
pub(super) fn count(
    session: &mut Session,
    relation: &Relation,
    select: &Select,
    key: &str,
    wanted: &dyn Fn(u64) -> u64,
) -> Result<KeyRanges, LoadError> {
    let key = quote_name(key);
    let action = format!("count the rows of {} by {key}", relation.place);
    // The count decides how many ranges there are, and it takes as long as the cuts themselves:
    // so ask for a fixed number, and merge.
    const RANGES: u64 = 1024;
    let counted = select.sql_of(&format!("{key} AS key, count(*) AS n"));
    let sql = format!(
        "SELECT DISTINCT ON (part) key, upto FROM (\
           SELECT key, upto, div((upto - 1) * {RANGES}, total) AS part FROM (\
             SELECT key, sum(n) OVER (ORDER BY key) AS upto, sum(n) OVER () AS total \
             FROM ({counted} GROUP BY 1) AS counted) AS summed) AS cut \
         ORDER BY part, upto DESC"
    );
    let ends = session
        .text_rows(&sql, &action)?
        .into_iter()
        .map(|mut row| {
            let upto = row.pop().flatten().and_then(|n| n.parse::<f64>().ok()).unwrap_or_default();
            (row.pop().flatten(), upto as u64)
        })
        .collect();
    let ranges = KeyRanges { key, ends };
    let size = usize::try_from(wanted(ranges.total())).unwrap_or(usize::MAX);
    Ok(ranges.merged(size))
}

impl KeyRanges {
    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Rows of all ranges.
    pub(super) fn total(&self) -> u64 {
        self.ends.last().map_or(0, |(_, upto)| *upto)
    }

    /// Rows of the largest range.
    pub(super) fn largest(&self) -> u64 {
        self.sizes().max().unwrap_or(0)
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, upto)| *upto));
        self.ends.iter().zip(starts).map(|((_, upto), start)| upto - start)
    }

    /// Fewer ranges: about `size`, of about equal numbers of rows.
    pub(super) fn merged(&self, size: usize) -> Self {
        let total = self.total();
        let size = (size as u64).clamp(1, (self.len() as u64).max(1));
        let range_of = |upto: u64| (upto.max(1) - 1) * size / total.max(1);
        let mut ends: Vec<(Option<String>, u64)> = Vec::new();
        for end in &self.ends {
            match ends.last_mut() {
                Some(last) if range_of(last.1) == range_of(end.1) => *last = end.clone(),
                _ => ends.push(end.clone()),
            }
        }
        KeyRanges { key: self.key.clone(), ends }
    }

    /// The condition of each range and how many rows it holds. A single range has none.
    pub(super) fn conditions(&self) -> Result<Vec<(Option<String>, u64)>, LoadError> {
        let key = &self.key;
        let last = self.len().saturating_sub(1);
        let mut from: Option<String> = None;
        let mut conditions = Vec::with_capacity(self.len());
        for (position, ((end, _), rows)) in self.ends.iter().zip(self.sizes()).enumerate() {
            let to = match end {
                Some(end) => Some(quote_value(end)?),
                None => None,
            };
            let condition = match (&from, &to, position == last) {
                (None, _, true) => None,
                (Some(from), _, true) => Some(format!("({key} > {from} OR {key} IS NULL)")),
                (None, Some(to), false) => Some(format!("{key} <= {to}")),
                (Some(from), Some(to), false) => Some(format!("{key} > {from} AND {key} <= {to}")),
                (_, None, false) => unreachable!("NULL keys sort last"),
            };
            conditions.push((condition, rows));
            from = to;
        }
        if conditions.is_empty() {
            conditions.push((None, 0));
        }
        Ok(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(ends: &[(Option<&str>, u64)]) -> KeyRanges {
        let ends = ends.iter().map(|(key, upto)| (key.map(str::to_owned), *upto)).collect();
        KeyRanges { key: "\"k\"".to_owned(), ends }
    }

    fn check(ranges: &KeyRanges, expected: &[(Option<&str>, u64)]) {
        let found = ranges.conditions().unwrap();
        let found: Vec<_> = found.iter().map(|(c, rows)| (c.as_deref(), *rows)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_range_has_no_end_and_takes_the_nulls() {
        let some = ranges(&[(Some("a"), 10), (Some("it's"), 15), (None, 30)]);
        check(
            &some,
            &[
                (Some("\"k\" <= 'a'"), 10),
                (Some("\"k\" > 'a' AND \"k\" <= 'it''s'"), 5),
                (Some("(\"k\" > 'it''s' OR \"k\" IS NULL)"), 15),
            ],
        );
        check(&some.merged(1), &[(None, 30)]);
        check(&ranges(&[]), &[(None, 0)]);
    }

    #[test]
    fn merging_keeps_every_row_and_evens_out() {
        let ends: Vec<(String, u64)> = (1..=100).map(|n| (format!("{n:03}"), n * 7)).collect();
        let many = ranges(&ends.iter().map(|(k, n)| (Some(k.as_str()), *n)).collect::<Vec<_>>());
        for size in 1..=100 {
            let merged = many.merged(size);
            assert_eq!(merged.total(), 700);
            assert!(merged.len() <= size && merged.largest() <= 700_u64.div_ceil(size as u64) + 7);
        }
    }
}
