//! How good forecasts are: the figures, and how sums become figures.
//!
//! A figure that is not defined (no data, one series, no variance) is `None`, never NaN. The sums
//! are taken in `judge.rs`.

use crate::{
    correlation::{Correlations, Mean, OverTimes},
    quantile_figures::{OfAll, QuantileMetrics, QuantileSums},
};
use serde::{Deserialize, Serialize};

/// How good forecasts are, over some steps of some targets.
///
/// What is compared: for each window, step and target one forecast and one outcome. Scaled units
/// are those the model learns in, `(curve(raw) - offset) / scale` by `scaler.json`; user units are
/// those of the source, as a file of forecasts has them. For `target.kind` `return` they are
/// shares, for `direction` -1 to 1. For `difference` they are changes in those units: of a forecast from
/// the level that it counts from to that in the file, an `f32`; of an outcome likewise. Errors of changes
/// are errors of levels.
///
/// Of a model whose outputs are scores (`train.loss = "ic"`), which have no unit and no zero, only
/// correlations are defined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Mean of `(forecast - outcome)²`, in scaled units.
    pub mse: Option<f64>,
    /// Mean of `|forecast - outcome|`, in scaled units.
    pub mae: Option<f64>,
    /// Share of forecasts with the right direction, among the pairs in which both the forecast and
    /// the outcome have one.
    ///
    /// Of targets of kind `difference`, `return` or `direction`, the direction is the sign of the value
    /// itself.
    /// Of kind `value`, it is that of the change since the last known value: whether the value, t+1
    /// or later, lies above or below what the target last was, in the window's last row or, where
    /// it is missing there, before. No change has no direction, so "predict the last" has none at all;
    /// where the target was never known, there is none either. Values are compared in user units, as
    /// `f32`, which is what a file of forecasts holds.
    ///
    /// `None` when no pair counts, and when the outcomes of those that count all have one direction.
    pub directional_accuracy: Option<f64>,
    /// Matthews' correlation of the directions of forecasts and outcomes, from -1 to 1, over the pairs
    /// that `directional_accuracy` counts: unlike that, nobody gains by saying "up" more often where
    /// outcomes mostly are. `None` when either side has one direction alone.
    pub mcc: Option<f64>,
    /// Information coefficient: Pearson's correlation of forecasts and outcomes across the series of
    /// one time (of the windows' last rows), in user units rounded to `f32`, averaged over the times
    /// at which it is defined: at least three series, and neither side all equal. Of several steps
    /// and targets, the mean of what each of them has.
    pub ic: Option<f64>,
    /// The mean of that correlation over its standard deviation from time to time, as that of a sample
    /// (n - 1). `None` where fewer than two times have one, or all have the same. Of several steps and
    /// targets, the mean of what each of them has.
    pub icir: Option<f64>,
    /// As `ic`, of ranks (Spearman's correlation), equal values sharing their average rank.
    pub rank_ic: Option<f64>,
    /// As `icir`, of ranks.
    pub rank_icir: Option<f64>,
    /// Mean of `(forecast - outcome)²`, in user units: each forecast is brought back by the
    /// scaling of its series. Of several targets, the mean of what each of them has, whatever their
    /// units.
    pub mse_raw: Option<f64>,
    /// Mean of `|forecast - outcome|`, in user units, likewise.
    pub mae_raw: Option<f64>,
    /// Mean pinball loss over the quantiles, in scaled units; `None` without quantiles, as are the next
    /// two.
    pub pinball: Option<f64>,
    /// The same in user units.
    pub pinball_raw: Option<f64>,
    /// Share of the outcomes from the lowest quantile to the highest, both included, in user units as
    /// `f32`.
    pub coverage: Option<f64>,
}

/// The figures of one forecaster in one pass.
///
/// As JSON, the overall figures, `by_step` and, where there are any, `quantiles` stand side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Over all steps and targets.
    #[serde(flatten)]
    pub overall: Metrics,
    /// Each quantile, over all steps and targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<QuantileMetrics>,
    /// Each step of each target: the first target's steps, then the second's, and so on.
    pub by_step: Vec<StepMetrics>,
}

