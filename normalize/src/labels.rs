//! Labels: what a window forecasts, by row.
//!
//! Of kind `value` a row holds its targets, and a window's labels are the rows after it. The other
//! kinds compare a later row with the window's last one, or with the one `delay` rows after that; their
//! row holds the labels of the window that ends there, all steps of it. A missing label is NaN and
//! never becomes a number.

use crate::{
    cross_section::TimeIndex, moments::is_known, panel_rows::SeriesRows, prefetch_hints,
    split::SplitPart,
};
use millstream_data::{CrossSection, DataSchema, Fit, PanelSchema, Scaling, TargetKind};
use rayon::prelude::*;

/// Values that one task looks at.
const TASK: usize = 1 << 14;

/// The labels of every row.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    pub(crate) targets: usize,
    kind: TargetKind,
    horizon: usize,
    /// Rows between the one that a window ends at and the one that its labels compare others with.
    delay: usize,
    /// `[rows, targets]`, or `[rows, horizon, targets]` where a row holds its window's labels.
    values: Vec<f32>,
    /// What "no change" is, by target, or by series and target; empty for values.
    unchanged: Vec<f32>,
    /// Of values, `[rows, targets]`: each where it was last known; empty where none is missing.
    last_known: Vec<f32>,
}

impl Labels {
    /// The target columns of every row themselves, whatever of them is forecast.
    pub(crate) fn levels(
        columns: Vec<f32>,
        series: &[SeriesRows],
        targets: usize,
        horizon: usize,
    ) -> Self {
        let mut labels = Labels {
            targets,
            kind: TargetKind::Value,
            horizon,
            delay: 0,
            values: columns,
            unchanged: Vec::new(),
            last_known: Vec::new(),
        };
        labels.values.par_iter_mut().with_min_len(TASK).for_each(|value| *value = known(*value));
        labels.find_last_known(series);
        labels
    }

    /// In raw units. `columns` are the target columns of every row.
    pub(crate) fn raw(
        columns: Vec<f32>,
        series: &[SeriesRows],
        times: &[i64],
        targets: usize,
        schema: &DataSchema,
        cross_section: CrossSection,
    ) -> Self {
        let mut labels = Labels {
            targets,
            kind: schema.target_kind,
            horizon: schema.horizon,
            delay: schema.delay,
            values: columns,
            unchanged: Vec::new(),
            last_known: Vec::new(),
        };
        if labels.kind == TargetKind::Value {
            labels
                .values
                .par_iter_mut()
                .with_min_len(TASK)
                .for_each(|value| *value = known(*value));
        } else {
            labels.values = outcomes(&labels.values, series, targets, schema);
            labels.unchanged = vec![0.0; targets];
        }
        if cross_section != CrossSection::None {
            labels.cross(series, times, cross_section);
        }
        labels.find_last_known(series);
        labels
    }

    /// Looks up, for every row, what a missing value was when it was last there.
    fn find_last_known(&mut self, series: &[SeriesRows]) {
        if self.kind != TargetKind::Value || self.values.par_iter().all(|value| !value.is_nan()) {
            return;
        }
        let mut last_known = self.values.clone();
        let targets = self.targets;
        by_series(&mut last_known, series, targets).into_par_iter().for_each(|(_, values)| {
            for at in targets..values.len() {
                if values[at].is_nan() {
                    values[at] = values[at - targets];
                }
            }
        });
        self.last_known = last_known;
    }

    /// Values of one row.
    fn width(&self) -> usize {
        match self.kind {
            TargetKind::Value => self.targets,
            _ => self.horizon * self.targets,
        }
    }

    fn cross(&mut self, series: &[SeriesRows], times: &[i64], kind: CrossSection) {
        let width = self.width();
        for step in 0..width / self.targets {
            let index = match self.kind {
                TargetKind::Value => TimeIndex::new(times),
                // Outcomes compete with those of the same two times. Where series have gaps, one
                // step ends at several times, and a label of the training part must not depend on
                // an outcome beyond it.
                _ => TimeIndex::new(&outcome_times(series, times, self.delay, step)),
            };
            for at in step * self.targets..(step + 1) * self.targets {
                let column = self.values.iter().skip(at).step_by(width);
                let mut column: Vec<f32> = column.copied().collect();
                index.cross(&mut column, kind);
                let places = self.values.iter_mut().skip(at).step_by(width);
                places.zip(column).for_each(|(to, value)| *to = value);
            }
        }
    }

