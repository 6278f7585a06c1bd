//! What 32 bits leave of a column's changes, in the panel and scaled.
//!
//! Values are `f32` from the panel on, some seven digits. A level that is large beside its changes
//! keeps few of them; a series that is small beside the others loses its own when the offset of all
//! is taken from it. Neither is refused, since nobody here knows which changes matter; both are said.

use crate::{
    listing::list,
    moments::is_known,
    spans::{self, PanelRows, SeriesRows},
};
use millstream_stage::{ColumnScaling, CrossSection, Fit, Panel, Reference, Scaling, TargetKind};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A change of fewer steps of 32 bits than this is mostly rounding.
const STEPS: f32 = 8.0;

/// Pairs of adjacent rows that are looked at, evenly spaced; more where there are many series.
const PAIRS: usize = 1 << 13;

/// Pairs of a series that are looked at, at least.
const PAIRS_OF_SERIES: usize = 16;

/// Columns and series that a line names.
const LISTED: usize = 5;

/// Where changes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lost {
    InThePanel,
    ByScaling,
}

/// A column that is looked at.
struct Column<'a> {
    at: usize,
    fit: &'a Fit,
    /// By series, where it has its own.
    own: Vec<Option<&'a Fit>>,
    /// Whether what stands in a batch is the fit of the value itself.
    is_scaled: bool,
}

/// The changes of one column in one series.
#[derive(Default)]
struct Changes {
    all: u32,
    lost_in_the_panel: u32,
    lost_by_scaling: u32,
}

/// Says which columns lose most of their changes, and in which series.
///
/// Runs on the rayon pool it is called in.
pub(crate) fn lost_changes(panel: &Panel, scaling: &Scaling, kind: TargetKind) -> Vec<String> {
    let columns = columns(panel, scaling, kind);
    let (rows, series) = (PanelRows::new(panel), spans::series(panel));
    let pairs = (PAIRS / series.len().max(1)).max(PAIRS_OF_SERIES);
    let mut lost: Vec<(Lost, usize, u32)> = series
        .par_iter()
        .flat_map_iter(|series| {
            let found = lost_in(&rows, series, pairs, &columns);
            found.into_iter().map(|(lost, column)| (lost, columns[column].at, series.code))
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
            list(&columns.iter().map(|at| &names.columns[*at]).collect::<Vec<_>>(), LISTED);
        let which = match names.series_column {
            None => String::new(),
            Some(_) => {
                let of: Vec<_> = codes.iter().map(|code| &names.series[*code as usize]).collect();
                format!(" in {} of {} series ({})", of.len(), series.len(), list(&of, LISTED))
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

fn columns<'a>(panel: &'a Panel, scaling: &'a Scaling, kind: TargetKind) -> Vec<Column<'a>> {
    let names = panel.schema();
    let column = |target: bool, i: usize, column: &'a ColumnScaling| {
        let own = |name: &String| {
            let fits = scaling.by_series.get(name)?;
            Some(if target { &fits.targets[i] } else { &fits.features[i] })
        };
        let compared = column.cross_section != CrossSection::None
            || column.reference != Reference::None
            || (target && kind != TargetKind::Value);
        Some(Column {
            at: names.columns.iter().position(|name| *name == column.name)?,
            fit: &column.fit,
            own: names.series.iter().map(own).collect(),
            is_scaled: !compared,
        })
    };
    let features = scaling.features.iter().enumerate().map(|(i, c)| column(false, i, c));
    let targets = scaling.targets.iter().enumerate().map(|(i, c)| column(true, i, c));
    features.chain(targets).flatten().collect()
}

/// Which columns lose most of the changes of one series, and where.
fn lost_in(
    rows: &PanelRows<'_>,
    series: &SeriesRows,
    pairs: usize,
    columns: &[Column<'_>],
) -> Vec<(Lost, usize)> {
    let mut changes: Vec<Changes> = columns.iter().map(|_| Changes::default()).collect();
    let step = (series.end - series.start).div_ceil(pairs).max(1);
    for row in (series.start..series.end - 1).step_by(step) {
        let mut pair = rows.rows(row..row + 2);
        let (Some(before), Some(after)) = (pair.next(), pair.next()) else { continue };
        for (column, changes) in columns.iter().zip(&mut changes) {
            let fit = column.own[series.code as usize].unwrap_or(column.fit);
            let scale = column.is_scaled.then_some(fit);
            changes.add(before[column.at], after[column.at], scale);
        }
    }
    let found = changes.iter().enumerate();
    found.filter_map(|(column, changes)| Some((changes.lost()?, column))).collect()
}

impl Changes {
    fn add(&mut self, before: f32, after: f32, scale: Option<&Fit>) {
        if before == after || !is_known(before) || !is_known(after) {
            return;
        }
        self.all += 1;
        if is_rounding(before, after) {
            self.lost_in_the_panel += 1;
        } else if let Some(fit) = scale {
            let lost = is_rounding(fit.apply_f32(before), fit.apply_f32(after));
            self.lost_by_scaling += u32::from(lost);
        }
    }

    fn lost(&self) -> Option<Lost> {
        let is_most = |count: u32| count > self.all / 2;
        match (is_most(self.lost_in_the_panel), is_most(self.lost_by_scaling)) {
            (true, _) => Some(Lost::InThePanel),
            (_, true) => Some(Lost::ByScaling),
            _ => None,
        }
    }
}

/// Whether two values differ by a few steps of 32 bits, or not at all.
fn is_rounding(before: f32, after: f32) -> bool {
    (after - before).abs() < STEPS * f32::EPSILON * before.abs().max(after.abs()) || before == after
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
        crate::panel_of(&[batch.unwrap()], Some("symbol"), "day").unwrap()
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
