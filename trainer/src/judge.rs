//! Holds forecasts against outcomes, once a pass is over and its numbers are on the host.
//!
//! One column (a step of a target) after another, so that what is needed besides the kept numbers
//! is a few columns. What the figures mean is said in `metrics.rs`.

use crate::{
    correlation::Sections,
    metrics::{Figures, Sums, Tally},
    pass::RawOutcomes,
    quantile_figures::{InBothUnits, QuantileSums},
};
use millstream_data::{Fit, Heads, Plan, TargetKind, level_after};
use std::cmp::Ordering;
use tch::Tensor;

/// What a pass kept, in scaled units, as host tensors.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    /// `[horizon * targets * heads, windows]`: what the model said.
    pub(crate) forecasts: &'a Tensor,
    /// What that stands for.
    pub(crate) heads: &'a Heads,
    /// `[horizon * targets, windows]`: what came.
    pub(crate) outcomes: &'a Tensor,
    /// `[horizon * targets, windows]`: what the linear forecast says, where it is asked.
    pub(crate) ridge: Option<&'a Tensor>,
    /// `[targets, windows]`: "no change"; NaN where that is unknown.
    pub(crate) last: &'a Tensor,
    /// These two in user units, and what came a season before. Whoever makes his own batches may leave them
    /// out; they are then brought back from what is scaled.
    pub(crate) raw: &'a RawOutcomes,
    /// Series code of each window.
    pub(crate) series: &'a [u32],
    /// Time of each window's last row.
    pub(crate) times: &'a [i64],
}

/// Who forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forecaster {
    Model,
    /// Always the mean of the training rows, those of its series where it is scaled by itself.
    Mean,
    /// Always the last known value, or that mean where there was none.
    Last,
    /// Always what came a season before, or as `Last` where nobody knows.
    Season,
    /// The linear forecast of the plan.
    Ridge,
}

/// A number of every window, in both units.
#[derive(Clone)]
struct Column {
    scaled: Vec<f32>,
    raw: Vec<f64>,
}

/// One target, for all windows of a pass.
struct Target<'a> {
    kind: TargetKind,
    /// The mean of the training rows, raw, and the scaling: one for all series, or one each.
    units: Vec<(f64, &'a Fit)>,
    series: &'a [u32],
    /// See [`Kept::last`].
    last: Column,
    /// Of kind `difference` the levels that changes count from, where the batches say them. Numbers in
    /// user units are then differences all the same: of a forecast that between the level which the file
    /// of forecasts holds and this one.
    levels: Vec<f64>,
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
            let outcomes = target.given(values(kept.outcomes, column), &kept.raw.outcomes, column);
            for (forecaster, tally) in forecasters.iter().zip(&mut tallies) {
                let said = Said::by(*forecaster, &target, kept, column);
                let sums = said.sums(&target, &outcomes);
                let found = sections.correlate(&said.forecast().raw, &outcomes.raw);
                tally.add(name, step + 1, &sums, found);
            }
        }
    }
    tallies.into_iter().map(Tally::figures).collect()
}

/// What one forecaster says of one step of a target.
struct Said<'a> {
    /// By head.
    columns: Vec<Column>,
    heads: &'a Heads,
}

impl<'a> Said<'a> {
    fn by(forecaster: Forecaster, target: &Target<'_>, kept: &Kept<'a>, column: usize) -> Said<'a> {
        let one = |column: Column| Said { columns: vec![column], heads: &Heads::Value };
        match forecaster {
            Forecaster::Model => {
                let heads = kept.heads;
                let places = column * heads.count()..(column + 1) * heads.count();
                let scaled = places.map(|place| values(kept.forecasts, place));
                let columns = if heads.have_units() {
                    scaled.map(|scaled| target.column(scaled)).collect()
                } else {
                    scaled.map(Column::without_unit).collect()
                };
                Said { columns, heads }
            }
            Forecaster::Mean => one(target.means()),
            Forecaster::Last => one(target.lasts()),
            Forecaster::Season => one(target.a_season_before(&kept.raw.season, column)),
            Forecaster::Ridge => {
                let said = kept.ridge.expect("asked where there is one");
                one(target.column(values(said, column)))
            }
        }
    }

    /// What is held against an outcome.
    fn forecast(&self) -> &Column {
        &self.columns[self.heads.forecast()]
    }

    fn sums(&self, target: &Target<'_>, outcomes: &Column) -> Sums {
        // A score is neither near to an outcome nor on one side of it.
        if !self.heads.have_units() {
            return Sums::default();
        }
        let mut quantiles = QuantileSums::new(self.heads.quantiles());
        if !self.heads.quantiles().is_empty() {
            for window in 0..outcomes.raw.len() {
                let said = self.columns.iter().map(|column| column.at(window));
                quantiles.count(outcomes.at(window), said);
            }
        }
        Sums { quantiles, ..target.sums(self.forecast(), outcomes) }
    }
}

impl Column {
    fn at(&self, window: usize) -> InBothUnits {
        InBothUnits { scaled: self.scaled[window], raw: self.raw[window] }
    }

