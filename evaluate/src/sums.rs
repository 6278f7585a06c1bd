//! What pairs of forecasts and outcomes add up to, and how that becomes figures.

use crate::{
    correlation::OverTimes,
    figures::{Figures, IntervalFigures, QuantileFigures},
};
use std::cmp::Ordering;

/// One forecast and what came, and what the figures of the pair are held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) forecast: f64,
    pub(crate) outcome: f64,
    /// Of a level its last known value, NaN where nobody knows; of a change 0.
    pub(crate) last: f64,
    /// Whether directions are of these numbers as `f32`, which is what the table holds.
    pub(crate) single: bool,
    /// The error of "as a season before" in the series; NaN or 0 where there is none.
    pub(crate) scale: f64,
}

/// What a pair adds to sums; worked out once, however many groups it is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judged {
    /// Whether the forecast has a unit.
    has_unit: bool,
    squared: f64,
    absolute: f64,
    percent: Option<f64>,
    symmetric: f64,
    scaled: Option<f64>,
    /// Whether the outcome is up, and whether the forecast said so; `None` where either has no direction.
    direction: Option<(bool, bool)>,
    quantiles: Option<JudgedQuantiles>,
    /// By the place of its quantile among those of all targets.
    each: Vec<(usize, f64, bool)>,
    /// By the place of its level among those of all targets: whether it holds, and how wide it is.
    intervals: Vec<(usize, bool, f64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct JudgedQuantiles {
    /// Twice the weighted sum of pinball losses.
    crps: f64,
    inside: bool,
}

impl Judged {
    /// Judges a pair anew, without quantiles and intervals.
    pub(crate) fn set(&mut self, pair: Pair, has_unit: bool) {
        let Pair { forecast, outcome, last, single, scale } = pair;
        self.each.clear();
        self.intervals.clear();
        (self.has_unit, self.quantiles) = (has_unit, None);
        if !has_unit {
            return;
        }
        let error = forecast - outcome;
        (self.squared, self.absolute) = (error * error, error.abs());
        self.percent = (outcome != 0.0).then(|| self.absolute / outcome.abs());
        let sizes = forecast.abs() + outcome.abs();
        self.symmetric = if sizes == 0.0 { 0.0 } else { 2.0 * self.absolute / sizes };
        self.scaled = (scale > 0.0).then(|| self.absolute / scale);
        let kept = |value: f64| if single { f64::from(value as f32) } else { value };
        let [said, came, last] = [forecast, outcome, last].map(kept);
        self.direction = is_up(came, last).zip(is_up(said, last));
    }

    /// Adds what the quantiles of the pair say, rising.
    pub(crate) fn add_quantiles(
        &mut self,
        said: impl Iterator<Item = f64>,
        slots: &[QuantileSlot],
        outcome: f64,
    ) {
        let (mut lowest, mut highest, mut crps) = (None, f64::NAN, 0.0);
        for (said, slot) in said.zip(slots) {
            let error = outcome - said;
            let loss = (slot.quantile * error).max((slot.quantile - 1.0) * error);
            self.each.push((slot.place, loss, outcome <= said));
            crps += 2.0 * slot.weight * loss;
            lowest.get_or_insert(said);
            highest = said;
        }
        let lowest = lowest.unwrap_or(f64::NAN);
        let inside = (lowest..=highest).contains(&outcome);
        // Between one quantile and itself there is nothing.
        self.quantiles = (slots.len() > 1).then_some(JudgedQuantiles { crps, inside });
    }

    /// Adds an interval of the pair; NaN where there is none.
    pub(crate) fn add_interval(&mut self, place: usize, lower: f64, upper: f64, outcome: f64) {
        if !lower.is_nan() && !upper.is_nan() {
            let holds = (lower..=upper).contains(&outcome);
            self.intervals.push((place, holds, upper - lower));
        }
    }
}

/// On which side of "no change" a value lies; `None` where it is neither, or nobody knows.
fn is_up(value: f64, last: f64) -> Option<bool> {
    match value.partial_cmp(&last)? {
        Ordering::Greater => Some(true),
        Ordering::Less => Some(false),
        Ordering::Equal => None,
    }
}

/// A quantile of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QuantileSlot {
    pub(crate) quantile: f64,
    /// The part of 0 to 1 that is nearer to it than to the others.
    pub(crate) weight: f64,
    /// Which it is among the quantiles of all targets.
    pub(crate) place: usize,
}

impl QuantileSlot {
    /// Of rising quantiles of a target, among the rising ones of all targets.
    pub(crate) fn all(quantiles: &[f64], of_all: &[f64]) -> Vec<QuantileSlot> {
        let slot = |(at, &quantile): (usize, &f64)| {
            let from = at.checked_sub(1).map_or(0.0, |before| (quantiles[before] + quantile) / 2.0);
            let to = quantiles.get(at + 1).map_or(1.0, |after| (quantile + after) / 2.0);
            let place = of_all.partition_point(|known| *known < quantile);
            QuantileSlot { quantile, weight: to - from, place }
        };
        quantiles.iter().enumerate().map(slot).collect()
    }
}