    /// Scales every label. Series without fits of their own take the columns'.
    pub(crate) fn scale(
        mut self,
        series: &[SeriesRows],
        names: &PanelSchema,
        scaling: &Scaling,
    ) -> Self {
        let (width, targets) = (self.width(), self.targets);
        let fits = |code: u32| -> Vec<&Fit> {
            let name = &names.series[code as usize];
            (0..targets).map(|target| scaling.target_fit(name, target)).collect()
        };
        by_series(&mut self.values, series, width).into_par_iter().for_each(|(series, values)| {
            let fits = fits(series.code);
            for values in values.chunks_exact_mut(targets) {
                for (value, fit) in values.iter_mut().zip(&fits) {
                    *value = known(fit.apply_f32(*value));
                }
            }
        });
        self.find_last_known(series);
        if self.kind != TargetKind::Value {
            let codes = 0..names.series.len() as u32;
            let unchanged = |fit: &Fit| fit.apply_f32(0.0);
            self.unchanged = if scaling.by_series.is_empty() {
                scaling.targets.iter().map(|target| unchanged(&target.fit)).collect()
            } else {
                codes.flat_map(|code| fits(code).into_iter().map(unchanged)).collect()
            };
        }
        self
    }

    /// Asks for what [`copy`](Self::copy) and [`last`](Self::last) of this row will want.
    pub(crate) fn prefetch(&self, row: usize) {
        prefetch_hints::touch(&self.values[row * self.width()]);
    }

    /// The labels of the window that ends at `row` of a series that ends at `series_end`; those
    /// past the end of the series are NaN.
    pub(crate) fn copy(&self, row: usize, series_end: usize, out: &mut [f32]) {
        match self.kind {
            TargetKind::Value => {
                let ahead = self.horizon.min(series_end - row - 1);
                let (outcomes, future) = out.split_at_mut(ahead * self.targets);
                let start = (row + 1) * self.targets;
                outcomes.copy_from_slice(&self.values[start..start + outcomes.len()]);
                future.fill(f32::NAN);
            }
            _ => {
                // The series may be known less far than it goes.
                let ahead = series_end.saturating_sub(row + 1).saturating_sub(self.delay);
                let ahead = self.horizon.min(ahead) * self.targets;
                let (outcomes, future) = out.split_at_mut(ahead);
                outcomes.copy_from_slice(&self.values[row * self.width()..][..ahead]);
                future.fill(f32::NAN);
            }
        }
    }

    /// What came a season before the labels of the window that ends at `row`: those of the window that
    /// ended a season earlier, or as many seasons as it takes for all of a step to be known by `row`.
    /// NaN before `start`, the first row of the series.
    pub(crate) fn season_before(&self, row: usize, start: usize, season: usize, out: &mut [f32]) {
        let per_row = self.width();
        for (step, out) in out.chunks_exact_mut(self.targets).enumerate() {
            let ahead = step + 1;
            let back = self.delay.saturating_add(ahead).div_ceil(season).saturating_mul(season);
            // Of values the row that was forecast then, else the row that it was forecast from, which
            // holds all steps.
            let (row, column) = match self.are_at_window() {
                false => (row + ahead, 0),
                true => (row, step * self.targets),
            };
            match row.checked_sub(back).filter(|from| *from >= start) {
                Some(from) => {
                    let labels = &self.values[from * per_row + column..][..self.targets];
                    out.copy_from_slice(labels);
                }
                None => out.fill(f32::NAN),
            }
        }
    }

    /// What a naive forecast of the window that ends at `row` says: nothing changes.
    pub(crate) fn last(&self, row: usize, series: u32) -> &[f32] {
        match self.kind {
            TargetKind::Value => {
                let values =
                    if self.last_known.is_empty() { &self.values } else { &self.last_known };
                &values[row * self.targets..][..self.targets]
            }
            _ if self.unchanged.len() == self.targets => &self.unchanged,
            _ => &self.unchanged[series as usize * self.targets..][..self.targets],
        }
    }

    /// By row: whether nothing is known that a window which ends there could count a change from. Empty
    /// for "none is without".
    pub(crate) fn without_level(&self) -> Vec<bool> {
        let levels = if self.last_known.is_empty() { return Vec::new() } else { &self.last_known };
        let rows = levels.par_chunks_exact(self.targets);
        rows.map(|row| row.iter().any(|value| value.is_nan())).collect()
    }

    /// By row: whether a window with a label there misses it. Of kind `value` that is any window
    /// that forecasts this row, else the one that ends at it.
    pub(crate) fn missing(&self) -> Vec<bool> {
        let rows = self.values.par_chunks_exact(self.width());
        rows.map(|row| row.iter().any(|value| value.is_nan())).collect()
    }

