//! The slow, obvious reference: every value of a batch from its definition, one at a time.
//!
//! It takes the fitted numbers as given (`fits.rs` has its own for them), so that what is affine
//! can be compared bit for bit; nothing else here knows how the crate does it.

use crate::{curves, support::Table};
use millstream_data::{
    CrossSection, Curve, Fit, Missing, Reference, Relative, Scaling, TargetKind,
};
use millstream_normalize::{
    FitSettings, LeftOut, ScaleGroup, ScaleMethod, ScalePer, ShortSeries, Split, SplitPart,
};

/// What is known of a cell: `None` where it is missing.
type Cell = Option<f32>;

/// By series, row and column (of labels: row, step and target).
type Cells = Vec<Vec<Vec<Cell>>>;

/// One window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) series: usize,
    /// First and last row that is there, within the series.
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// How a column is treated, groups looked through.
#[derive(Debug, Clone)]
pub(crate) struct Treatment {
    pub(crate) method: ScaleMethod,
    pub(crate) per: ScalePer,
    pub(crate) clip: f64,
    pub(crate) cross_section: CrossSection,
    pub(crate) reference: Reference,
    pub(crate) relative: Relative,
}

/// A value that should be in a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    value: f32,
    /// Made by the same f32 arithmetic: the bits must be equal.
    exact: bool,
}

impl Expected {
    pub(crate) fn is(self, found: f32) -> bool {
        let Expected { value, exact } = self;
        let near = (value - found).abs() <= 1e-5 * value.abs().max(1.0);
        value.to_bits() == found.to_bits() || (value.is_nan() && found.is_nan()) || !exact && near
    }
}

#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub(crate) table: &'a Table,
    pub(crate) settings: &'a FitSettings,
    /// Input columns.
    pub(crate) features: Vec<usize>,
    /// Target columns.
    pub(crate) targets: Vec<usize>,
    raw: Cells,
    crossed: Cells,
    labels: Cells,
}

fn known(value: f32) -> Cell {
    value.is_finite().then_some(value)
}

impl<'a> Model<'a> {
    pub(crate) fn new(table: &'a Table, settings: &'a FitSettings) -> Self {
        let segment = settings.window.segment.as_ref();
        let is_feature = |at: &usize| segment != Some(&table.columns[*at]);
        let row = |(_, values): &(i64, Vec<f32>)| values.iter().map(|x| known(*x)).collect();
        let mut model = Model {
            table,
            settings,
            features: (0..table.inputs).filter(is_feature).collect(),
            targets: settings.target.columns.iter().map(|name| table.column(name)).collect(),
            raw: table.series.iter().map(|rows| rows.iter().map(row).collect()).collect(),
            crossed: Vec::new(),
            labels: Vec::new(),
        };
        model.crossed = model.each(table.columns.len(), |series, row, at| {
            let kind = model.treatment(at).cross_section;
            let of = |other: usize, row: usize| model.raw[other][row][at];
            model.cross(kind, of(series, row), &model.at_time(model.time(series, row), of))
        });
        model.labels = model.each(model.horizon() * model.targets.len(), |series, row, at| {
            let (step, target) = (at / model.targets.len(), at % model.targets.len());
            let kind = settings.target.cross_section;
            let own = model.outcome(series, row, step, target);
            let time = model.outcome_time(series, row, step)?;
            if settings.target.kind == TargetKind::Value {
                return model.value(series, row + step + 1, target);
            }
            // Outcomes compete with those of the same two times: what they count from, and their own.
            let base = model.base_time(series, row);
            let rows = |other: usize| (0..table.series[other].len()).map(move |row| (other, row));
            let all = (0..table.series.len()).flat_map(rows).filter(|(other, row)| {
                model.base_time(*other, *row) == base
                    && model.outcome_time(*other, *row, step) == Some(time)
            });
            let all = all.filter_map(|(other, row)| model.outcome(other, row, step, target));
            model.cross(kind, own, &all.collect::<Vec<_>>())
        });
        model
    }