/// The figures of one step of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// The target column.
    pub target: String,
    /// The step, from 1.
    pub step: usize,
    /// Its figures, which as JSON stand beside the two above.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Each quantile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<QuantileMetrics>,
}

/// Errors and directions, summed over windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) squared: f64,
    pub(crate) absolute: f64,
    pub(crate) squared_raw: f64,
    pub(crate) absolute_raw: f64,
    /// Pairs whose directions are both up.
    pub(crate) right_rises: u64,
    /// The same, down.
    pub(crate) right_falls: u64,
    /// Pairs with two directions, of which the outcome's is up.
    pub(crate) rises: u64,
    /// The same, down.
    pub(crate) falls: u64,
    pub(crate) quantiles: QuantileSums,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.count += other.count;
        self.squared += other.squared;
        self.absolute += other.absolute;
        self.squared_raw += other.squared_raw;
        self.absolute_raw += other.absolute_raw;
        self.right_rises += other.right_rises;
        self.right_falls += other.right_falls;
        self.rises += other.rises;
        self.falls += other.falls;
        self.quantiles.add(&other.quantiles);
    }

    /// Of the four cells of a table of directions.
    fn matthews(&self) -> Option<f64> {
        let [up, down] = [self.rises, self.falls].map(|count| count as f64);
        let [right_up, right_down] = [self.right_rises, self.right_falls].map(|n| n as f64);
        let (said_up, said_down) = (right_up + down - right_down, right_down + up - right_up);
        let covariance = right_up * right_down - (up - right_up) * (down - right_down);
        let value = covariance / (up * down).sqrt() / (said_up * said_down).sqrt();
        value.is_finite().then(|| value.clamp(-1.0, 1.0))
    }

    fn metrics(&self, Correlations { pearson, spearman }: Correlations) -> Metrics {
        let mean = |sum: f64| Some(sum / self.count as f64).filter(|mean| mean.is_finite());
        let directed = self.rises + self.falls;
        let both = self.rises > 0 && self.falls > 0;
        let right = self.right_rises + self.right_falls;
        let OfAll { pinball, pinball_raw, coverage } = self.quantiles.of_all();
        Metrics {
            mse: mean(self.squared),
            mae: mean(self.absolute),
            directional_accuracy: both.then(|| right as f64 / directed as f64),
            mcc: self.matthews(),
            ic: pearson.mean,
            icir: pearson.ratio,
            rank_ic: spearman.mean,
            rank_icir: spearman.ratio,
            mse_raw: mean(self.squared_raw),
            mae_raw: mean(self.absolute_raw),
            pinball,
            pinball_raw,
            coverage,
        }
    }
}

/// A mean of what several steps and targets have.
#[derive(Debug, Default)]
struct MeanOverTimes {
    mean: Mean,
    ratio: Mean,
}

impl MeanOverTimes {
    fn add(&mut self, found: OverTimes) {
        self.mean.add(found.mean);
        self.ratio.add(found.ratio);
    }

    fn value(&self) -> OverTimes {
        OverTimes { mean: self.mean.value(), ratio: self.ratio.value() }
    }
}

/// Puts the figures of a forecaster together, step by step.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sums: Sums,
    pearson: MeanOverTimes,
    spearman: MeanOverTimes,
    by_step: Vec<StepMetrics>,
}

impl Tally {
    /// Adds step `step` (from 1) of a target.
    pub(crate) fn add(&mut self, target: &str, step: usize, sums: &Sums, found: Correlations) {
        self.sums.add(sums);
        self.pearson.add(found.pearson);
        self.spearman.add(found.spearman);
        let metrics = sums.metrics(found);
        let (target, quantiles) = (target.to_owned(), sums.quantiles.each());
        self.by_step.push(StepMetrics { target, step, metrics, quantiles });
    }

