//! Fitting: everything that is learned from training rows before training.
//!
//! Columns whose method needs only moments are fitted in one pass over the panel, all at once;
//! quantiles, single series and values relative to a window are collected column by column. The
//! result does not depend on the number of threads. Only a [`TrainSplit`] can be fitted.

use crate::{
    column_fit::{ColumnFit, Spread},
    column_rules::{ColumnRules, RulesByColumn},
    contract::{check_cross_sections, schema},
    cross_section::crossed,
    error::NormalizeError,
    missing_level::missing_level,
    moments::{MeasuredRows, Moments, is_known},
    panel_rows::{self, PanelRows, SeriesRows},
    relative::{self, OwnFit},
    resolution::lost_changes,
    scalers::{Needs, ScaleMethod},
    settings::{ScalePer, ScaleSettings, TargetSettings, WindowSettings},
    split::TrainSplit,
    target_fit::fit_targets,
};
use millstream_data::{ColumnScaling, DataSchema, Fit, Panel, Scaling, SeriesFits, list_names};
use rayon::prelude::*;

/// What to fit. Fields may be added: fill up with `..Default::default()`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FitSettings {
    /// What to forecast.
    pub target: TargetSettings,
    /// The shape of a window.
    pub window: WindowSettings,
    /// How values are scaled.
    pub scale: ScaleSettings,
}

/// What was fitted: all that is needed to scale other data in the same way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// The data contract: columns, shape of a window. Its `test_start` is the caller's to set.
    pub schema: DataSchema,
    /// The numbers.
    pub scaling: Scaling,
    /// What the user should know, a line each.
    pub warnings: Vec<String>,
}

/// Fits every column on the rows of `train`.
///
/// Runs on the rayon pool it is called in.
///
/// # Errors
/// When a setting names a column the panel does not have, or asks for what cannot be.
pub fn fit(
    panel: &Panel,
    train: &TrainSplit,
    settings: &FitSettings,
) -> Result<Fitted, NormalizeError> {
    if panel.row_count() == 0 {
        return Err(NormalizeError::EmptyPanel);
    }
    check_cross_sections(panel, train, settings)?;
    let schema = schema(panel, settings)?;
    let names = &panel.schema().columns;
    let rules_by_column = RulesByColumn::new(&settings.scale, names)?;
    let (times, series) = (panel_rows::times(panel), panel_rows::series(panel));

    let place = |name: &String| (column_place(names, name), rules_by_column.of(name));
    let features: Vec<(usize, ColumnRules)> = schema.features.iter().map(place).collect();
    let labels: Vec<(usize, ColumnRules)> = schema.targets.iter().map(place).collect();
    check_targets(panel, &labels)?;
    let identity: Vec<ColumnScaling> =
        features.iter().map(|(at, rules)| rules.scaling(&names[*at], Fit::IDENTITY, 0.0)).collect();
    let panel_crossed = crossed(panel, &identity, &times);
    let data = Data { rows: PanelRows::new(&panel_crossed), series: &series, times: &times, train };
    let moments = data.moments(&features, &labels);
    let mut fitted = data.columns(&features, moments.as_ref());
    let targets = fit_targets(&data, panel, &schema, settings, &labels, moments.as_ref());

    let mut scaling = Scaling {
        method: settings.scale.method.name().to_owned(),
        missing: settings.scale.missing,
        features: identity,
        targets: targets.columns,
        by_series: std::collections::BTreeMap::new(),
        schema_hash: schema.hash(),
    };
    let relative = if features.iter().any(|(_, rules)| rules.is_relative()) {
        relative::fit(panel, &schema, &scaling, &features, settings, train, &mut fitted)?
    } else {
        Vec::new()
    };
    for (column, fitting) in scaling.features.iter_mut().zip(&fitted) {
        (column.fit, column.mean) = (fitting.fit.clone(), fitting.mean);
    }
    let mut own = data.by_series(&features, &fitted);
    for OwnFit { series: code, column, fit } in relative {
        let at = series.partition_point(|series| series.code < code);
        let common = || fitted.iter().map(|fitting| fitting.fit.clone()).collect();
        own[at].get_or_insert_with(common)[column] = fit;
    }
    for (i, series) in series.iter().enumerate() {
        let (features, targets) = (own[i].take(), targets.own[i].clone());
        if features.is_some() || targets.is_some() {
            let common =
                |columns: &[ColumnScaling]| columns.iter().map(|c| c.fit.clone()).collect();
            let fits = SeriesFits {
                features: features.unwrap_or_else(|| common(&scaling.features)),
                target_means: match &targets {
                    Some(own) => own.iter().map(|fitting| fitting.mean).collect(),
                    None => scaling.targets.iter().map(|column| column.mean).collect(),
                },
                targets: match targets {
                    Some(own) => own.into_iter().map(|fitting| fitting.fit).collect(),
                    None => common(&scaling.targets),
                },
            };
            scaling.by_series.insert(panel.schema().series[series.code as usize].clone(), fits);
        }
    }
    let mut warnings = warnings(&scaling, &fitted, &targets.spread);
    warnings.extend(lost_changes(panel, &scaling, schema.target_kind));
    let rules: Vec<ColumnRules> = features.into_iter().map(|(_, rules)| rules).collect();
    warnings.extend(missing_level(&schema, &rules));
    Ok(Fitted { schema, scaling, warnings })
}