    fn each(&self, width: usize, cell: impl Fn(usize, usize, usize) -> Cell) -> Cells {
        let row = |series, row| (0..width).map(|at| cell(series, row, at)).collect();
        let rows = |(i, rows): (usize, &Vec<_>)| (0..rows.len()).map(|at| row(i, at)).collect();
        self.table.series.iter().enumerate().map(rows).collect()
    }

    pub(crate) fn time(&self, series: usize, row: usize) -> i64 {
        self.table.series[series][row].0
    }

    pub(crate) fn horizon(&self) -> usize {
        self.settings.window.horizon.get()
    }

    /// The known values of all series at one time.
    fn at_time(&self, time: i64, of: impl Fn(usize, usize) -> Cell) -> Vec<f32> {
        let rows =
            |series: usize| (0..self.table.series[series].len()).map(move |row| (series, row));
        let all = (0..self.table.series.len()).flat_map(rows);
        let now = all.filter(|(series, row)| self.time(*series, *row) == time);
        now.filter_map(|(series, row)| of(series, row)).collect()
    }

    fn cross(&self, kind: CrossSection, own: Cell, all: &[f32]) -> Cell {
        let own = own?;
        let (count, x) = (all.len() as f64, f64::from(own));
        match kind {
            CrossSection::None => Some(own),
            CrossSection::Rank => {
                let below = all.iter().filter(|other| **other < own).count() as f64;
                let equal = all.iter().filter(|other| **other == own).count() as f64;
                Some(((below + (equal + 1.0) / 2.0 - 0.5) / count - 0.5) as f32)
            }
            CrossSection::Zscore if all.iter().all(|other| *other == own) => Some(0.0),
            CrossSection::Zscore => {
                let mean = all.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
                let squares = all.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
                Some(((x - mean) / (squares / count).sqrt()) as f32)
            }
        }
    }

    pub(crate) fn treatment(&self, column: usize) -> Treatment {
        let all = &self.settings.scale;
        let name = &self.table.columns[column];
        let named = |group: &&ScaleGroup| group.columns.contains(name);
        let group = all.groups.iter().find(named).cloned().unwrap_or_default();
        Treatment {
            method: group.method.unwrap_or(all.method),
            per: group.per.unwrap_or(all.per),
            clip: group.clip.unwrap_or(all.clip),
            cross_section: group.cross_section.unwrap_or(all.cross_section),
            reference: group.reference.unwrap_or(all.reference.clone()),
            relative: group.relative.unwrap_or(all.relative),
        }
    }

    /// An input after its cross-section, before anything is filled.
    pub(crate) fn present(&self, series: usize, row: usize, column: usize) -> Cell {
        self.crossed[series][row][column]
    }

    /// The same with gaps filled, where that is asked for.
    fn filled(&self, cells: &Cells, series: usize, row: usize, column: usize) -> Cell {
        match self.settings.scale.missing {
            Missing::Ffill => (0..=row).rev().find_map(|row| cells[series][row][column]),
            _ => cells[series][row][column],
        }
    }

    /// What a column of a window is relative to: nothing, or something that may be missing.
    fn reference(&self, cut: Cut, column: usize) -> Option<Cell> {
        let own = |row| Some(self.filled(&self.crossed, cut.series, row, column));
        match self.treatment(column).reference {
            Reference::None => None,
            Reference::First => own(cut.first),
            Reference::Last => own(cut.last),
            Reference::Column(name) => {
                Some(self.filled(&self.raw, cut.series, cut.last, self.table.column(&name)))
            }
        }
    }

