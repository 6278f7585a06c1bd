//! Applying a scaling to a whole panel, once per row: the affine part, the curves, and what
//! becomes of missing values.

use crate::{
    column_scales::ColumnScales,
    huge_pages,
    moments::is_known,
    panel_rows::{PanelRows, SeriesRows, gather},
};
use millstream_data::{Missing, PanelSchema, Scaling};
use rayon::prelude::*;
use std::ops::Range;

/// Rows scaled by one task: enough to hide the cost of handing it out.
const BLOCK: usize = 1024;

/// Where columns lie within the panel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) inputs: &'a [usize],
    pub(crate) targets: &'a [usize],
}

/// What becomes of a panel's rows, row-major.
pub(crate) struct Scaled {
    pub(crate) inputs: Vec<f32>,
    /// In raw units.
    pub(crate) targets: Vec<f32>,
}

/// Adjacent rows of one series.
struct Block<'a> {
    code: u32,
    rows: Range<usize>,
    inputs: &'a mut [f32],
    targets: &'a mut [f32],
}

/// Scales the inputs of every row, and takes the targets out while the row is at hand.
///
/// Runs on the rayon pool it is called in.
pub(crate) fn scale_rows(
    rows: &PanelRows<'_>,
    series: &[SeriesRows],
    schema: &PanelSchema,
    columns: Columns<'_>,
    scaling: &Scaling,
) -> Scaled {
    let places = columns.inputs;
    let channels = places.len() * if scaling.missing == Missing::Mask { 2 } else { 1 };
    let common = Scales::new(ColumnScales::new(&scaling.features, None));
    let own = |code: u32| {
        let fits = scaling.by_series.get(&schema.series[code as usize])?;
        Some(Scales::new(ColumnScales::new(&scaling.features, Some(&fits.features))))
    };
    // Inputs mostly are all columns of the panel, and rows are scaled as they lie.
    let as_they_lie = places.iter().copied().eq(0..rows.width());
    let mut scaled = Scaled {
        inputs: huge_pages::zeroed(rows.len() * channels),
        targets: vec![0.0; rows.len() * columns.targets.len()],
    };
    let whole_series = scaling.missing == Missing::Ffill;
    let blocks = blocks(series, &mut scaled, [channels, columns.targets.len()], whole_series);
    blocks.into_par_iter().for_each(|block| {
        let own = own(block.code);
        let scales = own.as_ref().unwrap_or(&common);
        match scaling.missing {
            Missing::Zero | Missing::Drop if as_they_lie => {
                scales.scale(rows, columns.targets, block);
            }
            missing => scale_by_row(rows, columns, &scales.numbers, missing, block),
        }
    });
    scaled
}

/// What scales rows, and the affine part of several at a time: rows are short, and what is left over
/// from whole vectors would be a good part of each.
struct Scales {
    numbers: ColumnScales,
    tile: ColumnScales,
}

/// Rows of a tile: any number of values in each becomes a multiple of a vector.
const TILE: usize = 8;

impl Scales {
    fn new(numbers: ColumnScales) -> Self {
        Scales { tile: numbers.tiled(TILE), numbers }
    }

    /// Scales rows whose columns all are inputs, in their order.
    fn scale(&self, rows: &PanelRows<'_>, targets: &[usize], block: Block<'_>) {
        let width = rows.width();
        let Block { mut inputs, targets: mut kept, .. } = block;
        for tile in rows.spans(block.rows).flat_map(|span| span.chunks(TILE * width)) {
            let out = inputs.split_off_mut(..tile.len()).expect("room for every row");
            let whole = tile.len() == TILE * width;
            if whole {
                self.tile.scale(tile, out);
            }
            for (row, out) in tile.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                if whole {
                    self.numbers.finish(row, out);
                } else {
                    self.numbers.scale(row, out);
                }
                let kept = kept.split_off_mut(..targets.len()).expect("room for every row");
                gather(row, targets, kept);
            }
        }
    }
}

/// Scales rows one by one, each with its inputs gathered from `places`, unless they come first.
fn scale_by_row(
    rows: &PanelRows<'_>,
    columns: Columns<'_>,
    numbers: &ColumnScales,
    missing: Missing,
    block: Block<'_>,
) {
    let places = columns.inputs;
    let come_first = places.iter().copied().eq(0..places.len());
    let mut gathered = vec![f32::NAN; places.len()];
    let mut filled = vec![f32::NAN; places.len()];
    let Block { rows: of_block, inputs, targets: mut kept, .. } = block;
    let channels = inputs.len() / of_block.len();
    for (row, out) in rows.rows(of_block).zip(inputs.chunks_exact_mut(channels)) {
        let kept = kept.split_off_mut(..columns.targets.len()).expect("room for every row");
        gather(row, columns.targets, kept);
        let row = if come_first {
            &row[..places.len()]
        } else {
            gather(row, places, &mut gathered);
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

/// Cuts the output into blocks, of whole series where a value may come from far back. `widths` are
/// the values of a row, of inputs and targets.
fn blocks<'a>(
    series: &[SeriesRows],
    scaled: &'a mut Scaled,
    widths: [usize; 2],
    whole_series: bool,
) -> Vec<Block<'a>> {
    let (mut inputs, mut targets) = (&mut *scaled.inputs, &mut *scaled.targets);
    let mut blocks = Vec::new();
    for SeriesRows { code, start, end } in series {
        let step = if whole_series { end - start } else { BLOCK };
        for from in (*start..*end).step_by(step.max(1)) {
            let rows = from..(from + step).min(*end);
            let cut = |of: &mut &'a mut [f32], width: usize| {
                of.split_off_mut(..rows.len() * width).expect("room for every row")
            };
            let (inputs, targets) = (cut(&mut inputs, widths[0]), cut(&mut targets, widths[1]));
            blocks.push(Block { code: *code, rows, inputs, targets });
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
