//! The window index: a pure function from a position to a window.
//!
//! It holds eight bytes a window. Runs of adjacent windows would take less, but to find the run of
//! a position is a search whose branches nobody can guess, and which costs a tenth of the time that
//! the window takes to copy; here a look-up is two loads, and those of several windows overlap.
//! Windows that miss a label, an input that must be there or their reference are excluded before
//! numbering, and counted.

use crate::{
    forecast_ends::{Ends, Known},
    panel_rows::SeriesRows,
    prefetch_hints,
    rows::{ScaledRows, Validity},
    settings::WindowSettings,
    split::{Span, SplitPart},
};
use millstream_data::DataSchema;
use std::ops::{Range, RangeInclusive};

/// The shape of the windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowShape {
    /// Rows a window shows.
    pub lookback: usize,
    /// Rows a window must have; `lookback`, or fewer where short windows are padded.
    pub min_rows: usize,
    /// Steps forecast.
    pub horizon: usize,
    /// Rows between a window's last one and the one that its first step counts from.
    pub delay: usize,
    /// Rows between two windows to learn from; what is forecast is every window.
    pub stride: usize,
}

impl WindowShape {
    /// The shape of the windows that a data contract describes.
    #[must_use]
    pub fn of(schema: &DataSchema, window: &WindowSettings) -> Self {
        WindowShape {
            lookback: schema.lookback,
            min_rows: schema.min_rows.clamp(1, schema.lookback),
            horizon: schema.horizon,
            delay: schema.delay,
            stride: window.stride.get(),
        }
    }

    /// Rows after a window's last one that its labels need.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.horizon.saturating_add(self.delay)
    }

    /// The outcomes of the window that ends at `row`, step by step.
    pub(crate) fn outcomes(&self, row: usize) -> RangeInclusive<usize> {
        row + self.delay + 1..=row + self.reach()
    }

    /// The last row of the window whose first outcome is in this row; the first row there is where that
    /// would be before it.
    pub(crate) fn ends_before(&self, first_target: usize) -> usize {
        first_target.saturating_sub(self.delay.saturating_add(1))
    }

    /// The same windows, every one of them: what a model is judged by.
    #[must_use]
    pub fn without_stride(self) -> Self {
        WindowShape { stride: 1, ..self }
    }
}

/// One window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Series code.
    pub series: u32,
    /// Its first row that is there.
    pub first: usize,
    /// Its last input row: the moment the forecast is made.
    pub row: usize,
    /// One past the last row of its series, as far as that is known.
    pub series_end: usize,
}

impl Window {
    /// Rows that are there: `lookback` of them, or fewer near the start of a series.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.row + 1 - self.first
    }
}

/// Where a window lies.
#[derive(Debug, Clone, Copy)]
struct WindowEnd {
    /// Its last input row.
    row: u32,
    /// Position of its series in `WindowIndex::series`.
    series: u32,
}

/// Windows that were left out, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// A target is missing.
    pub missing_target: u64,
    /// What values are taken relative to is missing, or zero where it divides.
    pub missing_reference: u64,
    /// An input is missing, and such windows are dropped.
    pub missing_input: u64,
}

impl LeftOut {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.missing_target + self.missing_reference + self.missing_input
    }
}

/// The windows of one part.
#[derive(Debug, Clone)]
pub struct WindowIndex {
    /// By series, then by row.
    places: Vec<WindowEnd>,
    series: Vec<SeriesRows>,
    shape: WindowShape,
    left_out: LeftOut,
}

impl WindowIndex {
    /// Every window, of each series every `stride`-th, whose targets all lie in `part` and are all
    /// known.
    #[must_use]
    pub fn labelled(rows: &ScaledRows, shape: WindowShape, part: &SplitPart) -> Self {
        let mut index = WindowIndex::empty(shape);
        for series in rows.series().iter().filter(|series| part.has_series(series.code)) {
            let times = &rows.times()[series.start..series.end];
            let Span { from, until } = part.span;
            // The first target must be inside, and so must the last one. What a change counts from may
            // lie before, as the window does.
            let first_target = series.start + times.partition_point(|&time| time < from);
            let after = series.start + times.partition_point(|&time| time < until);
            let first = (series.start + shape.min_rows - 1).max(shape.ends_before(first_target));
            let ends = (first..after.saturating_sub(shape.reach())).step_by(shape.stride);
            index.add(&rows.validity, *series, ends, true);
        }
        index
    }

    /// Every window that forecasts into `part`, whether or not its outcome is known: the labelled
    /// windows of the part and, where the part goes on as far as the data does, those whose targets
    /// are still to come. A series that ended before the part has none. None is left out by a stride.
    #[must_use]
    pub fn forecastable(rows: &ScaledRows, shape: WindowShape, part: &SplitPart) -> Self {
        WindowIndex::ending_in(rows, shape, Known::new(rows, None).that_forecast(shape, part))
    }

