//! What 32 bits leave of a column's changes, in the panel and scaled.
//!
//! Values are `f32` from the panel on, some seven digits. A level that is large beside its changes
//! keeps few of them; a series that is small beside the others loses its own when the offset of all
//! is taken from it. Neither is refused, since nobody here knows which changes matter; both are said.

use crate::{
    moments::is_known,
    panel_rows::{self, PanelRows, SeriesRows},
};
use millstream_data::{
    ColumnScaling, CrossSection, Fit, Panel, Reference, Scaling, SeriesFits, TargetKind, list_names,
};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A change of fewer steps of 32 bits than this is mostly rounding.
const STEPS: f32 = 8.0;

/// Pairs of adjacent rows that are looked at, evenly spaced; more where there are many series.
const PAIRS: usize = 1 << 11;

/// Pairs of a series that are looked at, at least.
const PAIRS_OF_SERIES: usize = 4;

/// Columns and series that a line names.
const LISTED: usize = 5;

/// Where changes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lost {
    InThePanel,
    ByScaling,
}

/// The columns that are looked at, side by side.
struct Columns<'a> {
    /// Where each lies in a row.
    places: Vec<usize>,
    /// Number among the features or targets, and whether it is a target.
    sides: Vec<(usize, bool)>,
    scalings: Vec<&'a ColumnScaling>,
    kind: TargetKind,
}

/// What scales the columns of one series.
struct Scales<'a> {
    offset: Vec<f32>,
    factor: Vec<f32>,
    /// Those that are not affine, by number.
    curved: Vec<(usize, &'a Fit)>,
}

/// The changes of each column in one series.
struct Changes {
    all: Vec<u32>,
    lost_in_the_panel: Vec<u32>,
    lost_by_scaling: Vec<u32>,
}

/// Says which columns lose most of their changes, and in which series.
///
/// Runs on the rayon pool it is called in.
pub(crate) fn lost_changes(panel: &Panel, scaling: &Scaling, kind: TargetKind) -> Vec<String> {
    let columns = Columns::new(panel, scaling, kind);
    let common = columns.scales(None);
    let (rows, series) = (PanelRows::new(panel), panel_rows::series(panel));
    let pairs = (PAIRS / series.len().max(1)).max(PAIRS_OF_SERIES);
    let mut lost: Vec<(Lost, usize, u32)> = series
        .par_iter()
        .flat_map_iter(|series| {
            let fits = scaling.by_series.get(&panel.schema().series[series.code as usize]);
            let own = fits.map(|fits| columns.scales(Some(fits)));
            let changes =
                Changes::count(&rows, series, pairs, &columns, own.as_ref().unwrap_or(&common));
            let found = changes.lost().into_iter();
            let places = &columns.places;
            let found = found.map(|(lost, column)| (lost, places[column], series.code));
            found.collect::<Vec<_>>()
        })
        .collect();
    lost.sort_unstable();
    lost.dedup();
    // By the series in which they do, the columns that lose them.
    let mut groups: BTreeMap<(Lost, Vec<u32>), Vec<usize>> = BTreeMap::new();
    for column in lost.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let codes = column.iter().map(|(.., code)| *code).collect();
        groups.entry((column[0].0, codes)).or_default().push(column[0].1);
    }
    let names = panel.schema();
    let line = |((kind, codes), columns): ((Lost, Vec<u32>), Vec<usize>)| {
        let columns =
            list_names(&columns.iter().map(|at| &names.columns[*at]).collect::<Vec<_>>(), LISTED);
        let which = match names.series_column {
            None => String::new(),
            Some(_) => {
                let of: Vec<_> = codes.iter().map(|code| &names.series[*code as usize]).collect();
                format!(" in {} of {} series ({})", of.len(), series.len(), list_names(&of, LISTED))
            }
        };
        match kind {
            Lost::InThePanel => format!(
                "{columns}: most changes{which} are below what 32 bits tell apart at values of that size; \
                 subtract a constant from the column in the source, or give its changes as a column"
            ),
            Lost::ByScaling => format!(
                "{columns}: most changes{which} are lost beside the scale of the whole column; \
                 set scale.per = \"series\""
            ),
        }
    };
    let left = groups.len().saturating_sub(LISTED);
    let more = (left > 0).then(|| format!("{left} more groups of columns lose changes likewise"));
    groups.into_iter().take(LISTED).map(line).chain(more).collect()
}