    /// Of scores, which are as they are.
    fn without_unit(scaled: Vec<f32>) -> Column {
        Column { raw: scaled.iter().map(|score| f64::from(*score)).collect(), scaled }
    }
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
        let unit =
            |name: &String| (scaling.target_mean(name, number), scaling.target_fit(name, number));
        // Where no series has a fit of its own, any name finds that of the column.
        let names = if scaling.by_series.is_empty() {
            &[const { String::new() }][..]
        } else {
            &plan.panel.series[..]
        };
        let mut target = Target {
            kind: plan.schema.target_kind,
            units: names.iter().map(unit).collect(),
            series: kept.series,
            last: Column { scaled: values(kept.last, number), raw: Vec::new() },
            levels: Vec::new(),
        };
        let last = target.last.scaled.clone();
        if target.kind == TargetKind::Difference {
            target.levels = target.as_told(&kept.raw.last, number).unwrap_or_default();
            target.last = Column { raw: vec![0.0; last.len()], scaled: last };
        } else {
            target.last = target.given(last, &kept.raw.last, number);
        }
        target
    }

    /// The mean and the scaling of a window's series.
    fn unit(&self, window: usize) -> (f64, &Fit) {
        match self.units[..] {
            [unit] => unit,
            _ => self.units[self.series[window] as usize],
        }
    }

    fn column(&self, scaled: Vec<f32>) -> Column {
        let raw = scaled.iter().enumerate().map(|(window, value)| self.raw(window, *value));
        Column { raw: raw.collect(), scaled }
    }

    /// What column `at` of the batches was before it was scaled, if they say so.
    fn given(&self, scaled: Vec<f32>, raw: &[f32], at: usize) -> Column {
        let told = match self.as_told(raw, at) {
            Some(levels) if self.kind == TargetKind::Difference => {
                // Without the levels that they count from, levels say nothing of changes.
                let changes = levels.iter().zip(&self.levels).map(|(level, last)| level - last);
                Some(changes.collect()).filter(|_| levels.len() == self.levels.len())
            }
            told => told,
        };
        match told {
            Some(raw) => Column { raw, scaled },
            None => self.column(scaled),
        }
    }

    /// Column `at` of what the batches say in user units, if they do.
    fn as_told(&self, raw: &[f32], at: usize) -> Option<Vec<f64>> {
        let width = raw.len() / self.series.len().max(1);
        let told = width > 0 && width * self.series.len() == raw.len();
        let raw = raw.iter().skip(at).step_by(width.max(1)).map(|value| f64::from(*value));
        told.then(|| raw.collect())
    }

    fn raw(&self, window: usize, scaled: f32) -> f64 {
        let change = self.unscaled(window, scaled);
        match self.levels.get(window) {
            Some(last) => f64::from(level_after(*last as f32, change)) - last,
            None => change,
        }
    }

    fn unscaled(&self, window: usize, scaled: f32) -> f64 {
        // "No change" is exactly that, which rounding need not bring back.
        if scaled == self.last.scaled[window] {
            match self.last.raw.get(window) {
                Some(last) => return *last,
                None if self.kind != TargetKind::Value => return 0.0,
                None => {}
            }
        }
        self.unit(window).1.invert(f64::from(scaled))
    }

    fn means(&self) -> Column {
        let units = (0..self.series.len()).map(|window| self.unit(window));
        let (scaled, raw) = units.map(|(mean, fit)| (fit.apply(mean) as f32, mean)).unzip();
        Column { scaled, raw }
    }

    fn lasts(&self) -> Column {
        let mut lasts = self.last.clone();
        for (window, scaled) in lasts.scaled.iter_mut().enumerate() {
            if scaled.is_nan() {
                let (mean, fit) = self.unit(window);
                (*scaled, lasts.raw[window]) = (fit.apply(mean) as f32, mean);
            }
        }
        lasts
    }

    /// `season` is `[windows, horizon * targets]`, in user units; NaN where nobody knows. Of differences it
    /// has levels, too.
    fn a_season_before(&self, season: &[f32], at: usize) -> Column {
        let mut said = self.lasts();
        for (window, raw) in self.as_told(season, at).into_iter().flatten().enumerate() {
            let raw = match self.kind {
                TargetKind::Difference => raw - self.levels.get(window).unwrap_or(&f64::NAN),
                _ => raw,
            };
            if !raw.is_nan() {
                said.scaled[window] = self.unit(window).1.apply_f32(raw as f32);
                said.raw[window] = raw;
            }
        }
        said
    }

    fn sums(&self, forecasts: &Column, outcomes: &Column) -> Sums {
        let mut sums = Sums { count: self.series.len() as u64, ..Sums::default() };
        for (window, last) in self.last.raw.iter().enumerate() {
            let (forecast, outcome) = (forecasts.scaled[window], outcomes.scaled[window]);
            let error = f64::from(forecast) - f64::from(outcome);
            sums.squared += error * error;
            sums.absolute += error.abs();
            let (forecast, outcome) = (forecasts.raw[window], outcomes.raw[window]);
            let error = forecast - outcome;
            sums.squared_raw += error * error;
            sums.absolute_raw += error.abs();
            if let (Some(forecast), Some(outcome)) =
                (direction(forecast, *last), direction(outcome, *last))
            {
                let right = u64::from(forecast == outcome);
                match outcome {
                    Direction::Up => {
                        sums.rises += 1;
                        sums.right_rises += right;
                    }
                    Direction::Down => {
                        sums.falls += 1;
                        sums.right_falls += right;
                    }
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
/// `last` is 0, so this is the sign of the value. As `f32`, which is what a file of forecasts holds.
fn direction(value: f64, last: f64) -> Option<Direction> {
    match (value as f32).partial_cmp(&(last as f32))? {
        Ordering::Greater => Some(Direction::Up),
        Ordering::Less => Some(Direction::Down),
        Ordering::Equal => None,
    }
}