    /// One input of a window, filled and relative, before it is scaled.
    pub(crate) fn unscaled(&self, cut: Cut, row: usize, column: usize) -> Cell {
        let x = self.filled(&self.crossed, cut.series, row, column)?;
        let Some(reference) = self.reference(cut, column) else { return Some(x) };
        let reference = reference?;
        Some(match self.treatment(column).relative {
            Relative::Difference => x - reference,
            Relative::Ratio => x * (1.0 / reference) - 1.0,
        })
    }

    fn has_bad_reference(&self, cut: Cut) -> bool {
        self.features.iter().any(|&column| match self.reference(cut, column) {
            None => false,
            Some(None) => true,
            Some(Some(reference)) => {
                let ratio = self.treatment(column).relative == Relative::Ratio;
                ratio && !(1.0 / reference).is_finite()
            }
        })
    }

    /// Whether a difference would count from a value that was never there.
    fn has_no_level(&self, cut: Cut) -> bool {
        let known =
            |target: &usize| (0..=cut.last).any(|row| self.raw[cut.series][row][*target].is_some());
        self.settings.target.kind == TargetKind::Difference && !self.targets.iter().all(known)
    }

    /// One input of a window as it stands in a batch: `channel` counts values, then their mask.
    pub(crate) fn input(
        &self,
        scaling: &Scaling,
        cut: Cut,
        row: usize,
        channel: usize,
    ) -> Expected {
        let feature = channel % self.features.len();
        let column = self.features[feature];
        if channel >= self.features.len() {
            let present = self.present(cut.series, row, column).is_some();
            return Expected { value: f32::from(u8::from(present)), exact: true };
        }
        let own = scaling.by_series.get(&format!("s{}", cut.series));
        let fit = own.map_or(&scaling.features[feature].fit, |own| &own.features[feature]);
        let Treatment { clip, cross_section, .. } = self.treatment(column);
        let limit = if clip == 0.0 { f32::MAX } else { clip as f32 };
        let Some(x) = self.unscaled(cut, row, column) else {
            return Expected { value: 0.0, exact: true };
        };
        let (value, exact) = scale(fit, x);
        let exact = exact && cross_section != CrossSection::Zscore;
        Expected { value: value.clamp(-limit, limit), exact }
    }

    fn delay(&self) -> usize {
        self.settings.target.delay
    }

    /// When that was which the outcomes of the window that ends at `row` are compared with.
    fn base_time(&self, series: usize, row: usize) -> Option<i64> {
        self.table.series[series].get(row + self.delay()).map(|row| row.0)
    }

    /// Where outcome number `step` of the window that ends at `row` is known.
    fn outcome_time(&self, series: usize, row: usize, step: usize) -> Option<i64> {
        self.table.series[series].get(row + self.delay() + step + 1).map(|row| row.0)
    }

    /// The outcome itself, in raw units.
    fn outcome(&self, series: usize, row: usize, step: usize, target: usize) -> Cell {
        let column = self.targets[target];
        let row = row + self.delay();
        let later = self.raw[series].get(row + step + 1)?[column]?;
        if self.settings.target.kind == TargetKind::Value {
            return Some(later);
        }
        let base = f64::from(self.raw[series][row][column]?);
        if self.settings.target.kind == TargetKind::Difference {
            return known((f64::from(later) - base) as f32);
        }
        let change = (f64::from(later) - base) / base.abs();
        let band = self.settings.target.dead_band;
        match self.settings.target.kind {
            _ if base == 0.0 => None,
            TargetKind::Direction if change > band => Some(1.0),
            TargetKind::Direction if change < -band => Some(-1.0),
            TargetKind::Direction => Some(0.0),
            _ => known(change as f32),
        }
    }

    /// The outcome after its cross-section, before it is scaled.
    pub(crate) fn label(&self, series: usize, row: usize, step: usize, target: usize) -> Cell {
        self.labels[series][row][step * self.targets.len() + target]
    }

