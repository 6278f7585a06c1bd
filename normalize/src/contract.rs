//! The data contract: what the settings make of a panel, and what they may not ask of it.

use crate::{error::NormalizeError, fit::FitSettings, split::TrainSplit};
use millstream_data::{
    ColumnKind, CrossSection, DataSchema, ForecastColumns, Heads, NameError, Padding, Panel,
    PanelSchema, SameName, TargetKind, TimeKind,
};
use std::collections::HashSet;

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
    if target.delay > 0 && target.kind == TargetKind::Value {
        return Err(NormalizeError::Conflict {
            first: format!("target.delay = {}", target.delay),
            second: "target.kind = \"value\"",
            instead: "a value is compared with no other row: set target.kind = \"return\" or \"direction\", or a longer window.horizon",
        });
    }
    if target.delay > 0 && target.kind == TargetKind::Difference {
        return Err(NormalizeError::Conflict {
            first: format!("target.delay = {}", target.delay),
            second: "target.kind = \"difference\"",
            instead: "what it would count from is not known when the forecast is made, so no level can be given back: set target.delay = 0 or target.kind = \"return\"",
        });
    }
    if target.kind == TargetKind::Difference && target.cross_section != CrossSection::None {
        return Err(NormalizeError::Conflict {
            first: "target.cross_section".to_owned(),
            second: "target.kind = \"difference\"",
            instead: "a place among the series gives no level back: set target.kind = \"return\"",
        });
    }
    if target.kind == TargetKind::Direction && target.cross_section != CrossSection::None {
        return Err(NormalizeError::Conflict {
            first: "target.cross_section".to_owned(),
            second: "target.kind = \"direction\"",
            instead: "rank returns instead: set target.kind = \"return\"",
        });
    }
    let unknown = |name: &&String| !columns.contains(name);
    let targets = targets(panel.schema(), &target.columns)?;
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
    let used = |name: &String| features.contains(name) || targets.contains(name);
    let kinds = columns.iter().cloned().zip(panel.kinds.iter().copied());
    let schema = DataSchema {
        series_column: panel.series_column.clone(),
        time_column: panel.time_column.clone(),
        time_kind: panel.time_kind,
        features: features.clone(),
        targets: targets.clone(),
        lookback,
        horizon: window.horizon.get(),
        test_start: i64::MIN,
        test_end: None,
        test_series: None,
        train_part: None,
        validation_part: None,
        kinds: kinds.filter(|(name, _)| used(name)).collect(),
        fingerprint: panel.fingerprint.clone(),
        target_kind: target.kind,
        dead_band: target.dead_band,
        delay: target.delay,
        padding,
        min_rows,
        segment: window.segment.clone(),
    };
    // A model that nobody could forecast with is not trained. What else it says beside its forecast is
    // for whoever makes the model to hold against these.
    ForecastColumns::of(&schema, target.cross_section, &Heads::Value)?;
    Ok(schema)
}

/// The target columns that names and globs mean.
fn targets(panel: &PanelSchema, wanted: &[String]) -> Result<Vec<String>, NormalizeError> {
    let mut seen = HashSet::new();
    if let Some(twice) = wanted.iter().find(|name| !seen.insert(*name)) {
        return Err(SameName { name: twice.clone() }.into());
    }
    let found = panel.find_columns(wanted).map_err(|error| match error {
        NameError::NoColumn { pattern, .. } => {
            NormalizeError::UnknownTarget { column: pattern, columns: panel.columns.clone() }
        }
        error => NormalizeError::TargetName(error),
    })?;
    Ok(found.into_iter().map(|at| panel.columns[at].clone()).collect())
}

/// Refuses a panel that is something else than what a model was trained on. That it has all columns
/// is seen when they are looked up.
pub(crate) fn check_panel(panel: &PanelSchema, model: &DataSchema) -> Result<(), NormalizeError> {
    let other = |what: String, expected: &str, found: &str| {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        Err(NormalizeError::OtherData { what, expected, found })
    };
    if panel.time_kind != model.time_kind {
        let what = format!("time column {:?}", panel.time_column);
        return other(what, holds_times(model.time_kind), holds_times(panel.time_kind));
    }
    if panel.series_column.is_some() != model.series_column.is_some() {
        let names = |series: &Option<String>| match series {
            Some(column) => format!("is in column {column:?}"),
            None => "is missing, as it is one series".to_owned(),
        };
        let what = "name of the series".to_owned();
        return other(what, &names(&model.series_column), &names(&panel.series_column));
    }
    for (name, kind) in panel.columns.iter().zip(&panel.kinds) {
        match model.kinds.get(name) {
            Some(expected) if expected != kind => {
                return other(format!("column {name:?}"), holds(*expected), holds(*kind));
            }
            _ => {}
        }
    }
    Ok(())
}

fn holds_times(kind: TimeKind) -> &'static str {
    match kind {
        TimeKind::Date => "holds dates",
        TimeKind::Timestamp => "holds timestamps",
        TimeKind::Integer => "holds whole numbers",
    }
}

fn holds(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "holds numbers",
        ColumnKind::Boolean => "holds true and false",
        ColumnKind::Time => "holds times",
    }
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
