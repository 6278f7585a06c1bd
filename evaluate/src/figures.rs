//! [`Figures`]: how good forecasts are. What is not defined (no data, one series, no variance) is `None`,
//! never NaN. Where the trainer has a figure of the same name, it means the same, in the units of the table.

use crate::correlation::{deviation, mean};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// How good forecasts are, over some rows of some targets; a pair is a forecast and what came.
///
/// Of several targets, errors are the mean of what each of them has, whatever their units. Of scores,
/// which have no unit and no zero, only correlations are defined.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Pairs.
    pub count: u64,
    /// Mean of `(forecast - outcome)²`.
    pub mse: Option<f64>,
    /// Mean of `|forecast - outcome|`.
    pub mae: Option<f64>,
    /// The root of `mse`.
    pub rmse: Option<f64>,
    /// Mean of `|forecast - outcome| / |outcome|`, a share and no percentage, over the outcomes that are
    /// not 0.
    pub mape: Option<f64>,
    /// Mean of `2 |forecast - outcome| / (|forecast| + |outcome|)`, from 0 to 2; 0 where both are 0.
    pub smape: Option<f64>,
    /// Mean of the absolute errors over that of "as a season before" in the series, which is taken from its
    /// history before the first forecast, or without one from the outcomes in the table. Series without
    /// such an error, or one of 0, are left out.
    pub mase: Option<f64>,
    /// Share of forecasts with the right direction, among the pairs in which both the forecast and the
    /// outcome have one: of a change its sign, of a level that of the change since the last known value.
    /// `None` when no pair counts, and when the outcomes of those that count all have one direction.
    pub directional_accuracy: Option<f64>,
    /// Matthews' correlation of the directions of forecasts and outcomes, from -1 to 1, over the same pairs.
    /// `None` when either side has one direction alone.
    pub mcc: Option<f64>,
    /// Mean pinball loss over the quantiles.
    pub pinball: Option<f64>,
    /// Continuous ranked probability score, approximated from the quantiles: twice the integral of their
    /// pinball loss from 0 to 1, where each quantile stands for the shares that are nearest to it. `None`
    /// of fewer than two.
    pub crps: Option<f64>,
    /// Share of the outcomes from the lowest quantile to the highest, both included.
    pub coverage: Option<f64>,
    /// Information coefficient: Pearson's correlation of forecasts and outcomes across the series of one
    /// time, averaged over the times at which it is defined: at least three series, and neither side all
    /// equal. Of several steps and targets, the mean of what each of them has; so of the next five.
    pub ic: Option<f64>,
    /// The standard deviation of that correlation from time to time, as that of a sample (n - 1).
    pub ic_std: Option<f64>,
    /// Their ratio; of several steps and targets, the mean of their ratios, and no ratio of means.
    pub icir: Option<f64>,
    /// As `ic`, of ranks (Spearman's correlation), equal values sharing their average rank.
    pub rank_ic: Option<f64>,
    /// As `ic_std`, of ranks.
    pub rank_ic_std: Option<f64>,
    /// As `icir`, of ranks.
    pub rank_icir: Option<f64>,
    /// Each quantile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<QuantileFigures>,
    /// Each interval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalFigures>,
}

/// How good a quantile is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QuantileFigures {
    /// Which one, between 0 and 1.
    pub quantile: f64,
    /// Mean of `max(q * (outcome - forecast), (q - 1) * (outcome - forecast))`.
    pub pinball: Option<f64>,
    /// Share of the outcomes that lie at or below it.
    pub coverage: Option<f64>,
}

/// How good an interval is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IntervalFigures {
    /// The share of outcomes that should lie in it.
    pub level: f64,
    /// The share that does, bounds included.
    pub coverage: Option<f64>,
    /// The mean distance of its bounds.
    pub mean_width: Option<f64>,
}

/// How many figures have a name.
const NAMED: usize = 17;

impl Figures {
    /// All figures that are one number, by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Option<f64>); NAMED] {
        let mut copy = self.clone();
        copy.places().map(|(name, place)| (name, *place))
    }

    fn places(&mut self) -> [(&'static str, &mut Option<f64>); NAMED] {
        [
            ("mse", &mut self.mse),
            ("mae", &mut self.mae),
            ("rmse", &mut self.rmse),
            ("mape", &mut self.mape),
            ("smape", &mut self.smape),
            ("mase", &mut self.mase),
            ("directional_accuracy", &mut self.directional_accuracy),
            ("mcc", &mut self.mcc),
            ("pinball", &mut self.pinball),
            ("crps", &mut self.crps),
            ("coverage", &mut self.coverage),
            ("ic", &mut self.ic),
            ("ic_std", &mut self.ic_std),
            ("icir", &mut self.icir),
            ("rank_ic", &mut self.rank_ic),
            ("rank_ic_std", &mut self.rank_ic_std),
            ("rank_icir", &mut self.rank_icir),
        ]
    }
}

