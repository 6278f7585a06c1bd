//! The data contract: what the settings make of a panel, and what they may not ask of it.

use crate::{error::NormalizeError, fit::FitSettings, split::TrainSplit};
use millstream_stage::{CrossSection, DataSchema, Padding, Panel, TargetKind};

/// The data contract that these settings make of a panel.
pub(crate) fn schema(panel: &Panel, settings: &FitSettings) -> Result<DataSchema, NormalizeError> {
    let FitSettings { target, window, .. } = settings;
    let columns = &panel.schema().columns;
    if target.columns.is_empty() {
        return Err(NormalizeError::NoTarget);
    }
    if !(target.dead_band >= 0.0 && target.dead_band.is_finite()) {
        return Err(NormalizeError::DeadBand { value: target.dead_band });
    }
    if target.kind == TargetKind::Direction && target.cross_section != CrossSection::None {
        return Err(NormalizeError::Conflict {
            first: "target.cross_section".to_owned(),
            second: "target.kind = \"direction\"",
            instead: "rank returns instead: set target.kind = \"return\"",
        });
    }
    let unknown = |name: &&String| !columns.contains(name);
    if let Some(column) = target.columns.iter().find(unknown) {
        let (column, columns) = (column.clone(), columns.clone());
        return Err(NormalizeError::UnknownTarget { column, columns });
    }
    if let Some(column) = window.segment.as_ref().filter(unknown) {
        let (column, columns) = (column.clone(), columns.clone());
        return Err(NormalizeError::UnknownSegment { column, columns });
    }
    // A segment is a label of a row, not a quantity.
    let inputs = columns[..panel.schema().inputs].iter();
    let features: Vec<String> =
        inputs.filter(|name| window.segment.as_ref() != Some(name)).cloned().collect();
    if let (true, Some(segment)) = (features.is_empty(), &window.segment) {
        return Err(NormalizeError::NoFeature { segment: segment.clone() });
    }
    let (lookback, padding) = (window.lookback.get(), window.padding());
    let min_rows = match padding {
        Padding::None => lookback,
        _ => window.min_rows.get().min(lookback),
    };
    let panel = panel.schema();
    Ok(DataSchema {
        series_column: panel.series_column.clone(),
        time_column: panel.time_column.clone(),
        time_kind: panel.time_kind,
        features,
        targets: target.columns.clone(),
        lookback,
        horizon: window.horizon.get(),
        test_start: i64::MIN,
        fingerprint: panel.fingerprint.clone(),
        target_kind: target.kind,
        dead_band: target.dead_band,
        padding,
        min_rows,
        segment: window.segment.clone(),
    })
}

/// A cross-section spans all series, and would carry those held out into training.
pub(crate) fn check_cross_sections(
    panel: &Panel,
    train: &TrainSplit,
    settings: &FitSettings,
) -> Result<(), NormalizeError> {
    let FitSettings { target, scale, .. } = settings;
    let groups = scale.groups.iter().filter_map(|group| group.cross_section);
    let mut all = groups.chain([scale.cross_section, target.cross_section]);
    let mut codes = 0..panel.schema().series.len() as u32;
    if all.any(|kind| kind != CrossSection::None)
        && !codes.all(|code| train.part().has_series(code))
    {
        return Err(NormalizeError::Conflict {
            first: "a cross_section".to_owned(),
            second: "split.by = \"series\"",
            instead: "it would carry the series that are held out into training: split by time",
        });
    }
    Ok(())
}