impl<'a> Columns<'a> {
    fn new(panel: &Panel, scaling: &'a Scaling, kind: TargetKind) -> Self {
        let names = &panel.schema().columns;
        let features = scaling.features.iter().enumerate().map(|(i, c)| (c, (i, false)));
        let targets = scaling.targets.iter().enumerate().map(|(i, c)| (c, (i, true)));
        let mut columns =
            Columns { places: Vec::new(), sides: Vec::new(), scalings: Vec::new(), kind };
        for (column, side) in features.chain(targets) {
            if let Some(place) = names.iter().position(|name| *name == column.name) {
                columns.places.push(place);
                columns.sides.push(side);
                columns.scalings.push(column);
            }
        }
        columns
    }

    /// With the fits of one series, if it has its own. What stands in a batch is not always the fit of
    /// the value itself: what is compared with others, or with another row, is taken as it is.
    fn scales(&self, own: Option<&'a SeriesFits>) -> Scales<'a> {
        let mut scales = Scales { offset: Vec::new(), factor: Vec::new(), curved: Vec::new() };
        for (number, (column, (at, is_target))) in self.scalings.iter().zip(&self.sides).enumerate()
        {
            let fit = match own {
                Some(own) if *is_target => &own.targets[*at],
                Some(own) => &own.features[*at],
                None => &column.fit,
            };
            let compared = column.cross_section != CrossSection::None
                || column.reference != Reference::None
                || (*is_target && self.kind != TargetKind::Value);
            let is_affine = !compared && fit.curve.is_linear();
            if !compared && !is_affine {
                scales.curved.push((number, fit));
            }
            scales.offset.push(if is_affine { fit.offset as f32 } else { 0.0 });
            scales.factor.push(if is_affine { (1.0 / fit.scale) as f32 } else { 1.0 });
        }
        scales
    }
}

impl Changes {
    /// Of pairs of adjacent rows of one series, evenly spaced.
    fn count(
        rows: &PanelRows<'_>,
        series: &SeriesRows,
        pairs: usize,
        columns: &Columns<'_>,
        scales: &Scales<'_>,
    ) -> Self {
        let zeros = vec![0; columns.places.len()];
        let mut changes = Changes {
            all: zeros.clone(),
            lost_in_the_panel: zeros.clone(),
            lost_by_scaling: zeros,
        };
        let mut before = vec![0.0; columns.places.len()];
        let mut after = before.clone();
        let step = (series.end - series.start).div_ceil(pairs).max(1);
        for row in (series.start..series.end - 1).step_by(step) {
            let mut pair = rows.rows(row..row + 2);
            let (Some(first), Some(second)) = (pair.next(), pair.next()) else { continue };
            panel_rows::gather(first, &columns.places, &mut before);
            panel_rows::gather(second, &columns.places, &mut after);
            changes.add(&before, &after, scales);
        }
        changes
    }

    /// Written for vector instructions: there are as many pairs as series, and as many columns.
    fn add(&mut self, before: &[f32], after: &[f32], scales: &Scales<'_>) {
        let counts =
            self.all.iter_mut().zip(&mut self.lost_in_the_panel).zip(&mut self.lost_by_scaling);
        let values = before.iter().zip(after).zip(scales.offset.iter().zip(&scales.factor));
        for (((all, in_the_panel), by_scaling), ((&before, &after), (offset, factor))) in
            counts.zip(values)
        {
            let changed = (before != after) & is_known(before) & is_known(after);
            let rounded = changed & is_rounding(before, after);
            let scaled = |value: f32| (value - offset) * factor;
            let lost = changed & !rounded & is_rounding(scaled(before), scaled(after));
            *all += u32::from(changed);
            *in_the_panel += u32::from(rounded);
            *by_scaling += u32::from(lost);
        }
        for &(at, fit) in &scales.curved {
            let [before, after] = [before[at], after[at]];
            let changed = before != after && is_known(before) && is_known(after);
            if changed && !is_rounding(before, after) {
                let lost = is_rounding(fit.apply_f32(before), fit.apply_f32(after));
                self.lost_by_scaling[at] += u32::from(lost);
            }
        }
    }

