//! [`PanelRows`]: a panel's rows by one number, wherever its shards are cut.

use millstream_data::{Panel, Shard};
use rayon::prelude::*;
use std::ops::Range;

/// Times that one task copies.
const TASK: usize = 1 << 14;

/// The rows of one series: `start..end` of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesRows {
    /// Series code.
    pub code: u32,
    /// First row.
    pub start: usize,
    /// One past the last row.
    pub end: usize,
}

/// A panel's shards laid end to end.
#[derive(Debug)]
pub(crate) struct PanelRows<'a> {
    shards: &'a [Shard],
    /// First row of each shard.
    starts: Vec<usize>,
    width: usize,
    rows: usize,
}

impl<'a> PanelRows<'a> {
    pub(crate) fn new(panel: &'a Panel) -> Self {
        let mut rows = 0;
        let start_of = |shard: &Shard| {
            let start = rows;
            rows += shard.rows();
            start
        };
        let starts = panel.shards().iter().map(start_of).collect();
        PanelRows { shards: panel.shards(), starts, width: panel.schema().width(), rows }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// First row of each shard.
    pub(crate) fn shard_starts(&self) -> &[usize] {
        &self.starts
    }

    /// The values of these rows, row-major, in as many pieces as there are shards under them.
    pub(crate) fn spans(&self, rows: Range<usize>) -> impl Iterator<Item = &'a [f32]> {
        let first = self.starts.partition_point(|&start| start <= rows.start).saturating_sub(1);
        let shards = self.shards[first..].iter().zip(&self.starts[first..]);
        let width = self.width;
        shards.take_while(move |(_, start)| **start < rows.end).filter_map(move |(shard, start)| {
            let from = rows.start.max(*start) - start;
            let until = rows.end.min(start + shard.rows()).checked_sub(*start)?;
            (from < until).then(|| &shard.values()[from * width..until * width])
        })
    }

    /// The rows themselves, one slice each.
    pub(crate) fn rows(&self, rows: Range<usize>) -> impl Iterator<Item = &'a [f32]> {
        let width = self.width;
        self.spans(rows).flat_map(move |span| span.chunks_exact(width))
    }
}

/// These columns of every row, side by side.
pub(crate) fn columns(rows: &PanelRows<'_>, places: &[usize]) -> Vec<f32> {
    let mut columns = vec![0.0; rows.len() * places.len()];
    let tasks = columns.par_chunks_mut(TASK * places.len().max(1)).enumerate();
    tasks.for_each(|(task, out)| {
        let first = task * TASK;
        let end = (first + TASK).min(rows.len());
        for (row, out) in rows.rows(first..end).zip(out.chunks_exact_mut(places.len())) {
            gather(row, places, out);
        }
    });
    columns
}

/// These columns of one row.
pub(crate) fn gather(row: &[f32], places: &[usize], out: &mut [f32]) {
    out.iter_mut().zip(places).for_each(|(out, &at)| *out = row[at]);
}

/// All times of a panel, one a row.
pub(crate) fn times(panel: &Panel) -> Vec<i64> {
    let mut times = vec![0; panel.row_count()];
    let mut rest = times.as_mut_slice();
    for shard in panel.shards() {
        let (own, others) = rest.split_at_mut(shard.rows());
        rest = others;
        own.par_chunks_mut(TASK).zip(shard.times().par_chunks(TASK)).for_each(|(to, from)| {
            to.copy_from_slice(from);
        });
    }
    times
}

/// Where each series of a panel lies.
pub(crate) fn series(panel: &Panel) -> Vec<SeriesRows> {
    let mut series: Vec<SeriesRows> = Vec::with_capacity(panel.pieces().len());
    let mut row = 0;
    for piece in panel.pieces() {
        let end = row + piece.rows;
        match series.last_mut() {
            Some(last) if last.code == piece.series => last.end = end,
            _ => series.push(SeriesRows { code: piece.series, start: row, end }),
        }
        row = end;
    }
    series
}