    fn scaled_label(&self, scaling: &Scaling, series: usize, target: usize, raw: Cell) -> Expected {
        let Some(raw) = raw else { return Expected { value: f32::NAN, exact: true } };
        let own = scaling.by_series.get(&format!("s{series}"));
        let fit = own.map_or(&scaling.targets[target].fit, |own| &own.targets[target]);
        let (value, exact) = scale(fit, raw);
        let exact = exact && self.settings.target.cross_section != CrossSection::Zscore;
        Expected { value: known(value).unwrap_or(f32::NAN), exact }
    }

    /// A label as it stands in a batch.
    pub(crate) fn target(
        &self,
        scaling: &Scaling,
        cut: Cut,
        step: usize,
        target: usize,
    ) -> Expected {
        let raw = self.label(cut.series, cut.last, step, target);
        self.scaled_label(scaling, cut.series, target, raw)
    }

    /// The naive forecast: the last value that is known, or no change.
    pub(crate) fn last(&self, scaling: &Scaling, cut: Cut, target: usize) -> Expected {
        let scaled = |raw: Cell| self.scaled_label(scaling, cut.series, target, raw);
        if self.settings.target.kind != TargetKind::Value {
            return scaled(Some(0.0));
        }
        let rows = (0..=cut.last).rev().map(|row| scaled(self.value(cut.series, row, target)));
        rows.into_iter().find(|found| !found.value.is_nan()).unwrap_or(scaled(None))
    }

    /// A target's value in a row, after its cross-section.
    pub(crate) fn value(&self, series: usize, row: usize, target: usize) -> Cell {
        let of = |series: usize, row: usize| self.raw[series][row][self.targets[target]];
        let all = self.at_time(self.time(series, row), of);
        self.cross(self.settings.target.cross_section, of(series, row), &all)
    }

    /// Every window that has its rows, by series and time, before stride.
    fn cuts(&self, series: usize) -> Vec<Cut> {
        let window = &self.settings.window;
        let lookback = window.lookback.get();
        let pads = window.short == ShortSeries::Pad;
        let least = if pads { window.min_rows.get().min(lookback) } else { lookback };
        (0..self.table.series[series].len())
            .map(|last| Cut { series, first: (last + 1).saturating_sub(lookback), last })
            .filter(|cut| cut.last + 1 - cut.first >= least)
            .collect()
    }

    /// The windows of a part, and those left out of it.
    pub(crate) fn windows(&self, part: &SplitPart) -> (Vec<Cut>, LeftOut) {
        let inside = |cut: &Cut| {
            let mut steps =
                (0..self.horizon()).map(|step| self.outcome_time(cut.series, cut.last, step));
            steps.all(|time| {
                time.is_some_and(|time| part.span.from <= time && time < part.span.until)
            })
        };
        let series = (0..self.table.series.len()).filter(|code| part.has_series(*code as u32));
        let candidates =
            series.map(|code| self.cuts(code).into_iter().filter(inside).collect()).collect();
        self.complete(candidates, true)
    }

    /// Those of a part's series that `wanted` holds for, whether or not their outcome is known.
    fn unlabelled(&self, part: &SplitPart, wanted: impl Fn(&Cut) -> bool) -> (Vec<Cut>, LeftOut) {
        let series = (0..self.table.series.len()).filter(|code| part.has_series(*code as u32));
        let candidates =
            series.map(|code| self.cuts(code).into_iter().filter(&wanted).collect()).collect();
        self.complete(candidates, false)
    }

    /// The windows that forecast into a part: all targets that there are lie in it, and where some
    /// are still to come the part has no end, and the series has not ended before it.
    pub(crate) fn forecastable(&self, part: &SplitPart) -> (Vec<Cut>, LeftOut) {
        let times = self.table.times();
        let has_no_end = times.iter().all(|time| *time < part.span.until);
        let before = times.iter().rfind(|time| **time < part.span.from);
        self.unlabelled(part, |cut| {
            let steps: Vec<Option<i64>> = (0..self.horizon())
                .map(|step| self.outcome_time(cut.series, cut.last, step))
                .collect();
            let inside = steps.iter().flatten().all(|time| part.span.contains(*time));
            let all_known = steps.iter().all(Option::is_some);
            let end = self.table.series[cut.series].last().map(|row| row.0);
            let goes_on = steps[0].is_some() || end.as_ref() >= before;
            inside && (all_known || (has_no_end && goes_on))
        })
    }

