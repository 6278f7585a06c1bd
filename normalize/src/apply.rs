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
    let common = Numbers::new(&scaling.features, None);
    let own = |code: u32| {
        let fits = scaling.by_series.get(&schema.series[code as usize])?;
        Some(Numbers::new(&scaling.features, Some(&fits.features)))
    };
    let mut out = pages::zeroed(rows.len() * channels);
    blocks(series, &mut out, channels, scaling.missing).into_par_iter().for_each(|block| {
        let own = own(block.code);
        let numbers = own.as_ref().unwrap_or(&common);
        let source = rows.rows(block.rows);
        let out = block.out.chunks_exact_mut(channels);
        // Inputs mostly are the panel's first columns, and need no gathering then.
        let in_place = places.iter().copied().eq(0..places.len());
        let mut gathered = vec![f32::NAN; places.len()];
        let mut filled = vec![f32::NAN; places.len()];
        for (row, out) in source.zip(out) {
            let row = if in_place {
                &row[..places.len()]
            } else {
                gathered.iter_mut().zip(places).for_each(|(to, &at)| *to = row[at]);
                &gathered
            };
            match scaling.missing {
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
    });
    out
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
