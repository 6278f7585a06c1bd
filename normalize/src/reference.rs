//! Window references: values taken relative to something in their own window.
//!
//! Such columns stay in raw units in the rows and are finished while a window is copied:
//! `(x * multiplier - subtrahend - offset) * factor`, each operation rounded to f32 in this order,
//! so that a device that does the same gets the same bits. Columns without a reference in between
//! pass through unchanged. A window whose reference is missing, or zero where it divides, is
//! excluded before windows are numbered; see [`References::bad_rows`].

use crate::{
    apply::raw_column,
    column_scales::{ColumnScales, scaled},
    moments::is_known,
    panel_rows::{PanelRows, SeriesRows},
    windows::Window,
    with_avx2::with_avx2,
};
use millstream_data::{ColumnScaling, Missing, PanelSchema, Reference, Relative, Scaling};
use std::{iter::repeat, ops::Range};

/// Values of a vector on most machines.
const LANES: usize = 8;

/// What finishes the relative columns of a window.
#[derive(Debug)]
pub(crate) struct References {
    /// Input columns from the first relative one to the last, or a few more.
    columns: Range<usize>,
    /// By column of that range.
    sources: Vec<ColumnReference>,
    /// Adjacent columns of that range with the same source.
    runs: Vec<(Range<usize>, ColumnReference)>,
    common: ColumnScales,
    /// By series code, where a series has numbers of its own.
    own: Vec<Option<ColumnScales>>,
    /// Raw values of every column that is a reference by name, by row.
    named: Vec<Vec<f32>>,
}

/// What one column is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnReference {
    from: From,
    ratio: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Nothing,
    First,
    Last,
    /// Position in `References::named`.
    Named(usize),
}

/// Rows whose windows have no usable reference.
#[derive(Debug, Default)]
pub(crate) struct BadReferences {
    /// By row: a window that ends here has none. Empty for "all are usable".
    pub(crate) last: Vec<bool>,
    /// By row: a window that starts here has none. Empty for "all are usable".
    pub(crate) first: Vec<bool>,
}

impl BadReferences {
    /// Adds rows at which no window may end. Empty for "all may".
    pub(crate) fn add_last(&mut self, bad: Vec<bool>) {
        if self.last.is_empty() {
            self.last = bad;
        } else {
            self.last.iter_mut().zip(bad).for_each(|(all, bad)| *all |= bad);
        }
    }
}

impl References {
    /// `None` when no input has a reference. `place_of` finds a column in the panel.
    pub(crate) fn new(
        rows: &PanelRows<'_>,
        series: &[SeriesRows],
        schema: &PanelSchema,
        scaling: &Scaling,
        place_of: impl Fn(&str) -> usize,
    ) -> Option<Self> {
        let relative = |column: &ColumnScaling| column.reference != Reference::None;
        let first = scaling.features.iter().position(relative)?;
        let last = scaling.features.iter().rposition(relative)?;
        // Whole vectors: a few columns more cost less than a remainder.
        let width = (last + 1 - first).next_multiple_of(LANES);
        let columns = first..(first + width).min(scaling.features.len());
        let mut names: Vec<&str> = Vec::new();
        let mut sources = Vec::with_capacity(columns.len());
        for column in &scaling.features[columns.clone()] {
            let from = match &column.reference {
                Reference::None => From::Nothing,
                Reference::First => From::First,
                Reference::Last => From::Last,
                Reference::Column(name) => {
                    let at = names.iter().position(|known| known == name).unwrap_or(names.len());
                    if at == names.len() {
                        names.push(name);
                    }
                    From::Named(at)
                }
            };
            let ratio = relative(column) && column.relative == Relative::Ratio;
            sources.push(ColumnReference { from, ratio });
        }
        let fill = scaling.missing == Missing::Ffill;
        let named =
            names.iter().map(|name| raw_column(rows, series, place_of(name), fill)).collect();
        let own = |name: &String| {
            let fits = scaling.by_series.get(name)?;
            Some(numbers(&scaling.features[columns.clone()], Some(&fits.features[columns.clone()])))
        };
        let has_own = !scaling.by_series.is_empty();
        Some(References {
            common: numbers(&scaling.features[columns.clone()], None),
            own: if has_own { schema.series.iter().map(own).collect() } else { Vec::new() },
            columns,
            runs: runs(&sources),
            sources,
            named,
        })
    }

    /// Values of scratch space a window needs.
    pub(crate) fn scratch(&self) -> usize {
        2 * self.columns.len()
    }

    /// Rows whose windows have no usable reference. `inputs` are all rows, `channels` wide.
    pub(crate) fn bad_rows(&self, inputs: &[f32], channels: usize) -> BadReferences {
        let has = |wanted: fn(From) -> bool| self.sources.iter().any(|s| wanted(s.from));
        let bad = |own: From| -> Vec<bool> {
            let rows = inputs.chunks_exact(channels).enumerate();
            rows.map(|(row, values)| {
                let values = &values[self.columns.clone()];
                self.sources.iter().zip(values).any(|(source, &x)| match source.from {
                    from if from == own => !usable(x, source.ratio),
                    From::Named(at) if own == From::Last => {
                        !usable(self.named[at][row], source.ratio)
                    }
                    _ => false,
                })
            })
            .collect()
        };
        let at_last = has(|from| matches!(from, From::Last | From::Named(_)));
        let at_first = has(|from| from == From::First);
        BadReferences {
            last: if at_last { bad(From::Last) } else { Vec::new() },
            first: if at_first { bad(From::First) } else { Vec::new() },
        }
    }