fn check_targets(panel: &Panel, targets: &[(usize, ColumnRules)]) -> Result<(), NormalizeError> {
    let (names, rows) = (&panel.schema().columns, PanelRows::new(panel));
    let has_value = |at: usize| rows.rows(0..rows.len()).any(|row| is_known(row[at]));
    match targets.iter().find(|(at, _)| !has_value(*at)) {
        None => Ok(()),
        Some((at, _)) => {
            let with_values = (0..names.len()).filter(|&at| has_value(at));
            Err(NormalizeError::EmptyTarget {
                column: names[*at].clone(),
                rows: rows.len(),
                columns: with_values.map(|at| names[at].clone()).collect(),
            })
        }
    }
}

/// The data that is fitted on.
pub(crate) struct Data<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) series: &'a [SeriesRows],
    pub(crate) times: &'a [i64],
    pub(crate) train: &'a TrainSplit,
}

impl Data<'_> {
    /// The moments of all columns, if an input is fitted by them.
    fn moments(
        &self,
        features: &[(usize, ColumnRules)],
        targets: &[(usize, ColumnRules)],
    ) -> Option<Moments> {
        let wanted =
            |rules: &ColumnRules| !rules.is_relative() && rules.method.is_fitted_by_moments();
        if !features.iter().any(|(_, rules)| wanted(rules)) {
            return None;
        }
        let mut log = vec![false; self.rows.width()];
        let with = |needs| {
            features.iter().chain(targets).filter(move |(_, rules)| rules.method.needs() == needs)
        };
        with(Needs::LogMoments).for_each(|(at, _)| log[*at] = true);
        let extremes = with(Needs::Extremes).next().is_some();
        let (rows, keep) = (&self.rows, &self.keep());
        Some(MeasuredRows { rows, keep, log: &log, extremes }.moments())
    }

    /// Fits the columns that are not relative to their window; those come out as they are.
    fn columns(
        &self,
        columns: &[(usize, ColumnRules)],
        moments: Option<&Moments>,
    ) -> Vec<ColumnFit> {
        let sorted = |method: ScaleMethod| method.needs() == Needs::Sorted;
        let keep = match columns.iter().any(|(_, rules)| sorted(rules.method)) {
            true => self.keep(),
            false => Vec::new(),
        };
        let fit = |(at, rules): &(usize, ColumnRules)| match moments {
            _ if rules.is_relative() => ColumnFit::identity(),
            Some(moments) if rules.method.is_fitted_by_moments() => {
                rules.method.fit_moments(moments, *at)
            }
            _ if sorted(rules.method) => {
                let rows = self.rows.rows(0..self.rows.len()).zip(&keep);
                let kept = rows.filter(|(_, keep)| **keep).map(|(row, _)| row[*at]);
                let mut known: Vec<f32> = kept.filter(|x| is_known(*x)).collect();
                rules.method.fit_values(&mut known)
            }
            _ => ColumnFit::identity(),
        };
        columns.par_iter().map(fit).collect()
    }

    /// By series, the fits of its own, where a column is fitted per series.
    fn by_series(
        &self,
        columns: &[(usize, ColumnRules)],
        common: &[ColumnFit],
    ) -> Vec<Option<Vec<Fit>>> {
        let per_series =
            |rules: &ColumnRules| rules.per == ScalePer::Series && !rules.is_relative();
        if !columns.iter().any(|(_, rules)| per_series(rules)) {
            return vec![None; self.series.len()];
        }
        let part = self.train.part();
        let own = |series: &SeriesRows| {
            let times = &self.times[series.start..series.end];
            let inside = |&(time, _): &(&i64, &[f32])| part.span.contains(*time);
            let rows = self.rows.rows(series.start..series.end);
            let rows: Vec<&[f32]> = match part.has_series(series.code) {
                true => times.iter().zip(rows).filter(inside).map(|(_, row)| row).collect(),
                false => Vec::new(),
            };
            let fits = columns.iter().map(|(at, rules)| {
                let column = rows.iter().map(|row| row[*at]).filter(|x| is_known(*x));
                if per_series(rules) {
                    own_fit(rules.method, &mut column.collect::<Vec<_>>())
                } else {
                    None
                }
            });
            or_common(fits.collect(), common.iter().map(|fitting| fitting.fit.clone()))
        };
        self.series.par_iter().map(own).collect()
    }

    /// By row: whether it is a training row.
    fn keep(&self) -> Vec<bool> {
        let part = self.train.part();
        let times = self.times.par_iter();
        let mut keep: Vec<bool> = times.map(|&time| part.span.contains(time)).collect();
        for series in self.series.iter().filter(|series| !part.has_series(series.code)) {
            keep[series.start..series.end].fill(false);
        }
        keep
    }
}