/// Sums over pairs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    count: u64,
    /// Of these, those whose forecast has a unit.
    errors: u64,
    squared: f64,
    absolute: f64,
    percent: Sum,
    symmetric: f64,
    scaled: Sum,
    right_rises: u64,
    right_falls: u64,
    rises: u64,
    falls: u64,
    crps: Sum,
    inside: u64,
    quantiles: Vec<(Sum, u64)>,
    intervals: Vec<(Sum, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(self) -> Option<f64> {
        share(self.sum, self.count)
    }
}

fn share(sum: f64, count: u64) -> Option<f64> {
    Some(sum / count as f64).filter(|mean| mean.is_finite())
}

impl Sums {
    /// With room for so many quantiles and intervals.
    pub(crate) fn new(quantiles: usize, intervals: usize) -> Sums {
        Sums {
            quantiles: vec![Default::default(); quantiles],
            intervals: vec![Default::default(); intervals],
            ..Sums::default()
        }
    }

    pub(crate) fn add(&mut self, pair: &Judged) {
        self.count += 1;
        if !pair.has_unit {
            return;
        }
        self.errors += 1;
        self.squared += pair.squared;
        self.absolute += pair.absolute;
        self.symmetric += pair.symmetric;
        pair.percent.into_iter().for_each(|value| self.percent.add(value));
        pair.scaled.into_iter().for_each(|value| self.scaled.add(value));
        if let Some((up, said_up)) = pair.direction {
            let right = u64::from(up == said_up);
            let (all, rightly) = match up {
                true => (&mut self.rises, &mut self.right_rises),
                false => (&mut self.falls, &mut self.right_falls),
            };
            *all += 1;
            *rightly += right;
        }
        if let Some(JudgedQuantiles { crps, inside }) = pair.quantiles {
            self.crps.add(crps);
            self.inside += u64::from(inside);
        }
        for (place, loss, below) in &pair.each {
            let (losses, covered) = &mut self.quantiles[*place];
            losses.add(*loss);
            *covered += u64::from(*below);
        }
        for (place, holds, width) in &pair.intervals {
            let (widths, covered) = &mut self.intervals[*place];
            widths.add(*width);
            *covered += u64::from(*holds);
        }
    }