fn without_count<S: Serializer>(figures: &Figures, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (name, value) in figures.named() {
        map.serialize_entry(name, &value)?;
    }
    if !figures.quantiles.is_empty() {
        map.serialize_entry("quantiles", &figures.quantiles)?;
    }
    if !figures.intervals.is_empty() {
        map.serialize_entry("intervals", &figures.intervals)?;
    }
    map.end()
}

/// What becomes of a figure of several folds.
type OfFolds = fn(&[f64]) -> Option<f64>;

/// The figures of several folds together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OverFolds {
    /// How many folds there are.
    pub folds: u64,
    /// The mean of each figure over the folds that have it; `count` is that of all.
    pub mean: Figures,
    /// Their standard deviation, as that of a sample (n - 1); `None` where fewer than two have one. Of counts there
    /// is none: `count` is 0, and left out where this is serialised.
    #[serde(serialize_with = "without_count")]
    pub std: Figures,
}

impl OverFolds {
    /// Mean and deviation of the figures of these folds.
    #[must_use]
    pub fn of(folds: &[&Figures]) -> OverFolds {
        let mut over = OverFolds { folds: folds.len() as u64, ..OverFolds::default() };
        over.mean.count = folds.iter().map(|fold| fold.count).sum();
        let named: Vec<_> = folds.iter().map(|fold| fold.named()).collect();
        for at in 0..NAMED {
            let found: Vec<f64> = named.iter().filter_map(|fold| fold[at].1).collect();
            *over.mean.places()[at].1 = mean(&found);
            *over.std.places()[at].1 = deviation(&found);
        }
        let Some(first) = folds.first() else { return over };
        for (at, QuantileFigures { quantile, .. }) in first.quantiles.iter().enumerate() {
            let all = || folds.iter().filter_map(|fold| fold.quantiles.get(at));
            let pinball: Vec<f64> = all().filter_map(|one| one.pinball).collect();
            let coverage: Vec<f64> = all().filter_map(|one| one.coverage).collect();
            for (place, of) in over.sides() {
                let (pinball, coverage) = (of(&pinball), of(&coverage));
                place.quantiles.push(QuantileFigures { quantile: *quantile, pinball, coverage });
            }
        }
        for (at, IntervalFigures { level, .. }) in first.intervals.iter().enumerate() {
            let all = || folds.iter().filter_map(|fold| fold.intervals.get(at));
            let coverage: Vec<f64> = all().filter_map(|one| one.coverage).collect();
            let width: Vec<f64> = all().filter_map(|one| one.mean_width).collect();
            for (place, of) in over.sides() {
                let (coverage, mean_width) = (of(&coverage), of(&width));
                place.intervals.push(IntervalFigures { level: *level, coverage, mean_width });
            }
        }
        over
    }

    fn sides(&mut self) -> [(&mut Figures, OfFolds); 2] {
        [(&mut self.mean, mean), (&mut self.std, deviation)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_come_to_a_mean_and_a_deviation() {
        let fold = |mse, ic, coverage| Figures {
            count: 5,
            mse: Some(mse),
            ic,
            intervals: vec![IntervalFigures { level: 0.9, coverage, mean_width: Some(mse) }],
            ..Figures::default()
        };
        let folds = [fold(1.0, Some(0.5), Some(0.75)), fold(3.0, None, Some(0.25))];
        let over = OverFolds::of(&folds.iter().collect::<Vec<_>>());
        assert_eq!((over.folds, over.mean.count), (2, 10));
        assert_eq!((over.mean.mse, over.std.mse), (Some(2.0), Some(2f64.sqrt())));
        assert_eq!((over.mean.ic, over.std.ic, over.mean.mae), (Some(0.5), None, None));
        assert_eq!(over.mean.intervals[0].coverage, Some(0.5));
        let json = serde_json::to_value(&over).unwrap();
        assert_eq!((&json["mean"]["count"], json["std"].get("count")), (&10.into(), None));
        let [mean, std] = ["mean", "std"].map(|side| json[side].as_object().unwrap().len());
        assert_eq!(mean, std + 1, "all else is there");
        assert_eq!(over.std.intervals[0].mean_width, Some(2f64.sqrt()));
        assert_eq!(OverFolds::of(&[]), OverFolds::default());
    }
}
