//! ColumnFit what is taken relative to a window: the scale is that of such values in training
//! windows, so the windows are cut first, with nothing scaled.

use crate::{
    column_fit::ColumnFit,
    column_rules::ColumnRules,
    error::NormalizeError,
    fit::{FitSettings, own_fit},
    moments::is_known,
    rows::ScaledRows,
    settings::ScalePer,
    split::TrainSplit,
    windows::{Window, WindowIndex, WindowShape},
};
use millstream_data::{ColumnScaling, DataSchema, Fit, Missing, Panel, Scaling};
use rayon::prelude::*;

/// Training windows looked at, evenly spaced among all of them where there are more. A window of
/// 60 rows makes this four million values a column, far more than a scale needs.
const WINDOWS: u64 = 1 << 16;

/// The fit of one relative column for one series.
pub(crate) struct OwnFit {
    /// Series code.
    pub(crate) series: u32,
    /// Position among the input columns.
    pub(crate) column: usize,
    pub(crate) fit: Fit,
}

/// Fits every relative column, in place of what stands in `fitted`, and for every series where the
/// column asks for that.
pub(crate) fn fit(
    panel: &Panel,
    schema: &DataSchema,
    unscaled: &Scaling,
    columns: &[(usize, ColumnRules)],
    settings: &FitSettings,
    train: &TrainSplit,
    fitted: &mut [ColumnFit],
) -> Result<Vec<OwnFit>, NormalizeError> {
    // Only the relative columns are needed, unless a missing value of another drops its window.
    let all = unscaled.missing == Missing::Drop;
    let used: Vec<usize> =
        (0..columns.len()).filter(|&i| all || columns[i].1.is_relative()).collect();
    let features: Vec<ColumnScaling> = used.iter().map(|&i| unscaled.features[i].clone()).collect();
    let unscaled = Scaling { features, ..unscaled.clone() };
    let rows = ScaledRows::new(panel, schema, &unscaled)?;
    let index =
        WindowIndex::labelled(&rows, WindowShape::of(schema, &settings.window), train.part());
    let step = index.len().div_ceil(WINDOWS).max(1) as usize;
    let windows: Vec<Window> = (0..index.len()).step_by(step).map(|i| index.at(i)).collect();

    let relative: Vec<(usize, usize)> = used
        .iter()
        .enumerate()
        .filter(|(_, column)| columns[**column].1.is_relative())
        .map(|(place, &column)| (place, column))
        .collect();
    let fits: Vec<(usize, ColumnFit, Vec<OwnFit>)> = relative
        .into_par_iter()
        .map(|(place, column)| {
            let rules = &columns[column].1;
            let common = rules.method.fit_values(&mut values(&rows, &windows, place));
            let own = match rules.per {
                ScalePer::Feature => Vec::new(),
                ScalePer::Series => windows
                    .chunk_by(|a, b| a.series == b.series)
                    .filter_map(|windows| {
                        let fit = own_fit(rules.method, &mut values(&rows, windows, place))?;
                        Some(OwnFit { series: windows[0].series, column, fit })
                    })
                    .collect(),
            };
            (column, common, own)
        })
        .collect();
    let mut all = Vec::new();
    for (column, common, own) in fits {
        fitted[column] = common;
        all.extend(own);
    }
    Ok(all)
}

/// The relative values of one column in these windows.
fn values(rows: &ScaledRows, windows: &[Window], column: usize) -> Vec<f32> {
    let references = rows.references.as_ref().expect("a relative column has a reference");
    let at = |row: usize| rows.inputs(row, 1)[column];
    let mut values = Vec::new();
    for window in windows {
        let (first, last) = (at(window.first), at(window.row));
        let known = (window.first..=window.row).map(at).filter(|x| is_known(*x));
        let relative = known.map(|x| references.relative(column, x, first, last, window.row));
        values.extend(relative.filter(|x| is_known(*x)));
    }
    values
}