    /// Outcomes of 0, of which `mape` says nothing.
    pub(crate) fn zeros(&self) -> u64 {
        self.errors - self.percent.count
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

    /// With the correlations of the same pairs, and the quantiles and levels of all targets.
    pub(crate) fn figures(
        &self,
        [pearson, spearman]: [OverTimes; 2],
        quantiles: &[f64],
        levels: &[f64],
    ) -> Figures {
        let mean = |sum: f64| share(sum, self.errors);
        let (directed, right) = (self.rises + self.falls, self.right_rises + self.right_falls);
        let both = self.rises > 0 && self.falls > 0;
        let each = |(quantile, (losses, covered)): (&f64, &(Sum, u64))| QuantileFigures {
            quantile: *quantile,
            pinball: losses.mean(),
            coverage: share(*covered as f64, losses.count),
        };
        let quantiles: Vec<QuantileFigures> =
            quantiles.iter().zip(&self.quantiles).map(each).collect();
        let interval = |(level, (widths, covered)): (&f64, &(Sum, u64))| IntervalFigures {
            level: *level,
            coverage: share(*covered as f64, widths.count),
            mean_width: widths.mean(),
        };
        let losses: Vec<f64> = quantiles.iter().filter_map(|quantile| quantile.pinball).collect();
        Figures {
            count: self.count,
            mse: mean(self.squared),
            mae: mean(self.absolute),
            rmse: mean(self.squared).map(f64::sqrt),
            mape: self.percent.mean(),
            smape: mean(self.symmetric),
            mase: self.scaled.mean(),
            directional_accuracy: both.then(|| right as f64 / directed as f64),
            mcc: self.matthews(),
            pinball: crate::correlation::mean(&losses),
            crps: self.crps.mean(),
            coverage: share(self.inside as f64, self.crps.count),
            ic: pearson.mean,
            ic_std: pearson.std,
            icir: pearson.ratio,
            rank_ic: spearman.mean,
            rank_ic_std: spearman.std,
            rank_icir: spearman.ratio,
            quantiles,
            intervals: levels.iter().zip(&self.intervals).map(interval).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[Pair], has_unit: bool) -> Figures {
        let (mut sums, mut judged) = (Sums::new(0, 0), Judged::default());
        for pair in pairs {
            judged.set(*pair, has_unit);
            sums.add(&judged);
        }
        sums.figures(Default::default(), &[], &[])
    }

    fn pair(forecast: f64, outcome: f64) -> Pair {
        Pair { forecast, outcome, last: 0.0, single: false, scale: f64::NAN }
    }

    #[test]
    fn what_is_not_defined_is_none() {
        assert_eq!(of(&[], true), Figures::default());
        let one_way = of(&[pair(1.0, 2.0), pair(1.0, 1.0)], true);
        let directions = (one_way.directional_accuracy, one_way.mcc);
        assert_eq!((one_way.mse, directions), (Some(0.5), (None, None)));
        assert_eq!(of(&[pair(0.5, 0.0)], true).mape, None);
        let nothing = of(&[pair(0.0, 0.0)], true);
        assert_eq!((nothing.mape, nothing.smape), (None, Some(0.0)));
        let scores = of(&[pair(1.0, 2.0)], false);
        assert_eq!(scores, Figures { count: 1, ..Figures::default() });
    }

    #[test]
    fn figures_are_those_of_the_definition() {
        let pairs = [(2.0, 1.0), (-1.0, -4.0), (3.0, -1.0), (0.0, 2.0), (1.0, 4.0)];
        let pairs = pairs.map(|(forecast, outcome)| Pair { scale: 2.0, ..pair(forecast, outcome) });
        let found = of(&pairs, true);
        assert_eq!((found.mse, found.mae), (Some(39.0 / 5.0), Some(13.0 / 5.0)));
        assert_eq!(found.rmse, Some((39.0f64 / 5.0).sqrt()));
        assert_eq!(found.mape, Some((1.0 + 0.75 + 4.0 + 1.0 + 0.75) / 5.0));
        let symmetric = (2.0 / 3.0 + 6.0 / 5.0 + 8.0 / 4.0 + 2.0 + 6.0 / 5.0) / 5.0;
        assert!((found.smape.unwrap() - symmetric).abs() < 1e-15);
        assert_eq!(found.mase, Some(13.0 / 10.0));
        // A forecast of 0 has no direction.
        assert_eq!(found.directional_accuracy, Some(0.75));
        // Of two rises both were said, of two falls one was.
        let expected = (2.0 * 1.0 - 0.0) / (2.0f64 * 2.0 * 3.0 * 1.0).sqrt();
        assert!((found.mcc.unwrap() - expected).abs() < 1e-15);
    }

    #[test]
    fn directions_of_levels_are_of_changes_since_the_last() {
        let level = |forecast, outcome, last| Pair { last, ..pair(forecast, outcome) };
        let pairs = [
            level(11.0, 12.0, 10.0),
            level(11.0, 9.0, 10.0),
            level(11.0, 12.0, f64::NAN),
            level(10.0, 12.0, 10.0),
            // As ours hold it, this is no change.
            Pair { single: true, ..level(10.0 + 1e-9, 12.0, 10.0) },
        ];
        let found = of(&pairs, true);
        assert_eq!((found.directional_accuracy, found.mcc), (Some(0.5), None));
    }

    #[test]
    fn quantiles_and_intervals_hold_or_do_not() {
        let slots = QuantileSlot::all(&[0.25, 0.75], &[0.25, 0.5, 0.75]);
        assert_eq!(slots.iter().map(|slot| slot.place).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(slots.iter().map(|slot| slot.weight).collect::<Vec<_>>(), [0.5, 0.5]);
        let (mut sums, mut judged) = (Sums::new(3, 1), Judged::default());
        for outcome in [0.0, 1.0, 2.5, 4.0] {
            judged.set(pair(2.0, outcome), true);
            judged.add_quantiles([1.0, 3.0].into_iter(), &slots, outcome);
            let upper = if outcome == 4.0 { f64::NAN } else { 2.0 };
            judged.add_interval(0, 1.0, upper, outcome);
            sums.add(&judged);
        }
        let found = sums.figures(Default::default(), &[0.25, 0.5, 0.75], &[0.9]);
        // Errors of the lower: -1, 0, 1.5, 3, and of the upper -3, -2, -0.5, 1.
        let (lower, upper) = ((0.75 + 0.25 * 4.5) / 4.0, (0.25 * 5.5 + 0.75) / 4.0);
        assert_eq!(found.quantiles[0].pinball, Some(lower));
        assert_eq!(found.quantiles[2].pinball, Some(upper));
        assert_eq!(found.quantiles[1], QuantileFigures { quantile: 0.5, ..Default::default() });
        assert_eq!(found.pinball, Some((lower + upper) / 2.0));
        assert_eq!(found.crps, Some(lower + upper), "half of each, twice");
        assert_eq!((found.quantiles[0].coverage, found.coverage), (Some(0.5), Some(0.5)));
        let interval =
            IntervalFigures { level: 0.9, coverage: Some(1.0 / 3.0), mean_width: Some(1.0) };
        assert_eq!(found.intervals, [interval]);
    }

    #[test]
    fn one_quantile_has_no_ends() {
        let slots = QuantileSlot::all(&[0.5], &[0.5]);
        let (mut sums, mut judged) = (Sums::new(1, 0), Judged::default());
        judged.set(pair(2.0, 1.0), true);
        judged.add_quantiles([2.0].into_iter(), &slots, 1.0);
        sums.add(&judged);
        let found = sums.figures(Default::default(), &[0.5], &[]);
        assert_eq!((found.pinball, found.crps, found.coverage), (Some(0.5), None, None));
    }
}
