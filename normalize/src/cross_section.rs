//! Cross-sections: a value's rank or z-score among all series at its time.
//!
//! The time → rows index is made once per panel. A missing value stays missing and does not count
//! for the others. Nothing here looks at another time, so nothing of the future reaches a row.

use crate::moments::{is_known, mean_and_deviation};
use millstream_data::{ColumnScaling, CrossSection, Panel, Shard};
use rayon::prelude::*;
use std::{borrow::Cow, ops::Range};

/// The rows of every time.
#[derive(Debug)]
pub(crate) struct TimeIndex {
    /// Rows, by time and then by row.
    rows: Vec<u32>,
    /// Where each time starts in `rows`, and the end.
    starts: Vec<usize>,
}

impl TimeIndex {
    /// By time, one a row, or by whatever else says which rows belong together.
    pub(crate) fn new<T: Ord + Copy + Sync>(times: &[T]) -> Self {
        let count = u32::try_from(times.len()).expect("a panel in memory has fewer than 2^32 rows");
        let mut rows: Vec<u32> = (0..count).collect();
        rows.par_sort_unstable_by_key(|&row| (times[row as usize], row));
        let same = |a: &u32, b: &u32| times[*a as usize] == times[*b as usize];
        let mut starts = vec![0];
        for group in rows.chunk_by(same) {
            starts.push(starts[starts.len() - 1] + group.len());
        }
        TimeIndex { rows, starts }
    }

    /// Ranges of [`rows`](Self::rows), one per time.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// All rows, by time and then by row.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Replaces a column, given by row, with its cross-section.
    pub(crate) fn cross(&self, column: &mut [f32], kind: CrossSection) {
        let mut by_time: Vec<f32> = self.rows.par_iter().map(|&row| column[row as usize]).collect();
        let mut groups = Vec::with_capacity(self.starts.len());
        let mut rest = by_time.as_mut_slice();
        for group in self.groups() {
            let (values, others) = rest.split_at_mut(group.len());
            rest = others;
            groups.push(values);
        }
        groups.into_par_iter().for_each_init(Vec::new, |order, values| match kind {
            CrossSection::None => {}
            CrossSection::Rank => rank(values, order),
            CrossSection::Zscore => zscore(values),
        });
        for (&row, value) in self.rows.iter().zip(by_time) {
            column[row as usize] = value;
        }
    }
}

/// Average ranks, from -0.5 to 0.5: `(rank - 1/2) / count - 1/2`.
fn rank(values: &mut [f32], order: &mut Vec<usize>) {
    order.clear();
    order.extend((0..values.len()).filter(|&i| is_known(values[i])));
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let count = order.len() as f64;
    let mut below = 0;
    let mut ranks = Vec::with_capacity(order.len());
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0;
        ranks.extend(tied.iter().map(|&i| (i, ((rank - 0.5) / count - 0.5) as f32)));
        below += tied.len();
    }
    values.fill(f32::NAN);
    for (i, rank) in ranks {
        values[i] = rank;
    }
}

/// Distances from the mean in standard deviations; 0 where all are equal.
fn zscore(values: &mut [f32]) {
    let known = values.iter().filter(|x| is_known(**x)).map(|x| f64::from(*x));
    let (mean, deviation) = mean_and_deviation(known);
    // Rounding can leave a spread where there is none.
    let spread = deviation > f64::from(f32::EPSILON) * mean.abs();
    for x in values {
        let score = if spread { ((f64::from(*x) - mean) / deviation) as f32 } else { 0.0 };
        *x = if is_known(*x) { score } else { f32::NAN };
    }
}

/// The panel with the cross-sections that these input columns ask for. `times` are its times.
pub(crate) fn crossed<'a>(
    panel: &'a Panel,
    columns: &[ColumnScaling],
    times: &[i64],
) -> Cow<'a, Panel> {
    let wanted: Vec<(usize, CrossSection)> = columns
        .iter()
        .filter(|column| column.cross_section != CrossSection::None)
        .filter_map(|column| {
            let at = panel.schema().columns.iter().position(|name| *name == column.name)?;
            Some((at, column.cross_section))
        })
        .collect();
    if wanted.is_empty() {
        return Cow::Borrowed(panel);
    }
    let index = TimeIndex::new(times);
    let width = panel.schema().width();
    let mut values: Vec<Vec<f32>> = panel.shards().iter().map(|s| s.values().to_vec()).collect();
    for (at, kind) in wanted {
        let all = values.iter().flat_map(|shard| shard.iter().skip(at).step_by(width));
        let mut column: Vec<f32> = all.copied().collect();
        index.cross(&mut column, kind);
        let all = values.iter_mut().flat_map(|shard| shard.iter_mut().skip(at).step_by(width));
        all.zip(column).for_each(|(to, value)| *to = value);
    }
    let shards = panel.shards().iter().zip(values).map(|(shard, values)| {
        Shard::new(shard.codes().to_vec(), shard.times().to_vec(), values, width)
    });
    let crossed = Panel::new(panel.schema().clone(), shards.collect());
    Cow::Owned(crossed.expect("the rows are those of a panel, in their order"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: CrossSection, values: &[f32], expected: &[f32]) {
        // Two times, interleaved.
        let times: Vec<i64> = (0..2 * values.len()).map(|row| (row % 2) as i64).collect();
        let mut column: Vec<f32> = values.iter().flat_map(|&x| [x, 7.0]).collect();
        TimeIndex::new(&times).cross(&mut column, kind);
        let (crossed, others): (Vec<f32>, Vec<f32>) =
            column.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&crossed), bits(expected), "{crossed:?}");
        assert!(others.iter().all(|x| *x == 0.0), "equal values are all in the middle");
    }

    #[test]
    fn ranks_and_scores_are_of_one_time_and_skip_what_is_missing() {
        let nan = f32::NAN;
        check(CrossSection::Rank, &[30.0, nan, 10.0, 20.0, 20.0], &[0.375, nan, -0.375, 0.0, 0.0]);
        check(CrossSection::Zscore, &[1.0, 3.0, nan, f32::INFINITY], &[-1.0, 1.0, nan, nan]);
    }
}