    /// Which columns lose most of their changes, and where.
    fn lost(&self) -> Vec<(Lost, usize)> {
        let lost = |column: usize| {
            let is_most = |count: &[u32]| count[column] > self.all[column] / 2;
            match (is_most(&self.lost_in_the_panel), is_most(&self.lost_by_scaling)) {
                (true, _) => Some((Lost::InThePanel, column)),
                (_, true) => Some((Lost::ByScaling, column)),
                _ => None,
            }
        };
        (0..self.all.len()).filter_map(lost).collect()
    }
}

/// Whether two values differ by a few steps of 32 bits, or not at all.
fn is_rounding(before: f32, after: f32) -> bool {
    (after - before).abs() <= STEPS * f32::EPSILON * before.abs().max(after.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fit::{FitSettings, fit},
        settings::{ScalePer, ScaleSettings, SplitSettings, TargetSettings},
        split::Split,
    };
    use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;

    /// Two series of 200 rows whose `y` goes up and down by `change` around a level of its own.
    fn panel(levels: [f64; 2], change: f64) -> Panel {
        let rows: Vec<(usize, i64)> =
            [0, 1].into_iter().flat_map(|s| (0..200).map(move |t| (s, t))).collect();
        let y =
            rows.iter().map(|(s, t)| levels[*s] + (*t as f64 * 0.7).sin() * change * levels[*s]);
        let batch = RecordBatch::try_from_iter([
            (
                "symbol",
                Arc::new(StringArray::from_iter_values(
                    rows.iter().map(|(s, _)| ["big", "small"][*s]),
                )) as _,
            ),
            ("day", Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, t)| *t))) as _),
            ("y", Arc::new(Float64Array::from_iter_values(y)) as _),
        ]);
        Panel::from_table(&[batch.unwrap()], Some("symbol"), "day").unwrap()
    }

    fn check(levels: [f64; 2], change: f64, per: ScalePer, expected: &[&str]) {
        let panel = panel(levels, change);
        let split = Split::new(&panel, &SplitSettings::default()).unwrap();
        let settings = FitSettings {
            target: TargetSettings { columns: vec!["y".into()], ..TargetSettings::default() },
            scale: ScaleSettings { per, ..ScaleSettings::default() },
            ..FitSettings::default()
        };
        let warnings = fit(&panel, split.train(), &settings).unwrap().warnings;
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (line, expected) in warnings.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line:?} is not {expected:?}");
        }
    }

    #[test]
    fn what_32_bits_do_not_hold_is_said() {
        let feature = ScalePer::Feature;
        check([6e4, 3e2], 0.05, feature, &[]);
        check([6e4, 3e-5], 0.05, ScalePer::Series, &[]);
        let lost = "y: most changes in 1 of 2 series (small) are lost beside the scale";
        check([6e4, 3e-5], 0.05, feature, &[lost]);
        let rounded = "y: most changes in 2 of 2 series (big, small) are below what 32 bits tell";
        check([1e9, 2e9], 1e-7, feature, &[rounded]);
        // Few changes are left, and those are steps of 32 bits.
        check([1e15, 2e15], 1e-7, feature, &[rounded]);
        // Nothing of it is left to be seen: the values are all the same.
        let constant = "y: constant over the training rows as far as 32 bits tell";
        check([1e9, 1e9], 1e-9, feature, &[constant]);
        check([5.0, 5.0], 0.0, feature, &["y: constant over the training rows; kept"]);
    }
}