    /// The windows whose last row lies in a part.
    pub(crate) fn made_in(&self, part: &SplitPart) -> (Vec<Cut>, LeftOut) {
        self.unlabelled(part, |cut| part.span.contains(self.time(cut.series, cut.last)))
    }

    /// Windows that belong to no part: outside of all, with a target in an embargo, and all others,
    /// whose targets lie on both sides of a border.
    pub(crate) fn between(&self, split: &Split) -> [u64; 3] {
        let parts = [split.train().part(), &split.validation, &split.test];
        let spans = parts.map(|part| part.span);
        let mut found = [0; 3];
        for series in 0..self.table.series.len() {
            let targets = |cut: &Cut| -> Option<Vec<i64>> {
                (0..self.horizon()).map(|k| self.outcome_time(series, cut.last, k)).collect()
            };
            let all = self.cuts(series).into_iter().filter_map(|cut| targets(&cut));
            for targets in all {
                let is_in = |part: &&SplitPart| {
                    part.has_series(series as u32)
                        && targets.iter().all(|time| part.span.contains(*time))
                };
                let in_embargo = |time: &i64| {
                    (*time >= spans[0].until && *time < spans[1].from)
                        || (*time >= spans[1].until && *time < spans[2].from)
                };
                if parts.iter().any(is_in) {
                } else if targets.iter().all(|time| *time < spans[0].from)
                    || targets.iter().all(|time| *time >= spans[2].until)
                {
                    found[0] += 1;
                } else if targets.iter().any(in_embargo) {
                    found[1] += 1;
                } else {
                    found[2] += 1;
                }
            }
        }
        found
    }

    /// Every candidate, of labelled ones every `stride`-th, but for those with something missing.
    fn complete(&self, candidates: Vec<Vec<Cut>>, labelled: bool) -> (Vec<Cut>, LeftOut) {
        let (mut windows, mut left_out) = (Vec::new(), LeftOut::default());
        let stride = if labelled { self.settings.window.stride.get() } else { 1 };
        for cut in candidates.into_iter().flat_map(|cuts| cuts.into_iter().step_by(stride)) {
            let misses_label = || {
                let mut labels = self.labels[cut.series][cut.last].iter();
                labelled && labels.any(Option::is_none)
            };
            let misses_input = || {
                let cells = (cut.first..=cut.last)
                    .flat_map(|row| self.features.iter().map(move |column| (row, *column)));
                self.settings.scale.missing == Missing::Drop
                    && cells
                        .into_iter()
                        .any(|(row, at)| self.present(cut.series, row, at).is_none())
            };
            if misses_label() {
                left_out.missing_target += 1;
            } else if self.has_bad_reference(cut) || self.has_no_level(cut) {
                left_out.missing_reference += 1;
            } else if misses_input() {
                left_out.missing_input += 1;
            } else {
                windows.push(cut);
            }
        }
        (windows, left_out)
    }
}

/// `(curve(x) - offset) / scale`, and whether that is plain f32 arithmetic.
fn scale(fit: &Fit, x: f32) -> (f32, bool) {
    match &fit.curve {
        Curve::Linear => ((x - fit.offset as f32) * (1.0 / fit.scale) as f32, true),
        Curve::Log1p => (((curves::log1p(x.into()) - fit.offset) / fit.scale) as f32, false),
        Curve::Quantiles(knots) => {
            (((curves::score(knots, x.into()) - fit.offset) / fit.scale) as f32, false)
        }
    }
}
