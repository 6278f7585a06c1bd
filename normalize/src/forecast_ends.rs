//! Which rows the windows end in that are to be forecast, series by series, and how far a series is known.

use crate::{
    panel_rows::SeriesRows,
    rows::ScaledRows,
    split::{Span, SplitPart},
    stale,
    windows::WindowShape,
};
use std::{num::NonZeroUsize, ops::Range};

/// Rows of one series that windows end in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ends {
    /// As far as it is known.
    pub(crate) series: SeriesRows,
    pub(crate) rows: Range<usize>,
}

/// The series of a panel, each as far as it is known.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    times: &'a [i64],
    series: Vec<SeriesRows>,
}

impl<'a> Known<'a> {
    /// All rows, or those of this time and earlier.
    pub(crate) fn new(rows: &'a ScaledRows, as_of: Option<i64>) -> Self {
        let mut known = Known { times: rows.times(), series: rows.series().to_vec() };
        if let Some(as_of) = as_of {
            let ends =
                known.series.iter().map(|series| series.start + known.before(series, as_of, true));
            let ends: Vec<usize> = ends.collect();
            known.series.iter_mut().zip(ends).for_each(|(series, end)| series.end = end);
        }
        known
    }

    /// Series that lie so in these times.
    #[cfg(test)]
    pub(crate) fn of_times(times: &'a [i64], series: Vec<SeriesRows>) -> Self {
        Known { times, series }
    }

    pub(crate) fn series(&self) -> &[SeriesRows] {
        &self.series
    }

    /// The times of a series.
    pub(crate) fn times(&self, series: &SeriesRows) -> &'a [i64] {
        &self.times[series.start..series.end]
    }

    /// The first and the last time of all series.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let own = |series| {
            let times = self.times(series);
            Some((*times.first()?, *times.last()?))
        };
        let spans = self.series.iter().filter_map(own);
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Rows of a series before this time, or up to it.
    fn before(&self, series: &SeriesRows, time: i64, inclusive: bool) -> usize {
        let own = self.times(series);
        own.partition_point(|&other| other < time || inclusive && other == time)
    }

    /// Whether the data end so long before this time that no row after them is one of then: the next comes
    /// after a gap as long as those of late, or before.
    pub(crate) fn end_well_before(&self, from: i64) -> bool {
        let gap = stale::longest_gap(self).unwrap_or(0);
        self.span().is_none_or(|(_, last)| from.saturating_sub(last) > gap)
    }

    /// Those whose outcomes lie in a part, or may come to lie there.
    pub(crate) fn that_forecast(&self, shape: WindowShape, part: &SplitPart) -> Vec<Ends> {
        let Span { from, until } = part.span;
        let is_open = self.span().is_none_or(|(_, last)| last < until);
        // A series whose next row could be the first one of the part.
        let reaches = self.series.iter().filter_map(|series| {
            let before = self.before(series, from, false);
            before.checked_sub(1).map(|last| self.times(series)[last])
        });
        let reaches = reaches.max();
        self.of(part, |series| {
            let first_target = series.start + self.before(series, from, false);
            if first_target == series.end && self.times(series).last().copied() < reaches {
                return series.end..series.end;
            }
            let end = if is_open {
                series.end
            } else {
                let after = series.start + self.before(series, until, false);
                after.saturating_sub(shape.reach())
            };
            shape.ends_before(first_target)..end
        })
    }

    /// Those whose forecasts are made in a part.
    pub(crate) fn made_in(&self, part: &SplitPart) -> Vec<Ends> {
        let Span { from, until } = part.span;
        self.of(part, |series| {
            let [first, end] = [from, until].map(|time| self.before(series, time, false));
            series.start + first..series.start + end
        })
    }

    /// The last rows of each series.
    pub(crate) fn newest(&self, part: &SplitPart, count: NonZeroUsize) -> Vec<Ends> {
        self.of(part, |series| series.end.saturating_sub(count.get()).max(series.start)..series.end)
    }

    /// Those of whose outcomes one at least is still to come.
    pub(crate) fn to_come(&self, shape: WindowShape, part: &SplitPart) -> Vec<Ends> {
        self.of(part, |series| {
            series.end.saturating_sub(shape.reach()).max(series.start)..series.end
        })
    }

    fn of(&self, part: &SplitPart, rows: impl Fn(&SeriesRows) -> Range<usize>) -> Vec<Ends> {
        let series = self.series.iter().filter(|series| part.has_series(series.code));
        series.map(|series| Ends { series: *series, rows: rows(series) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_end_well_before_a_time_after_a_gap_longer_than_any() {
        let times: Vec<i64> = [1, 2, 5, 6, 7].into_iter().chain([1, 2, 5, 6]).collect();
        let series = [(0, 0..5), (1, 5..9)].map(|(code, rows)| SeriesRows {
            code,
            start: rows.start,
            end: rows.end,
        });
        let known = Known::of_times(&times, series.to_vec());
        for (from, expected) in [(i64::MIN, false), (3, false), (8, false), (10, false), (11, true)]
        {
            assert_eq!(known.end_well_before(from), expected, "{from}");
        }
    }
}
