//! Intervals around forecasts, calibrated on windows that were not learned from (split conformal).
//!
//! Of every step of every target it is measured how far outcomes lay from what was said of them, in user
//! units. Of `n` such distances the `ceil((n + 1) level)`-th smallest is what is put around a forecast:
//! if windows to come are like those, the share of outcomes inside is `level` at least, however wrong the
//! model is (Vovk et al. 2005; Lei et al. 2018). A model of quantiles has an interval already; its
//! distances are from the nearer end of that, below 0 inside, so that only its ends are moved (Romano et
//! al. 2019). No outcome of a window that is forecast is looked at.

use crate::error::PredictError;
use millstream_data::{Heads, MEDIAN};

/// A level may be written with rounding in it: 0.55 of 100 is not the 56th.
const ROUNDING: f64 = 1e-9;

/// Intervals that are being calibrated: how far outcomes lay from what was said of them.
#[derive(Debug)]
pub(crate) struct Calibration {
    levels: Vec<Level>,
    targets: Vec<String>,
    horizon: usize,
}

/// The distances of one level.
#[derive(Debug)]
struct Level {
    level: f64,
    ends: Ends,
    /// By target and step.
    distances: Vec<Vec<f64>>,
}

/// What an interval is put around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    /// The head at its lower end.
    lower: usize,
    /// That at its upper end.
    upper: usize,
    /// That which lies in it in any case.
    forecast: usize,
}

/// A calibrated interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    ends: Ends,
    horizon: usize,
    /// By target and step: how far it goes beyond its ends.
    margins: Vec<f64>,
}

impl Calibration {
    /// Intervals of these levels around the forecasts of a model with such heads.
    ///
    /// # Errors
    /// A level is not between 0 and 1, or outputs have no unit to measure a distance in.
    pub(crate) fn new(
        levels: &[f64],
        heads: &Heads,
        targets: &[String],
        horizon: usize,
    ) -> Result<Self, PredictError> {
        if let Heads::Logit | Heads::Score = heads {
            let what = if let Heads::Score = heads { "scores" } else { "probabilities" };
            return Err(PredictError::NoIntervals { what });
        }
        let level = |&level: &f64| {
            if !(level > 0.0 && level < 1.0) {
                return Err(PredictError::IntervalLevel { level });
            }
            let distances = vec![Vec::new(); targets.len() * horizon];
            Ok(Level { level, ends: Ends::of(heads, level), distances })
        };
        let levels = levels.iter().map(level).collect::<Result<_, _>>()?;
        Ok(Calibration { levels, targets: targets.to_vec(), horizon })
    }

    /// Measures what the heads have said of a target, `[heads][windows * horizon]`, against what came; NaN is
    /// not known.
    pub(crate) fn measure(
        &mut self,
        target: usize,
        said: &[Vec<f32>],
        outcomes: impl Iterator<Item = f32>,
    ) {
        let horizon = self.horizon;
        for (at, outcome) in outcomes.enumerate().filter(|(_, outcome)| outcome.is_finite()) {
            let outcome = f64::from(outcome);
            for Level { ends, distances, .. } in &mut self.levels {
                let [lower, upper] = [ends.lower, ends.upper].map(|head| f64::from(said[head][at]));
                let distance = (lower - outcome).max(outcome - upper);
                if distance.is_finite() {
                    distances[target * horizon + at % horizon].push(distance);
                }
            }
        }
    }

    /// The intervals, once all has been measured.
    ///
    /// # Errors
    /// There are fewer outcomes than a level needs.
    pub(crate) fn finish(self) -> Result<Vec<Interval>, PredictError> {
        let Calibration { levels, targets, horizon } = self;
        let interval = |Level { level, ends, distances }: Level| {
            let margins = distances.into_iter().enumerate().map(|(column, mut distances)| {
                margin(&mut distances, level).ok_or_else(|| PredictError::TooFewToCalibrate {
                    level,
                    target: targets[column / horizon].clone(),
                    step: column % horizon + 1,
                    found: distances.len(),
                    needed: needed(level),
                })
            });
            Ok(Interval { ends, horizon, margins: margins.collect::<Result<_, _>>()? })
        };
        levels.into_iter().map(interval).collect()
    }
}