    /// Whether the labels of a window stand in the row it ends at.
    pub(crate) fn are_at_window(&self) -> bool {
        self.kind != TargetKind::Value
    }

    /// The known labels of one target that lie in `part` as a whole, by series.
    pub(crate) fn of_part<'a>(
        &'a self,
        target: usize,
        series: &SeriesRows,
        times: &'a [i64],
        part: &'a SplitPart,
    ) -> impl Iterator<Item = f32> + 'a {
        let (start, end) = (series.start, series.end);
        // Rows from the one that holds a label to its first outcome, and to its last.
        let (first, last) = match self.kind {
            TargetKind::Value => (0, 0),
            _ => (self.delay.saturating_add(1), self.delay.saturating_add(self.horizon)),
        };
        let inside = part.has_series(series.code);
        let rows = start..if inside { end.saturating_sub(last).max(start) } else { start };
        rows.filter(move |&row| {
            part.span.from <= times[row + first] && times[row + last] < part.span.until
        })
        .flat_map(move |row| {
            let row = &self.values[row * self.width()..][..self.width()];
            row.iter().skip(target).step_by(self.targets).copied()
        })
        .filter(|value| is_known(*value))
    }
}

/// By row, all steps of the window that ends there: how later rows differ from the one `delay` rows on.
fn outcomes(
    columns: &[f32],
    series: &[SeriesRows],
    targets: usize,
    schema: &DataSchema,
) -> Vec<f32> {
    let width = schema.horizon * targets;
    let mut outcomes = vec![f32::NAN; columns.len() * schema.horizon];
    let of = |base: f32, later: f32| match schema.target_kind {
        TargetKind::Direction => direction(change(base, later), schema.dead_band),
        TargetKind::Difference => difference(base, later),
        TargetKind::Value | TargetKind::Return => known(change(base, later) as f32),
    };
    by_series(&mut outcomes, series, width).into_par_iter().for_each(|(series, out)| {
        let rows = &columns[series.start * targets..series.end * targets];
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            // Past the end of the series it stays NaN.
            let base = row.saturating_add(schema.delay).saturating_mul(targets);
            let Some((base, later)) =
                rows.get(base..).and_then(|rows| rows.split_at_checked(targets))
            else {
                break;
            };
            for (out, later) in out.chunks_exact_mut(targets).zip(later.chunks_exact(targets)) {
                for ((out, base), later) in out.iter_mut().zip(base).zip(later) {
                    *out = of(*base, *later);
                }
            }
        }
    });
    outcomes
}

/// By row of a window's end: the two times that its label compares, that of the row `delay` rows on
/// and that of the outcome `step + 1` rows after it. An outcome past the end of its series is missing,
/// whatever its time.
fn outcome_times(
    series: &[SeriesRows],
    times: &[i64],
    delay: usize,
    step: usize,
) -> Vec<(i64, i64)> {
    let rows =
        series.iter().flat_map(|series| (series.start..series.end).map(|row| (row, series.end)));
    let base = rows.map(|(row, end)| (row.saturating_add(delay), end));
    let time = |row: usize, end: usize| times[row.min(end - 1)];
    base.map(|(row, end)| (time(row, end), time(row.saturating_add(step + 1), end))).collect()
}

/// The values of each series, `width` a row.
fn by_series<'a, 'v>(
    values: &'v mut [f32],
    series: &'a [SeriesRows],
    width: usize,
) -> Vec<(&'a SeriesRows, &'v mut [f32])> {
    let mut rest = values;
    let cut = |series: &'a SeriesRows| {
        let (own, others) =
            std::mem::take(&mut rest).split_at_mut((series.end - series.start) * width);
        rest = others;
        (series, own)
    };
    series.iter().map(cut).collect()
}

fn known(value: f32) -> f32 {
    if is_known(value) { value } else { f32::NAN }
}

/// The change from `base` to `later` as a share of `base`; NaN where that is no number. In f64, so
/// that a change of just the dead band is not rounded out of it.
fn change(base: f32, later: f32) -> f64 {
    if base == 0.0 || !is_known(base) || !is_known(later) {
        return f64::NAN;
    }
    (f64::from(later) - f64::from(base)) / f64::from(base).abs()
}

/// The change from `base` to `later`; NaN where that is no number.
fn difference(base: f32, later: f32) -> f32 {
    if !is_known(base) || !is_known(later) {
        return f32::NAN;
    }
    known((f64::from(later) - f64::from(base)) as f32)
}

fn direction(change: f64, dead_band: f64) -> f32 {
    match change {
        change if change.is_nan() => f32::NAN,
        change if change > dead_band => 1.0,
        change if change < -dead_band => -1.0,
        _ => 0.0,
    }
}
