//! Fitting: everything that is learned from training rows before training.
//!
//! Columns whose method needs only moments are fitted in one pass over the panel, all at once;
//! quantiles, single series and values relative to a window are collected column by column. The
//! result does not depend on the number of threads. Only a [`TrainSplit`] can be fitted.

use crate::{
    contract::{check_cross_sections, schema},
    cross_section::crossed,
    error::NormalizeError,
    labels::Labels,
    moments::{Moments, Pass, is_known},
    quantiles::fit_values,
    recipe::{Recipe, Recipes},
    relative::{self, OwnFit},
    settings::{ScaleMethod, ScalePer, ScaleSettings, TargetSettings, WindowSettings},
    spans::{self, PanelRows, SeriesRows},
    split::TrainSplit,
};
use millstream_stage::{
    ColumnScaling, Curve, DataSchema, Fit, Panel, Scaling, SeriesFits, TargetKind,
};
use rayon::prelude::*;

/// What to fit.
#[derive(Debug, Clone, Default)]
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
pub struct Fitted {
    /// The data contract: columns, shape of a window. Its `test_start` is the caller's to set.
    pub schema: DataSchema,
    /// The numbers.
    pub scaling: Scaling,
    /// What the user should know, a line each.
    pub warnings: Vec<String>,
}

/// A fit, and what else is known of the values it was made of.
#[derive(Debug, Clone)]
pub(crate) struct Fitting {
    pub(crate) fit: Fit,
    pub(crate) mean: f64,
    pub(crate) spread: Spread,
}

/// Whether there is anything to scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    Some,
    Constant,
    NoValue,
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
    let recipes = Recipes::new(&settings.scale, names)?;
    let (times, series) = (spans::times(panel), spans::series(panel));

    let targets = targets(panel, &schema, settings, &recipes, train, &times, &series)?;
    let features: Vec<(usize, Recipe)> =
        schema.features.iter().map(|name| (column_place(names, name), recipes.of(name))).collect();
    let identity: Vec<ColumnScaling> = features
        .iter()
        .map(|(at, recipe)| recipe.scaling(&names[*at], Fit::IDENTITY, 0.0))
        .collect();
    let panel_crossed = crossed(panel, &identity, &times);
    let data = Data { rows: PanelRows::new(&panel_crossed), series: &series, times: &times, train };
    let mut fitted = data.columns(&features);

    let mut scaling = Scaling {
        method: settings.scale.method.name().to_owned(),
        missing: settings.scale.missing,
        features: identity,
        targets: targets.columns,
        by_series: std::collections::BTreeMap::new(),
        schema_hash: schema.hash(),
    };
    let relative = if features.iter().any(|(_, recipe)| recipe.is_relative()) {
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
                targets: targets.unwrap_or_else(|| common(&scaling.targets)),
            };
            scaling.by_series.insert(panel.schema().series[series.code as usize].clone(), fits);
        }
    }
    let warnings = warnings(&scaling, &fitted, &targets.spread);
    Ok(Fitted { schema, scaling, warnings })
}

/// What the scaling of the targets is.
struct Targets {
    columns: Vec<ColumnScaling>,
    spread: Vec<Spread>,
    /// By series, where it has its own.
    own: Vec<Option<Vec<Fit>>>,
}

fn targets(
    panel: &Panel,
    schema: &DataSchema,
    settings: &FitSettings,
    recipes: &Recipes<'_>,
    train: &TrainSplit,
    times: &[i64],
    series: &[SeriesRows],
) -> Result<Targets, NormalizeError> {
    let names = &panel.schema().columns;
    let rows = PanelRows::new(panel);
    let places: Vec<usize> = schema.targets.iter().map(|name| column_place(names, name)).collect();
    for (&at, name) in places.iter().zip(&schema.targets) {
        let has_value = |at: usize| rows.rows(0..rows.len()).any(|row| is_known(row[at]));
        if !has_value(at) {
            let with_values = (0..names.len()).filter(|&at| has_value(at));
            return Err(NormalizeError::EmptyTarget {
                column: name.clone(),
                rows: rows.len(),
                columns: with_values.map(|at| names[at].clone()).collect(),
            });
        }
    }
    let cross_section = settings.target.cross_section;
    let labels = Labels::raw(&rows, series, times, &places, schema, cross_section);
    let methods: Vec<(ScaleMethod, ScalePer)> = schema
        .targets
        .iter()
        .map(|name| match schema.target_kind {
            // Classes are no quantities.
            TargetKind::Direction => (ScaleMethod::None, ScalePer::Feature),
            _ => (recipes.of(name).method, recipes.of(name).per),
        })
        .collect();
    let values = |series: &[SeriesRows], target: usize| -> Vec<f32> {
        let of = |series| labels.of_part(target, series, times, train.part());
        series.par_iter().flat_map_iter(of).collect()
    };
    let common: Vec<Fitting> = (0..schema.targets.len())
        .into_par_iter()
        .map(|target| fit_values(methods[target].0, &mut values(series, target)))
        .collect();
    let own = |series: &SeriesRows| {
        let fits: Vec<Option<Fit>> = (0..schema.targets.len())
            .map(|target| match methods[target] {
                (_, ScalePer::Feature) => None,
                (method, ScalePer::Series) => {
                    let values = &mut values(std::slice::from_ref(series), target);
                    own_fit(method, values)
                }
            })
            .collect();
        or_common(fits, &common)
    };
    let columns = schema.targets.iter().zip(&common).map(|(name, fitting)| ColumnScaling {
        cross_section,
        fit: fitting.fit.clone(),
        ..ColumnScaling::affine(name.clone(), 0.0, 1.0, fitting.mean)
    });
    Ok(Targets {
        columns: columns.collect(),
        spread: common.iter().map(|fitting| fitting.spread).collect(),
        own: series.par_iter().map(own).collect(),
    })
}