    /// The relative value of one column in one row of a window, before it is scaled.
    pub(crate) fn relative(&self, column: usize, x: f32, first: f32, last: f32, row: usize) -> f32 {
        let source = self.sources[column - self.columns.start];
        let reference = match source.from {
            From::Nothing => 0.0,
            From::First => first,
            From::Last => last,
            From::Named(at) => self.named[at][row],
        };
        let (multiplier, subtrahend) = source.terms(reference);
        x * multiplier - subtrahend
    }

    /// Copies a window and finishes it on the way. `source` are its real rows, `channels` wide.
    pub(crate) fn copy(
        &self,
        source: &[f32],
        channels: usize,
        window: &Window,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        self.copy_rows(source, source, channels, window, out, scratch);
    }

    /// The same of its last row alone.
    pub(crate) fn copy_last(
        &self,
        source: &[f32],
        channels: usize,
        window: &Window,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let last = &source[source.len() - channels..];
        self.copy_rows(source, last, channels, window, out, scratch);
    }

    /// Copies some rows of the window that `source` has the rows of.
    fn copy_rows(
        &self,
        source: &[f32],
        rows: &[f32],
        channels: usize,
        window: &Window,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let columns = self.columns.clone();
        let first = &source[columns.clone()];
        let last = &source[source.len() - channels..][columns.clone()];
        let (multipliers, rest) = scratch.split_at_mut(columns.len());
        let subtrahends = &mut rest[..columns.len()];
        for (columns, source) in &self.runs {
            let reference = &mut subtrahends[columns.clone()];
            match source.from {
                From::Nothing => reference.fill(0.0),
                From::First => reference.copy_from_slice(&first[columns.clone()]),
                From::Last => reference.copy_from_slice(&last[columns.clone()]),
                From::Named(at) => reference.fill(self.named[at][window.row]),
            }
            let multipliers = &mut multipliers[columns.clone()];
            for (multiplier, reference) in multipliers.iter_mut().zip(reference) {
                (*multiplier, *reference) = source.terms(*reference);
            }
        }
        let own = self.own.get(window.series as usize).and_then(Option::as_ref);
        let terms = Terms { multipliers, subtrahends, numbers: own.unwrap_or(&self.common) };
        finish(rows, channels, columns, &terms, out);
    }
}

impl ColumnReference {
    /// What a value is multiplied by and what is subtracted from it, given its reference.
    #[inline]
    fn terms(self, reference: f32) -> (f32, f32) {
        if self.ratio { (1.0 / reference, 1.0) } else { (1.0, reference) }
    }
}

/// What finishes the relative columns of one window.
struct Terms<'a> {
    multipliers: &'a [f32],
    subtrahends: &'a [f32],
    numbers: &'a ColumnScales,
}

with_avx2! {
    /// Copies rows, with those columns finished.
    fn finish(
        source: &[f32],
        channels: usize,
        columns: Range<usize>,
        terms: &Terms<'_>,
        out: &mut [f32],
    ) {
        if columns.len() < channels {
            out.copy_from_slice(source);
        }
        let limit = terms.numbers.common_limit;
        for (row, out) in source.chunks_exact(channels).zip(out.chunks_exact_mut(channels)) {
            let (row, out) = (&row[columns.clone()], &mut out[columns.clone()]);
            match limit {
                Some(limit) => finish_within(row, terms, repeat(limit), out),
                None => finish_within(row, terms, terms.numbers.limit.iter().copied(), out),
            }
        }
    }
}

#[inline(always)]
fn finish_within(
    row: &[f32],
    Terms { multipliers, subtrahends, numbers }: &Terms<'_>,
    limits: impl Iterator<Item = f32>,
    out: &mut [f32],
) {
    let scales = numbers.offset.iter().zip(&numbers.factor);
    let terms = multipliers.iter().zip(*subtrahends).zip(scales);
    for (((out, &x), ((m, s), (offset, factor))), limit) in
        out.iter_mut().zip(row).zip(terms).zip(limits)
    {
        *out = scaled(x, x * m - s - offset, *factor, limit);
    }
}

/// The numbers of these columns; those without a reference are scaled already and pass through.
fn numbers(columns: &[ColumnScaling], own: Option<&[millstream_data::Fit]>) -> ColumnScales {
    let mut numbers = ColumnScales::new(columns, own);
    for (i, column) in columns.iter().enumerate() {
        if column.reference == Reference::None {
            // Within its limit it is already.
            (numbers.offset[i], numbers.factor[i]) = (0.0, 1.0);
        }
    }
    numbers
}

fn runs(sources: &[ColumnReference]) -> Vec<(Range<usize>, ColumnReference)> {
    let mut start = 0;
    let run = |run: &[ColumnReference]| {
        let columns = start..start + run.len();
        start = columns.end;
        (columns, run[0])
    };
    sources.chunk_by(|a, b| a == b).map(run).collect()
}

fn usable(reference: f32, ratio: bool) -> bool {
    is_known(if ratio { 1.0 / reference } else { reference })
}
