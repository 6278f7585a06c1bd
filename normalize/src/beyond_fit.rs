//! Values far from all that a model learned from: another unit, another table, a slip of a decimal point.
//!
//! `scaler.json` knows where a column lay and how wide (`fit`), not its extremes; so far away is told in
//! widths: more than [`WIDTHS`] of them from the mean of the training rows. A width is what the method
//! divides by: a standard deviation, a range between quartiles, one from minimum to maximum. Of curves
//! through quantiles it is all that they span. Columns that are compared with others or with another row
//! have no such place, and are not looked at.

use crate::{moments::is_known, panel_rows::PanelRows, windows::WindowIndex};
use millstream_data::{
    ColumnScaling, CrossSection, Curve, Fit, Panel, Reference, Scaling, list_names,
};
use rayon::prelude::*;
use std::ops::Range;

/// So many widths away is far.
const WIDTHS: f64 = 10.0;

/// Columns that the line lists.
const LISTED: usize = 5;

/// Values of one column.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    known: u64,
    far: u64,
}

/// A column, and where values of it are near.
struct Column<'a> {
    scaling: &'a ColumnScaling,
    /// Position among the features.
    feature: usize,
    /// Position in a row of the panel.
    at: usize,
}

/// Says how many of the values that windows show are far from what was learned from, by column.
///
/// Runs on the rayon pool it is called in.
pub(crate) fn beyond_fit(panel: &Panel, scaling: &Scaling, index: &WindowIndex) -> Option<String> {
    let names = &panel.schema().columns;
    let columns = scaling.features.iter().enumerate().filter_map(|(feature, column)| {
        let at = names.iter().position(|name| *name == column.name)?;
        let by_itself =
            column.cross_section == CrossSection::None && column.reference == Reference::None;
        // What was left as it is has no width.
        let fitted = column.fit != Fit::IDENTITY || !scaling.by_series.is_empty();
        (by_itself && fitted).then_some(Column { scaling: column, feature, at })
    });
    let columns: Vec<Column<'_>> = columns.collect();
    let rows = PanelRows::new(panel);
    let spans = index.spans();
    let counts = spans.par_iter().map(|(code, span)| {
        let own = scaling.by_series.get(&panel.schema().series[*code as usize]);
        let near = columns.iter().map(|column| {
            let Column { scaling: common, feature, at } = column;
            match own.and_then(|own| own.features.get(*feature)) {
                // The mean of a single series is not kept; its offset is a value of it.
                Some(fit) => (*at, near(fit, fit.curve.invert(fit.offset))),
                None => (*at, near(&common.fit, common.mean)),
            }
        });
        count(&rows, span.clone(), &near.collect::<Vec<_>>())
    });
    let counts = counts.reduce(
        || vec![Count::default(); columns.len()],
        |mut sum, more| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| {
                sum.known += more.known;
                sum.far += more.far;
            });
            sum
        },
    );
    let mut far: Vec<(&Column<'_>, Count)> =
        columns.iter().zip(counts).filter(|(_, count)| count.far > 0).collect();
    // Those with most of it first.
    far.sort_by_key(|(_, count)| std::cmp::Reverse(count.far));
    let said: Vec<String> = far
        .iter()
        .map(|(column, Count { known, far })| {
            format!("{} in {far} of {known} values", column.scaling.name)
        })
        .collect();
    (!said.is_empty()).then(|| {
        format!(
            "far outside what the model learned from, by more than {WIDTHS} times its scale: {}",
            list_names(&said, LISTED)
        )
    })
}

/// Where values are that are not far.
fn near(fit: &Fit, mean: f64) -> Range<f64> {
    if let Curve::Quantiles(knots) = &fit.curve {
        let (first, last) =
            (knots.first().copied().unwrap_or(0.0), knots.last().copied().unwrap_or(0.0));
        let width = WIDTHS * (last - first);
        return first - width..last + width;
    }
    let (middle, width) = (fit.apply(mean), WIDTHS);
    let ends = [middle - width, middle + width].map(|scaled| fit.invert(scaled));
    ends[0].min(ends[1])..ends[0].max(ends[1])
}

fn count(rows: &PanelRows<'_>, span: Range<usize>, near: &[(usize, Range<f64>)]) -> Vec<Count> {
    let mut counts = vec![Count::default(); near.len()];
    for row in rows.rows(span) {
        for ((at, near), count) in near.iter().zip(&mut counts) {
            let value = row[*at];
            let known = is_known(value);
            let value = f64::from(value);
            count.known += u64::from(known);
            count.far += u64::from(known && (value < near.start || value > near.end));
        }
    }
    counts
}