    /// Every window whose last row lies in `part`: a forecast made then, whether or not its outcome
    /// is known. None is left out by a stride.
    #[must_use]
    pub fn made_in(rows: &ScaledRows, shape: WindowShape, part: &SplitPart) -> Self {
        WindowIndex::ending_in(rows, shape, Known::new(rows, None).made_in(part))
    }

    /// Every window that ends in these rows of these series, whether or not its outcome is known.
    pub(crate) fn ending_in(rows: &ScaledRows, shape: WindowShape, series: Vec<Ends>) -> Self {
        let mut index = WindowIndex::empty(shape);
        for Ends { series, rows: ends } in series {
            let first = (series.start + shape.min_rows - 1).max(ends.start);
            index.add(&rows.validity, series, first..ends.end.min(series.end), false);
        }
        index
    }

    fn empty(shape: WindowShape) -> Self {
        let (places, series) = (Vec::new(), Vec::new());
        WindowIndex { places, series, shape, left_out: LeftOut::default() }
    }

    /// Adds the windows of a series that end at these rows, but for those with something missing.
    fn add(
        &mut self,
        validity: &Validity,
        series: SeriesRows,
        ends: impl Iterator<Item = usize>,
        labelled: bool,
    ) {
        let Validity { missing_label, label_at_window, missing_input, bad_reference } = validity;
        let bad = |flags: &[bool], row: usize| flags.get(row).copied().unwrap_or(false);
        let mut labels = LastFlag::new(missing_label, series.start);
        let mut inputs = LastFlag::new(missing_input, series.start);
        let place = |row: usize| u32::try_from(row).expect("a panel has fewer than 2^32 rows");
        let number = place(self.series.len());
        self.series.push(series);
        for row in ends {
            let first = self.first_row(series, row);
            let misses_label = labelled
                && if *label_at_window {
                    bad(missing_label, row)
                } else {
                    labels.up_to(row + self.shape.horizon).is_some_and(|flagged| flagged > row)
                };
            let misses_input = inputs.up_to(row).is_some_and(|flagged| flagged >= first);
            let counter = if misses_label {
                Some(&mut self.left_out.missing_target)
            } else if bad(&bad_reference.last, row) || bad(&bad_reference.first, first) {
                Some(&mut self.left_out.missing_reference)
            } else if misses_input {
                Some(&mut self.left_out.missing_input)
            } else {
                None
            };
            match counter {
                Some(counter) => *counter += 1,
                None => self.places.push(WindowEnd { row: place(row), series: number }),
            }
        }
    }

    fn first_row(&self, series: SeriesRows, row: usize) -> usize {
        (row + 1).saturating_sub(self.shape.lookback).max(series.start)
    }

    /// How many windows there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Windows that were left out.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// The shape of its windows.
    #[must_use]
    pub fn shape(&self) -> WindowShape {
        self.shape
    }

    /// The window at a position. Positions go by series, then time.
    ///
    /// # Panics
    /// When the position is not below [`len`](Self::len).
    #[must_use]
    pub fn at(&self, position: u64) -> Window {
        let WindowEnd { row, series } = self.places[position as usize];
        let (row, series) = (row as usize, self.series[series as usize]);
        let first = self.first_row(series, row);
        Window { series: series.code, first, row, series_end: series.end }
    }

    /// Asks for what [`at`](Self::at) of this position will want.
    pub(crate) fn prefetch(&self, position: u64) {
        prefetch_hints::touch(&self.places[position as usize]);
    }

    /// The earliest time at which all targets of a window are known.
    pub(crate) fn earliest(&self, rows: &ScaledRows) -> Option<i64> {
        let known = |place: &WindowEnd| rows.times()[place.row as usize + self.shape.reach()];
        self.places.iter().map(known).min()
    }

    /// The rows that windows show, of each series from the first to the last of them.
    pub(crate) fn spans(&self) -> Vec<(u32, Range<usize>)> {
        let of_one = self.places.chunk_by(|one, other| one.series == other.series);
        let span = |places: &[WindowEnd]| {
            let series = self.series[places[0].series as usize];
            let [first, last] = [places[0], places[places.len() - 1]].map(|end| end.row as usize);
            (series.code, self.first_row(series, first)..last + 1)
        };
        of_one.map(span).collect()
    }

    /// How many windows end before this row.
    pub(crate) fn before(&self, row: usize) -> u64 {
        self.places.partition_point(|place| (place.row as usize) < row) as u64
    }
}

/// The last flagged row up to some row, found by looking at every row once.
struct LastFlag<'a> {
    flags: &'a [bool],
    next: usize,
    last: Option<usize>,
}

impl<'a> LastFlag<'a> {
    fn new(flags: &'a [bool], start: usize) -> Self {
        LastFlag { flags, next: start, last: None }
    }

    fn up_to(&mut self, row: usize) -> Option<usize> {
        if self.flags.is_empty() {
            return None;
        }
        if let Some(found) = self.flags[self.next..=row].iter().rposition(|flag| *flag) {
            self.last = Some(self.next + found);
        }
        self.next = row + 1;
        self.last
    }
}
