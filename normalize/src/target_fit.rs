//! Fitting the targets: their labels are what is scaled, and those may be returns, directions or places
//! among the other series, where inputs are a column's values.

use crate::{
    column_fit::{ColumnFit, Spread},
    column_rules::ColumnRules,
    fit::{Data, FitSettings, or_common, own_fitting},
    labels::Labels,
    moments::Moments,
    panel_rows::{self, PanelRows, SeriesRows},
    scalers::{Needs, ScaleMethod},
    settings::ScalePer,
};
use millstream_data::{ColumnScaling, CrossSection, DataSchema, Panel, TargetKind};
use rayon::prelude::*;

/// The scaling of the targets.
pub(crate) struct TargetFits {
    pub(crate) columns: Vec<ColumnScaling>,
    pub(crate) spread: Vec<Spread>,
    /// By series, where it has its own.
    pub(crate) own: Vec<Option<Vec<ColumnFit>>>,
}

/// Fits the targets, whose raw values are those of `panel` at these places.
pub(crate) fn fit_targets(
    data: &Data<'_>,
    panel: &Panel,
    schema: &DataSchema,
    settings: &FitSettings,
    targets: &[(usize, ColumnRules)],
    moments: Option<&Moments>,
) -> TargetFits {
    let cross_section = settings.target.cross_section;
    // Labels that are a column's values have its moments, and need not be collected.
    let by_moments = |(at, rules): &(usize, ColumnRules)| {
        let are_values = schema.target_kind == TargetKind::Value
            && [cross_section, rules.cross_section] == [CrossSection::None; 2];
        moments
            .filter(|_| are_values && has_moments(rules.method))
            .map(|m| rules.method.fit_moments(m, *at))
    };
    let by_moments: Vec<Option<ColumnFit>> = targets.iter().map(by_moments).collect();

    let methods: Vec<Method> = targets.iter().map(|(_, rules)| Method::of(rules, schema)).collect();
    let any_own = methods.iter().any(|method| method.per == ScalePer::Series);
    let labels = if any_own || by_moments.iter().any(Option::is_none) {
        let places: Vec<usize> = targets.iter().map(|(at, _)| *at).collect();
        let columns = panel_rows::columns(&PanelRows::new(panel), &places);
        let (series, times) = (data.series, data.times);
        Some(Labels::raw(columns, series, times, places.len(), schema, cross_section))
    } else {
        None
    };
    let collected = CollectedLabels { data, labels, methods };

    let common: Vec<ColumnFit> = by_moments
        .into_par_iter()
        .enumerate()
        .map(|(target, fit)| fit.unwrap_or_else(|| collected.fit(target)))
        .collect();
    let own = data.series.par_iter().map(|series| collected.fit_series(series, &common));
    let scaling = |(name, fitting): (&String, &ColumnFit)| ColumnScaling {
        cross_section,
        fit: fitting.fit.clone(),
        ..ColumnScaling::affine(name.clone(), 0.0, 1.0, fitting.mean)
    };
    TargetFits {
        own: own.collect(),
        spread: common.iter().map(|fitting| fitting.spread).collect(),
        columns: schema.targets.iter().zip(&common).map(scaling).collect(),
    }
}

/// Whether the pass over all columns has what this method needs. Of logarithms there are no moments of
/// the values themselves, whose mean is wanted.
fn has_moments(method: ScaleMethod) -> bool {
    method.is_fitted_by_moments() && method.needs() != Needs::LogMoments
}

/// How one target is scaled.
struct Method {
    method: ScaleMethod,
    per: ScalePer,
}

impl Method {
    fn of(rules: &ColumnRules, schema: &DataSchema) -> Self {
        match schema.target_kind {
            // Classes are no quantities.
            TargetKind::Direction => Method { method: ScaleMethod::None, per: ScalePer::Feature },
            _ => Method { method: rules.method, per: rules.per },
        }
    }
}

/// The labels of the training part, to be fitted target by target.
struct CollectedLabels<'a> {
    data: &'a Data<'a>,
    /// `None` where every target has been fitted by moments.
    labels: Option<Labels>,
    methods: Vec<Method>,
}

impl CollectedLabels<'_> {
    /// The fit of a target over all series.
    fn fit(&self, target: usize) -> ColumnFit {
        self.methods[target].method.fit_values(&mut self.values(self.data.series, target))
    }

    /// What a series has of its own, where a target is fitted per series.
    fn fit_series(&self, series: &SeriesRows, common: &[ColumnFit]) -> Option<Vec<ColumnFit>> {
        let own =
            self.methods.iter().enumerate().map(|(target, Method { method, per })| match per {
                ScalePer::Feature => None,
                ScalePer::Series => {
                    own_fitting(*method, &mut self.values(std::slice::from_ref(series), target))
                }
            });
        or_common(own.collect(), common.iter().cloned())
    }

    /// The known training labels of a target in these series.
    fn values(&self, series: &[SeriesRows], target: usize) -> Vec<f32> {
        let Data { times, train, .. } = *self.data;
        let labels = self.labels.as_ref().expect("collected where a target is not all moments");
        let of = |series| labels.of_part(target, series, times, train.part());
        series.par_iter().flat_map_iter(of).collect()
    }
}
