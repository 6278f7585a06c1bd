//! Holds forecasts against outcomes, once a pass is over and its numbers are on the host.
//!
//! One column (a step of a target) after another, so that what is needed besides the kept numbers
//! is a few columns. What the figures mean is said in `metrics.rs`.

use crate::{
    correlation::Sections,
    metrics::{Figures, Sums, Tally},
};
use millstream_stage::{Fit, Plan, TargetKind};
use std::cmp::Ordering;
use tch::Tensor;

/// What a pass kept, in scaled units, as host tensors.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    /// `[horizon * targets, windows]`: what the model said.
    pub(crate) forecasts: &'a Tensor,
    /// `[horizon * targets, windows]`: what came.
    pub(crate) outcomes: &'a Tensor,
    /// `[targets, windows]`: "no change"; NaN where that is unknown.
    pub(crate) last: &'a Tensor,
    /// Series code of each window.
    pub(crate) series: &'a [u32],
    /// Time of each window's last row.
    pub(crate) times: &'a [i64],
}

/// Who forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forecaster {
    Model,
    /// Always the mean of the training rows.
    Mean,
    /// Always the last known value, or the mean where that is missing.
    Last,
}

/// A number of every window, in both units.
struct Column {
    scaled: Vec<f32>,
    raw: Vec<f64>,
}

/// One target, for all windows of a pass.
struct Target<'a> {
    kind: TargetKind,
    /// The mean of the training rows, raw.
    mean: f64,
    /// One for all series, or one each.
    fits: Vec<&'a Fit>,
    series: &'a [u32],
    /// See [`Kept::last`].
    last: Vec<f32>,
}

/// The figures of each of these forecasters.
pub(crate) fn judge(plan: &Plan, kept: &Kept<'_>, forecasters: &[Forecaster]) -> Vec<Figures> {
    let sections = Sections::new(kept.times);
    let mut tallies: Vec<Tally> = forecasters.iter().map(|_| Tally::default()).collect();
    let targets = plan.schema.targets.len();
    for (number, name) in plan.schema.targets.iter().enumerate() {
        let target = Target::new(plan, kept, number);
        for step in 0..plan.schema.horizon {
            let column = step * targets + number;
            let outcomes = target.column(values(kept.outcomes, column));
            for (forecaster, tally) in forecasters.iter().zip(&mut tallies) {
                let forecasts = match forecaster {
                    Forecaster::Model => target.column(values(kept.forecasts, column)),
                    Forecaster::Mean => target.means(),
                    Forecaster::Last => target.lasts(),
                };
                let sums = target.sums(&forecasts, &outcomes);
                let found = sections.correlate(&forecasts.raw, &outcomes.raw);
                tally.add(name, step + 1, &sums, found);
            }
        }
    }
    tallies.into_iter().map(Tally::figures).collect()
}

/// One row of a tensor on the host.
fn values(tensor: &Tensor, row: usize) -> Vec<f32> {
    let row = tensor.get(row as i64);
    let mut values = vec![0.0; row.numel()];
    row.copy_data(&mut values, row.numel());
    values
}

impl<'a> Target<'a> {
    fn new(plan: &'a Plan, kept: &Kept<'a>, number: usize) -> Self {
        let scaling = &plan.scaling;
        // Where no series has a fit of its own, any name finds that of the column.
        let names = if scaling.by_series.is_empty() {
            &[const { String::new() }][..]
        } else {
            &plan.panel.series[..]
        };
        Target {
            kind: plan.schema.target_kind,
            mean: scaling.targets[number].mean,
            fits: names.iter().map(|name| scaling.target_fit(name, number)).collect(),
            series: kept.series,
            last: values(kept.last, number),
        }
    }

    fn fit(&self, window: usize) -> &Fit {
        match self.fits[..] {
            [fit] => fit,
            _ => self.fits[self.series[window] as usize],
        }
    }

    fn column(&self, scaled: Vec<f32>) -> Column {
        let raw = scaled.iter().enumerate().map(|(window, value)| self.raw(window, *value));
        Column { raw: raw.collect(), scaled }
    }

    fn raw(&self, window: usize, scaled: f32) -> f64 {
        // Of a change, "none" is exactly 0, which rounding need not bring back.
        if self.kind != TargetKind::Value && scaled == self.last[window] {
            return 0.0;
        }
        self.fit(window).invert(f64::from(scaled))
    }

    fn means(&self) -> Column {
        let scaled = (0..self.series.len()).map(|window| self.fit(window).apply(self.mean) as f32);
        Column { scaled: scaled.collect(), raw: vec![self.mean; self.series.len()] }
    }

    fn lasts(&self) -> Column {
        let mut lasts = self.column(self.last.clone());
        for (window, scaled) in lasts.scaled.iter_mut().enumerate() {
            if scaled.is_nan() {
                *scaled = self.fit(window).apply(self.mean) as f32;
                lasts.raw[window] = self.mean;
            }
        }
        lasts
    }

    fn sums(&self, forecasts: &Column, outcomes: &Column) -> Sums {
        let mut sums = Sums { count: self.series.len() as u64, ..Sums::default() };
        for (window, last) in self.last.iter().enumerate() {
            let (forecast, outcome) = (forecasts.scaled[window], outcomes.scaled[window]);
            let error = f64::from(forecast) - f64::from(outcome);
            sums.squared += error * error;
            sums.absolute += error.abs();
            let error = forecasts.raw[window] - outcomes.raw[window];
            sums.squared_raw += error * error;
            sums.absolute_raw += error.abs();
            if let (Some(forecast), Some(outcome)) =
                (direction(forecast, *last), direction(outcome, *last))
            {
                sums.right += u64::from(forecast == outcome);
                match outcome {
                    Direction::Up => sums.rises += 1,
                    Direction::Down => sums.falls += 1,
                }
            }
        }
        sums
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// On which side of "no change" a value lies; `None` where it is neither, or nobody knows. Of changes,
/// `last` is the scaled 0, so this is the sign of the raw value.
fn direction(value: f32, last: f32) -> Option<Direction> {
    match value.partial_cmp(&last)? {
        Ordering::Greater => Some(Direction::Up),
        Ordering::Less => Some(Direction::Down),
        Ordering::Equal => None,
    }
}
