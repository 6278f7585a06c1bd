//! The normalised rows: the panel's private, scaled copy that windows are cut from.
//!
//! Scaling is affine and applied once per row, not once per window. Inputs and targets are kept
//! apart: a missing input becomes zero, a missing target stays NaN so that no window can mistake
//! it for a value.

use crate::error::NormalizeError;
use millstream_stage::{ColumnScaling, Panel};
use rayon::prelude::*;

/// Rows scaled by one task: enough to hide the cost of handing it out.
const CHUNK: usize = 2048;

/// The scaled panel, its shards laid end to end.
#[derive(Debug)]
pub struct Rows {
    /// Values of an input row.
    pub features: usize,
    /// Values of a target row.
    pub targets: usize,
    inputs: Vec<f32>,
    labels: Vec<f32>,
    times: Vec<i64>,
    series: Vec<SeriesRows>,
}

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

impl Rows {
    /// Scales the panel's rows. `features` and `targets` are looked up by name.
    ///
    /// Runs on the rayon pool it is called in.
    ///
    /// # Errors
    /// When the panel does not have one of the columns.
    pub fn new(
        panel: &Panel,
        features: &[ColumnScaling],
        targets: &[ColumnScaling],
    ) -> Result<Self, NormalizeError> {
        let rows = panel.row_count();
        let inputs = scaled(panel, &columns(panel, features)?, |value| {
            // Scaled zero is what a missing input becomes.
            if value.is_nan() { 0.0 } else { value }
        });
        let labels = scaled(panel, &columns(panel, targets)?, |value| value);
        let mut times = Vec::with_capacity(rows);
        for shard in panel.shards() {
            times.extend_from_slice(shard.times());
        }
        let series = series(panel);
        Ok(Rows { features: features.len(), targets: targets.len(), inputs, labels, times, series })
    }

    /// Input values of `rows` rows from `row` on.
    #[must_use]
    pub fn inputs(&self, row: usize, rows: usize) -> &[f32] {
        &self.inputs[row * self.features..(row + rows) * self.features]
    }

    /// Target values of `rows` rows from `row` on; missing ones are NaN.
    #[must_use]
    pub fn labels(&self, row: usize, rows: usize) -> &[f32] {
        &self.labels[row * self.targets..(row + rows) * self.targets]
    }

    /// All times, one a row.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Where each series lies.
    #[must_use]
    pub fn series(&self) -> &[SeriesRows] {
        &self.series
    }

    /// Whether any target of this row is missing.
    #[must_use]
    pub fn misses_target(&self, row: usize) -> bool {
        self.labels(row, 1).iter().any(|value| value.is_nan())
    }
}

/// A column's place in the panel and its scaling in f32.
struct Column {
    at: usize,
    offset: f32,
    factor: f32,
}

fn columns(panel: &Panel, wanted: &[ColumnScaling]) -> Result<Vec<Column>, NormalizeError> {
    let names = &panel.schema().columns;
    wanted
        .iter()
        .map(|scaling| {
            let at = names.iter().position(|name| *name == scaling.name).ok_or_else(|| {
                let (column, columns) = (scaling.name.clone(), names.clone());
                NormalizeError::MissingFeature { column, columns }
            })?;
            let (offset, factor) = (scaling.offset as f32, (1.0 / scaling.scale) as f32);
            Ok(Column { at, offset, factor })
        })
        .collect()
}

fn scaled(panel: &Panel, columns: &[Column], finish: impl Fn(f32) -> f32 + Sync) -> Vec<f32> {
    let (width, out_width) = (panel.schema().width(), columns.len());
    let mut out = vec![0.0; panel.row_count() * out_width];
    let mut rest = out.as_mut_slice();
    for shard in panel.shards() {
        let (mine, others) = rest.split_at_mut(shard.rows() * out_width);
        rest = others;
        mine.par_chunks_mut(CHUNK * out_width)
            .zip(shard.values().par_chunks(CHUNK * width))
            .for_each(|(out, values)| {
                for (out, row) in out.chunks_exact_mut(out_width).zip(values.chunks_exact(width)) {
                    for (out, column) in out.iter_mut().zip(columns) {
                        *out = finish((row[column.at] - column.offset) * column.factor);
                    }
                }
            });
    }
    out
}

fn series(panel: &Panel) -> Vec<SeriesRows> {
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
