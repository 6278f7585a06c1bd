//! The window index: a pure function from a position to a window.
//!
//! Valid windows of a part come in runs of evenly spaced last rows within one series; the index is
//! the prefix sums of those runs. It takes memory per run, not per window, and a look-up is a
//! binary search. Windows with a missing target are excluded before numbering.

use crate::{
    rows::{Rows, SeriesRows},
    split::Span,
};

/// The shape of the windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows a window shows.
    pub lookback: usize,
    /// Steps forecast.
    pub horizon: usize,
    /// Rows between two windows.
    pub stride: usize,
}

/// One window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Series code.
    pub series: u32,
    /// Its last input row: the moment the forecast is made.
    pub row: usize,
    /// One past the last row of its series.
    pub series_end: usize,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    /// Position of its first window.
    position: u64,
    series: u32,
    /// Last input row of its first window.
    row: usize,
    series_end: usize,
}

/// The windows of one part.
#[derive(Debug, Clone)]
pub struct WindowIndex {
    runs: Vec<Run>,
    windows: u64,
    stride: usize,
    missing_target: u64,
}

impl WindowIndex {
    /// Every window whose targets all lie in `span` and are all known.
    #[must_use]
    pub fn labelled(rows: &Rows, shape: Shape, span: Span) -> Self {
        let mut index = WindowIndex::empty(shape.stride);
        for series in rows.series() {
            let times = &rows.times()[series.start..series.end];
            // The first target is the row after the last input, so it must be inside `span`, and
            // so must the last target.
            let first_target = series.start + times.partition_point(|&time| time < span.from);
            let after_span = series.start + times.partition_point(|&time| time < span.until);
            let first = (series.start + shape.lookback).max(first_target) - 1;
            let last_target_of = |row: usize| row + shape.horizon;

            let mut row = first;
            // Rows up to here were looked at; the last one among them that misses a target.
            let (mut seen, mut missing) = (first + 1, None);
            let mut in_run = false;
            while last_target_of(row) < after_span {
                while seen <= last_target_of(row) {
                    if rows.misses_target(seen) {
                        missing = Some(seen);
                    }
                    seen += 1;
                }
                let known = missing.is_none_or(|missing| missing <= row);
                if known {
                    index.push(*series, row, in_run);
                } else {
                    index.missing_target += 1;
                }
                in_run = known;
                row += shape.stride;
            }
        }
        index
    }

    /// Every window whose first target lies at or after `from`, or in the future: what can be
    /// forecast, whether or not the outcome is known.
    #[must_use]
    pub fn forecastable(rows: &Rows, shape: Shape, from: i64) -> Self {
        let mut index = WindowIndex::empty(shape.stride);
        for series in rows.series() {
            let times = &rows.times()[series.start..series.end];
            let first_target = series.start + times.partition_point(|&time| time < from);
            let first = (series.start + shape.lookback).max(first_target) - 1;
            let windows = (first..series.end).step_by(shape.stride);
            for (i, row) in windows.enumerate() {
                index.push(*series, row, i > 0);
            }
        }
        index
    }

    fn empty(stride: usize) -> Self {
        WindowIndex { runs: Vec::new(), windows: 0, stride, missing_target: 0 }
    }

    fn push(&mut self, series: SeriesRows, row: usize, continues: bool) {
        if !continues {
            let (position, series_end) = (self.windows, series.end);
            self.runs.push(Run { position, series: series.code, row, series_end });
        }
        self.windows += 1;
    }

    /// How many windows there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.windows
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows == 0
    }

    /// Windows left out because a target is missing.
    #[must_use]
    pub fn missing_target(&self) -> u64 {
        self.missing_target
    }

    /// The window at a position.
    ///
    /// # Panics
    /// When the position is not below [`len`](Self::len).
    #[must_use]
    pub fn at(&self, position: u64) -> Window {
        assert!(position < self.windows, "window {position} of {}", self.windows);
        let run = self.runs[self.runs.partition_point(|run| run.position <= position) - 1];
        let row = run.row + (position - run.position) as usize * self.stride;
        Window { series: run.series, row, series_end: run.series_end }
    }
}