/// The data that inputs are fitted on.
struct Data<'a> {
    rows: PanelRows<'a>,
    series: &'a [SeriesRows],
    times: &'a [i64],
    train: &'a TrainSplit,
}

impl Data<'_> {
    /// Fits the columns that are not relative to their window; those come out as they are.
    fn columns(&self, columns: &[(usize, Recipe)]) -> Vec<Fitting> {
        use ScaleMethod::{Log1p, Minmax, None, RankNormal, Robust, Zscore};
        let by_moments = |recipe: &Recipe| {
            !recipe.is_relative() && matches!(recipe.method, Zscore | Minmax | Log1p)
        };
        let keep = self.keep();
        let moments = columns.iter().any(|(_, recipe)| by_moments(recipe)).then(|| {
            let mut log = vec![false; self.rows.width()];
            let logged = columns.iter().filter(|(_, recipe)| recipe.method == Log1p);
            logged.for_each(|(at, _)| log[*at] = true);
            let extremes = columns.iter().any(|(_, recipe)| recipe.method == Minmax);
            Pass { rows: &self.rows, keep: &keep, log: &log, extremes }.run()
        });
        columns
            .par_iter()
            .map(|(at, recipe)| match (recipe.method, &moments) {
                _ if recipe.is_relative() => Fitting::identity(),
                (Zscore | Minmax | Log1p, Some(moments)) => {
                    Fitting::of_moments(recipe.method, moments, *at)
                }
                (Robust | RankNormal, _) => {
                    let rows = self.rows.rows(0..self.rows.len()).zip(&keep);
                    let kept = rows.filter(|(_, keep)| **keep).map(|(row, _)| row[*at]);
                    fit_values(
                        recipe.method,
                        &mut kept.filter(|x| is_known(*x)).collect::<Vec<_>>(),
                    )
                }
                (None, _) | (_, Option::None) => Fitting::identity(),
            })
            .collect()
    }

    /// By series, the fits of its own, where a column is fitted per series.
    fn by_series(&self, columns: &[(usize, Recipe)], common: &[Fitting]) -> Vec<Option<Vec<Fit>>> {
        let per_series = |recipe: &Recipe| recipe.per == ScalePer::Series && !recipe.is_relative();
        if !columns.iter().any(|(_, recipe)| per_series(recipe)) {
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
            let fits = columns.iter().map(|(at, recipe)| {
                let column = rows.iter().map(|row| row[*at]).filter(|x| is_known(*x));
                if per_series(recipe) {
                    own_fit(recipe.method, &mut column.collect::<Vec<_>>())
                } else {
                    None
                }
            });
            or_common(fits.collect(), common)
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
    let fitting = fit_values(method, values);
    (fitting.spread == Spread::Some).then_some(fitting.fit)
}

/// Fits of a series, filled up with those of the columns; `None` where it has none of its own.
fn or_common(own: Vec<Option<Fit>>, common: &[Fitting]) -> Option<Vec<Fit>> {
    own.iter().any(Option::is_some).then(|| {
        own.into_iter()
            .zip(common)
            .map(|(own, all)| own.unwrap_or_else(|| all.fit.clone()))
            .collect()
    })
}

impl Fitting {
    pub(crate) fn identity() -> Self {
        Fitting { fit: Fit::IDENTITY, mean: 0.0, spread: Spread::Some }
    }

    /// With this offset and scale. A column that is constant or has no value at all keeps its
    /// unit: its scale is 1, never 0 and never infinite.
    pub(crate) fn affine(curve: Curve, offset: f64, scale: f64, mean: f64) -> Self {
        // Below what f32 can resolve around the offset, the spread is rounding noise.
        let spread = scale.is_finite()
            && scale > f64::from(f32::EPSILON) * offset.abs()
            && scale > f64::from(f32::MIN_POSITIVE);
        let scale = if spread { scale } else { 1.0 };
        let spread = if spread { Spread::Some } else { Spread::Constant };
        Fitting { fit: Fit { curve, offset, scale }, mean, spread }
    }

    pub(crate) fn no_value() -> Self {
        Fitting { spread: Spread::NoValue, ..Fitting::identity() }
    }

    fn of_moments(method: ScaleMethod, moments: &Moments, at: usize) -> Self {
        if moments.count[at] == 0 {
            return Fitting::no_value();
        }
        let mean = moments.mean[at];
        match method {
            ScaleMethod::Minmax => {
                let (min, max) = (f64::from(moments.min[at]), f64::from(moments.max[at]));
                Fitting::affine(Curve::Linear, min, max - min, mean)
            }
            ScaleMethod::Log1p => {
                let raw = Curve::Log1p.invert(mean);
                Fitting::affine(Curve::Log1p, mean, moments.deviation(at), raw)
            }
            _ => Fitting::affine(Curve::Linear, mean, moments.deviation(at), mean),
        }
    }
}

fn column_place(names: &[String], name: &str) -> usize {
    names.iter().position(|column| column == name).expect("the schema names the panel's columns")
}

/// Columns with nothing to scale, one line for each kind.
fn warnings(scaling: &Scaling, features: &[Fitting], targets: &[Spread]) -> Vec<String> {
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
        let more = named.len().saturating_sub(8);
        let (shown, last) = (
            named[..named.len() - more].join(", "),
            if more > 0 { format!(" and {more} more") } else { String::new() },
        );
        (!named.is_empty()).then(|| format!("{shown}{last}: {text}"))
    };
    [
        line(Spread::Constant, "constant over the training rows; kept, scaled to 0 there"),
        line(Spread::NoValue, "no value in the training rows; kept, in raw units"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