    pub(crate) fn figures(self) -> Figures {
        let Tally { sums, pearson, spearman, by_step } = self;
        let found = Correlations { pearson: pearson.value(), spearman: spearman.value() };
        Figures { overall: sums.metrics(found), quantiles: sums.quantiles.each(), by_step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_defined_is_none() {
        let nothing = Sums::default();
        assert_eq!(nothing.metrics(Correlations::default()), Metrics::default());
        let one_way = Sums { count: 5, right_rises: 5, rises: 5, ..nothing.clone() };
        let found = one_way.metrics(Correlations::default());
        let directions = (found.directional_accuracy, found.mcc);
        assert_eq!((found.mse, directions), (Some(0.0), (None, None)));
        let infinite = Sums { count: 1, squared: f64::INFINITY, absolute: f64::NAN, ..nothing };
        let found = infinite.metrics(Correlations::default());
        assert_eq!((found.mse, found.mae), (None, None));
    }

    #[test]
    fn overall_is_the_mean_of_the_steps_and_undefined_correlations_do_not_count() {
        let mut tally = Tally::default();
        let sums = |squared, right| Sums {
            count: 2,
            squared,
            right_rises: 1,
            right_falls: right,
            rises: 1,
            falls: 1,
            ..Sums::default()
        };
        let correlations = |mean, ratio| {
            let pearson = OverTimes { mean, ratio };
            Correlations { pearson, spearman: OverTimes::default() }
        };
        tally.add("y", 1, &sums(2.0, 1), correlations(Some(0.5), Some(2.0)));
        tally.add("y", 2, &sums(6.0, 0), correlations(None, None));
        let Figures { overall, by_step, .. } = tally.figures();
        assert_eq!((overall.mse, overall.directional_accuracy), (Some(2.0), Some(0.75)));
        assert_eq!((overall.ic, overall.rank_ic), (Some(0.5), None));
        assert_eq!((overall.icir, overall.rank_icir), (Some(2.0), None));
        let steps: Vec<_> = by_step.iter().map(|one| (one.step, one.metrics.mse)).collect();
        assert_eq!(steps, [(1, Some(1.0)), (2, Some(3.0))]);
    }

    /// A textbook's table: 6 rises of which 5 were said, 4 falls of which 3 were.
    #[test]
    fn matthews_correlation_is_that_of_the_four_cells() {
        let sums = |right_rises, right_falls, rises, falls| Sums {
            right_rises,
            right_falls,
            rises,
            falls,
            ..Sums::default()
        };
        let (tp, tn, fp, r#fn) = (5.0, 3.0, 1.0, 1.0);
        let products: f64 = (tp + fp) * (tp + r#fn) * (tn + fp) * (tn + r#fn);
        let expected = (tp * tn - fp * r#fn) / products.sqrt();
        let found = sums(5, 3, 6, 4).matthews().unwrap();
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        assert_eq!(sums(6, 4, 6, 4).matthews(), Some(1.0));
        assert_eq!(sums(0, 0, 6, 4).matthews(), Some(-1.0));
        assert_eq!(sums(6, 0, 6, 4).matthews(), None, "always up");
        assert_eq!(sums(6, 0, 6, 0).matthews(), None, "never down");
        // A product of four counts of millions is beyond whole numbers, and beyond f32.
        let many = 3_000_000_000;
        assert_eq!(sums(many, many, 2 * many, 2 * many).matthews(), Some(0.0));
    }

    #[test]
    fn figures_of_older_versions_are_read() {
        let json =
            r#"{"mse": 1.5, "mae": null, "by_step": [{"target": "y", "step": 1, "mse": 2.0}]}"#;
        let figures: Figures = serde_json::from_str(json).unwrap();
        assert_eq!((figures.overall.mse, figures.overall.mcc), (Some(1.5), None));
        assert_eq!((figures.by_step[0].metrics.mse, figures.quantiles.len()), (Some(2.0), 0));
    }

    #[test]
    fn as_json_the_overall_figures_and_the_steps_stand_side_by_side() {
        let mut tally = Tally::default();
        tally.add(
            "y",
            1,
            &Sums { count: 2, squared: 3.0, ..Sums::default() },
            Correlations::default(),
        );
        let figures = tally.figures();
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!((&json["mse"], &json["ic"]), (&1.5.into(), &serde_json::Value::Null));
        let step = &json["by_step"][0];
        assert_eq!(
            (&step["target"], &step["step"], &step["mse"]),
            (&"y".into(), &1.into(), &1.5.into())
        );
        assert_eq!(serde_json::from_value::<Figures>(json).unwrap(), figures);
    }
}