/// Which of so many distances, from the smallest on, covers this share of others like these.
fn rank(count: usize, level: f64) -> usize {
    let rank = ((count + 1) as f64 * level - ROUNDING).ceil() as usize;
    rank.max(1)
}

/// The distance that does.
fn margin(distances: &mut [f64], level: f64) -> Option<f64> {
    let at = rank(distances.len(), level) - 1;
    (at < distances.len()).then(|| *distances.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// How many distances a level needs: so many that the one to take is among them.
fn needed(level: f64) -> usize {
    let least = (level / (1.0 - level)).floor() as usize;
    // Rounding may have taken it one or two too low.
    (least.saturating_sub(1).max(1)..=least.saturating_add(2))
        .find(|count| rank(*count, level) <= *count)
        .unwrap_or(least)
}

impl Ends {
    /// Of quantiles the two that are nearest to the ends of the interval, on either side of the median;
    /// else the forecast itself.
    fn of(heads: &Heads, level: f64) -> Self {
        let (quantiles, forecast) = (heads.quantiles(), heads.forecast());
        let nearest = |wanted: f64, on_side: fn(f64) -> bool| {
            let side = quantiles.iter().enumerate().filter(|(_, quantile)| on_side(**quantile));
            let distance = |quantile: f64| (quantile - wanted).abs();
            side.min_by(|(_, a), (_, b)| distance(**a).total_cmp(&distance(**b))).map(|(at, _)| at)
        };
        let lower = nearest((1.0 - level) / 2.0, |quantile| quantile < MEDIAN);
        let upper = nearest((1.0 + level) / 2.0, |quantile| quantile > MEDIAN);
        match (lower, upper) {
            (Some(lower), Some(upper)) => Ends { lower, upper, forecast },
            _ => Ends { lower: forecast, upper: forecast, forecast },
        }
    }
}

impl Interval {
    /// Its ends around what the heads say of a target, `[heads][windows * horizon]`.
    pub(crate) fn ends(&self, target: usize, said: &[Vec<f32>]) -> [Vec<f32>; 2] {
        let Ends { lower, upper, forecast } = self.ends;
        let margins = &self.margins[target * self.horizon..][..self.horizon];
        let end = |head: usize, sign: f64| {
            let values = said[head].iter().zip(margins.iter().cycle());
            values.map(move |(value, margin)| (f64::from(*value) + sign * margin) as f32)
        };
        // Where quantiles are too far apart their ends move inwards, but not past each other.
        let lower = end(lower, -1.0).zip(&said[forecast]).map(|(end, forecast)| end.min(*forecast));
        let upper = end(upper, 1.0).zip(&said[forecast]).map(|(end, forecast)| end.max(*forecast));
        [lower.collect(), upper.collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;

    fn calibration(levels: &[f64], heads: &Heads, horizon: usize) -> Calibration {
        Calibration::new(levels, heads, &["y".to_owned()], horizon).unwrap()
    }

    #[test]
    fn the_rank_is_that_of_one_window_more() {
        let check = |count: usize, level: f64, expected: Option<f64>| {
            let mut distances: Vec<f64> =
                (1..=count).rev().map(|distance| distance as f64).collect();
            assert_eq!(margin(&mut distances, level), expected, "{level} of {count}");
        };
        check(9, 0.9, Some(9.0));
        check(8, 0.9, None);
        check(99, 0.9, Some(90.0));
        check(99, 0.55, Some(55.0));
        check(100, 0.9, Some(91.0));
        check(1, 0.5, Some(1.0));
        check(0, 0.5, None);
        for (level, expected) in
            [(0.9, 9), (0.99, 99), (0.8, 4), (0.5, 1), (0.1, 1), (0.9999, 9999)]
        {
            assert_eq!(needed(level), expected, "{level}");
            let mut distances = vec![1.0; expected];
            assert!(margin(&mut distances, level).is_some());
            assert!(expected == 1 || margin(&mut distances[1..], level).is_none());
        }
    }

    #[test]
    fn distances_are_of_each_step_and_unknown_outcomes_are_none() {
        let mut calibration = calibration(&[0.5], &Heads::Value, 2);
        let said = [vec![1.0, 10.0, 2.0, 20.0, 3.0, 30.0]];
        let outcomes = [1.5, 12.0, f32::NAN, 15.0, 2.0, 31.0];
        calibration.measure(0, &said, outcomes.into_iter());
        let [interval] = &calibration.finish().unwrap()[..] else { panic!("of one level") };
        assert_eq!(interval.margins, [1.0, 2.0]);
        let [lower, upper] = interval.ends(0, &[vec![5.0, 50.0, 6.0, 60.0]]);
        assert_eq!(lower, [4.0, 48.0, 5.0, 58.0]);
        assert_eq!(upper, [6.0, 52.0, 7.0, 62.0]);
    }

    #[test]
    fn too_few_are_refused_with_the_number_that_is_needed() {
        let mut calibration = calibration(&[0.5, 0.9], &Heads::Value, 1);
        calibration.measure(0, &[vec![0.0; 8]], [1.0; 8].into_iter());
        let error = calibration.finish().unwrap_err().to_string();
        let expected = "an interval of 0.9 needs 9 validation windows with a known outcome, and y, step 1 has 8";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn what_has_no_unit_and_what_is_no_level_is_refused() {
        let refused = |level, heads| {
            let error = Calibration::new(&[level], &heads, &["y".to_owned()], 1).unwrap_err();
            error.to_string()
        };
        assert!(refused(0.9, Heads::Score).contains("scores have no units"));
        assert!(refused(0.9, Heads::Logit).contains("probabilities have no units"));
        for level in [0.0, 1.0, 90.0, f64::NAN] {
            assert!(refused(level, Heads::Value).contains("between 0 and 1"), "{level}");
        }
    }

    #[test]
    fn quantiles_are_moved_to_their_level() {
        let heads = Heads::Quantiles(vec![0.1, 0.25, 0.5, 0.9]);
        assert_eq!(Ends::of(&heads, 0.9), Ends { lower: 0, upper: 3, forecast: 2 });
        assert_eq!(Ends::of(&heads, 0.5), Ends { lower: 1, upper: 3, forecast: 2 });
        let median = Heads::Quantiles(vec![0.5, 0.9]);
        assert_eq!(Ends::of(&median, 0.9), Ends { lower: 0, upper: 0, forecast: 0 });
        // Far too wide: the ends move inwards, but not past the forecast.
        let mut calibration = calibration(&[0.5], &heads, 1);
        let wide = |at: f32| vec![vec![at - 100.0], vec![at - 100.0], vec![at], vec![at + 100.0]];
        for outcome in [-2.0, -1.0, 0.0, 1.0, 2.0] {
            calibration.measure(0, &wide(0.0), std::iter::once(outcome));
        }
        let [interval] = &calibration.finish().unwrap()[..] else { panic!("of one level") };
        assert_eq!(interval.margins, [-99.0]);
        assert_eq!(interval.ends(0, &wide(7.0)), [[6.0], [8.0]]);
        let narrow = [vec![6.0], vec![6.5], vec![7.0], vec![7.5]];
        assert_eq!(interval.ends(0, &narrow), [[7.0], [7.0]]);
    }

    /// The promise: whatever the forecasts, at least so many of the outcomes to come lie inside.
    #[test]
    fn so_many_lie_inside() {
        let mut random = SplitMix64::new(11);
        let mut draw = || {
            let noise: f32 = (0..4).map(|_| random.uniform(1.0)).sum();
            (noise * 0.1, noise * noise * noise + 0.3)
        };
        for level in [0.5, 0.8, 0.9] {
            let mut inside = 0;
            for _ in 0..400 {
                let mut calibration = calibration(&[level], &Heads::Value, 1);
                for _ in 0..39 {
                    let (said, came) = draw();
                    calibration.measure(0, &[vec![said]], std::iter::once(came));
                }
                let interval = calibration.finish().unwrap().swap_remove(0);
                for _ in 0..10 {
                    let (said, came) = draw();
                    let [lower, upper] = interval.ends(0, &[vec![said]]);
                    inside += usize::from((lower[0]..=upper[0]).contains(&came));
                }
            }
            let share = inside as f64 / 4000.0;
            assert!(share > level - 0.02 && share < level + 0.05, "{share} of {level}");
        }
    }
}
