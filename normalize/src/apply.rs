//! Applying a scaling to a whole panel, once per row: the affine part, the curves, and what
//! becomes of missing values.

use crate::{
    moments::is_known,
    numbers::Numbers,
    pages,
    spans::{PanelRows, SeriesRows},
};
use millstream_stage::{Missing, PanelSchema, Scaling};
use rayon::prelude::*;
use std::ops::Range;

/// Rows scaled by one task: enough to hide the cost of handing it out.
const BLOCK: usize = 1024;

/// Adjacent rows of one series.
struct Block<'a> {
    code: u32,
    rows: Range<usize>,
    out: &'a mut [f32],
}

/// The scaled inputs of every row, row-major. `places` are the input columns within the panel.
///
/// Runs on the rayon pool it is called in.
pub(crate) fn scale_rows(
    rows: &PanelRows<'_>,
    series: &[SeriesRows],
    schema: &PanelSchema,
    places: &[usize],
    scaling: &Scaling,
) -> Vec<f32> {
    let channels = places.len() * if scaling.missing == Missing::Mask { 2 } else { 1 };
    let common = Scales::new(Numbers::new(&scaling.features, None));
    let own = |code: u32| {
        let fits = scaling.by_series.get(&schema.series[code as usize])?;
        Some(Scales::new(Numbers::new(&scaling.features, Some(&fits.features))))
    };
    // Inputs mostly are all columns of the panel, and rows are scaled as they lie.
    let as_they_lie = places.iter().copied().eq(0..rows.width());
    let mut out = pages::zeroed(rows.len() * channels);
    blocks(series, &mut out, channels, scaling.missing).into_par_iter().for_each(|block| {
        let own = own(block.code);
        let scales = own.as_ref().unwrap_or(&common);
        match scaling.missing {
            Missing::Zero | Missing::Drop if as_they_lie => scales.scale(rows, block),
            missing => scale_by_row(rows, places, &scales.numbers, missing, block),
        }
    });
    out
}

/// What scales rows, and several at a time: rows are short, and what is left over from whole vectors
/// would be a good part of each.
struct Scales {
    numbers: Numbers,
    tile: Numbers,
}

/// Rows of a tile: any number of values in each becomes a multiple of a vector.
const TILE: usize = 8;

impl Scales {
    fn new(numbers: Numbers) -> Self {
        Scales { tile: numbers.tiled(TILE), numbers }
    }

    /// Scales rows whose columns all are inputs, in their order.
    fn scale(&self, rows: &PanelRows<'_>, block: Block<'_>) {
        let mut rest = block.out;
        for span in rows.spans(block.rows) {
            let (out, others) = rest.split_at_mut(span.len());
            rest = others;
            let whole = span.len() - span.len() % (TILE * rows.width());
            let parts = [(0..whole, &self.tile), (whole..span.len(), &self.numbers)];
            for (part, numbers) in parts {
                let width = numbers.width();
                let source = span[part.clone()].chunks_exact(width);
                source.zip(out[part].chunks_exact_mut(width)).for_each(|(row, out)| {
                    numbers.scale(row, out);
                });
            }
        }
    }
}

/// Scales rows one by one, each with its inputs gathered from `places`, unless they come first.
fn scale_by_row(
    rows: &PanelRows<'_>,
    places: &[usize],
    numbers: &Numbers,
    missing: Missing,
    block: Block<'_>,
) {
    let come_first = places.iter().copied().eq(0..places.len());
    let mut gathered = vec![f32::NAN; places.len()];
    let mut filled = vec![f32::NAN; places.len()];
    let channels = block.out.len() / block.rows.len().max(1);
    for (row, out) in rows.rows(block.rows).zip(block.out.chunks_exact_mut(channels.max(1))) {
        let row = if come_first {
            &row[..places.len()]
        } else {
            gathered.iter_mut().zip(places).for_each(|(to, &at)| *to = row[at]);
            &gathered
        };
        match missing {
            Missing::Zero | Missing::Drop => numbers.scale(row, out),
            Missing::Ffill => {
                for (last, &x) in filled.iter_mut().zip(row) {
                    *last = if is_known(x) { x } else { *last };
                }
                numbers.scale(&filled, out);
            }
            Missing::Mask => {
                let (values, mask) = out.split_at_mut(places.len());
                numbers.scale(row, values);
                let known = row.iter().map(|&x| f32::from(u8::from(is_known(x))));
                mask.iter_mut().zip(known).for_each(|(to, known)| *to = known);
            }
        }
    }
}

/// Cuts the output into blocks. Filling forward needs a series whole: a value may come from far
/// back.
fn blocks<'a>(
    series: &[SeriesRows],
    out: &'a mut [f32],
    channels: usize,
    missing: Missing,
) -> Vec<Block<'a>> {
    let mut rest = out;
    let mut blocks = Vec::new();
    for SeriesRows { code, start, end } in series {
        let step = if missing == Missing::Ffill { end - start } else { BLOCK };
        for from in (*start..*end).step_by(step.max(1)) {
            let rows = from..(from + step).min(*end);
            let (out, others) = rest.split_at_mut(rows.len() * channels);
            rest = others;
            blocks.push(Block { code: *code, rows, out });
        }
    }
    blocks
}

/// One column of every row, in raw units; the last known value where it is missing and `fill` says
/// so, else NaN.
pub(crate) fn raw_column(
    rows: &PanelRows<'_>,
    series: &[SeriesRows],
    place: usize,
    fill: bool,
) -> Vec<f32> {
    let mut column = Vec::with_capacity(rows.len());
    for series in series {
        let mut last = f32::NAN;
        for row in rows.rows(series.start..series.end) {
            let known = is_known(row[place]);
            if known || !fill {
                last = if known { row[place] } else { f32::NAN };
            }
            column.push(last);
        }
    }
    column
}