/// The fit of one series; none where it has no spread to go by.
pub(crate) fn own_fit(method: ScaleMethod, values: &mut [f32]) -> Option<Fit> {
    own_fitting(method, values).map(|fitting| fitting.fit)
}

pub(crate) fn own_fitting(method: ScaleMethod, values: &mut [f32]) -> Option<ColumnFit> {
    Some(method.fit_values(values)).filter(|fitting| fitting.spread == Spread::Some)
}

/// What a series has of its own, filled up with what is common; `None` where it has nothing.
pub(crate) fn or_common<T>(own: Vec<Option<T>>, common: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let has_own = own.iter().any(Option::is_some);
    let filled = own.into_iter().zip(common).map(|(own, common)| own.unwrap_or(common));
    has_own.then(|| filled.collect())
}

fn column_place(names: &[String], name: &str) -> usize {
    names.iter().position(|column| column == name).expect("the schema names the panel's columns")
}

/// Columns with nothing to scale, one line for each kind.
fn warnings(scaling: &Scaling, features: &[ColumnFit], targets: &[Spread]) -> Vec<String> {
    let spreads = features.iter().map(|fitting| fitting.spread).chain(targets.iter().copied());
    let names = scaling.features.iter().chain(&scaling.targets).map(|column| &column.name);
    let columns: Vec<(&String, Spread)> = names.zip(spreads).collect();
    let line = |spread: Spread, text: &str| {
        let mut named: Vec<&str> = Vec::new();
        for (name, _) in columns.iter().filter(|(_, s)| *s == spread) {
            // An input may be a target too.
            if !named.contains(&name.as_str()) {
                named.push(name);
            }
        }
        (!named.is_empty()).then(|| format!("{}: {text}", list_names(&named, 8)))
    };
    [
        line(Spread::Constant, "constant over the training rows; kept, scaled to 0 there"),
        line(
            Spread::Rounded,
            "constant over the training rows as far as 32 bits tell at values of that size; \
             if it is not, subtract a constant from it in the source",
        ),
        line(Spread::NoValue, "no value in the training rows; kept, in raw units"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
