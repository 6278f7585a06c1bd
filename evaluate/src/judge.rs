//! Holds forecasts against outcomes: one target after another, each row once, each cross-section once.
//! What the sums mean is said in `figures.rs`.

use crate::{
    correlation::{Correlate, OverTimes},
    deciles::DecileSums,
    error::EvaluateError,
    evaluation::{EvaluateSettings, Evaluation, Group, Grouped, Naive},
    figures::{Figures, OverFolds},
    forecasts::Forecasts,
    grouping::{Grouping, Groups},
    history::History,
    judged_outcomes::JudgedOutcomes,
    references::{NaiveForecaster, References, TargetOf, has_target_times},
    sections::{Section, Sections},
    sums::{Judged, Pair, QuantileSlot, Sums},
};

/// The correlations of one target in one section.
#[derive(Debug, Clone, Copy)]
struct CrossSection {
    target: usize,
    step: u32,
    /// Any row of it.
    row: usize,
    /// Pearson's and Spearman's.
    found: [Option<f64>; 2],
}

/// What all targets add up to.
struct Tally<'a> {
    forecasts: &'a Forecasts,
    sections: &'a Sections,
    groups: &'a [Groups],
    /// Quantiles and levels of all targets, rising.
    quantiles: Vec<f64>,
    levels: Vec<f64>,
    overall: Sums,
    by: Vec<Vec<Sums>>,
    naive: Vec<NaiveTally>,
    /// By target, then in the order of the sections.
    crossed: Vec<CrossSection>,
}

struct NaiveTally {
    forecaster: NaiveForecaster,
    unknown: u64,
    theirs: Sums,
    ours: Sums,
    /// Pearson's and Spearman's, of each target and step.
    over: [Vec<OverTimes>; 2],
}

pub(crate) fn judge(
    forecasts: &Forecasts,
    settings: &EvaluateSettings,
    history: Option<&History>,
) -> Result<Evaluation, EvaluateError> {
    let columns = &forecasts.columns;
    let rows = forecasts.keys.times.len();
    let outcomes = JudgedOutcomes::new(forecasts, columns.ours && !settings.partial);
    let JudgedOutcomes { without, unfinished, .. } = outcomes;
    if without + unfinished == rows as u64 {
        let names: Vec<&str> = columns.targets.iter().map(|t| t.outcome.as_str()).collect();
        let (rows, columns) = (rows as u64, names.join(", "));
        return Err(match unfinished {
            0 => EvaluateError::NothingToJudge { rows, columns },
            unfinished => EvaluateError::NothingWhole { unfinished },
        });
    }
    let sections = Sections::new(forecasts)?;
    let groups = groups(forecasts, &sections, &settings.by)?;
    let mut tally = Tally::new(forecasts, &sections, &groups, settings);
    let mut notes = vec![columns.to_string()];
    let mut warnings = Vec::new();
    let wants_deciles = settings.by.contains(&Grouping::Decile);
    let mut deciles = wants_deciles.then(|| DecileSums::new(forecasts, &sections));
    for number in 0..columns.targets.len() {
        let target = TargetOf {
            forecasts,
            sections: &sections,
            history,
            number,
            judged: outcomes.of(number),
        };
        let references = References::new(target, settings);
        tally.add_target(number, outcomes.of(number), &references);
        if let Some(deciles) = &mut deciles {
            deciles.add_target(number, outcomes.of(number));
        }
        notes.extend(references.notes);
        warnings.extend(references.warnings);
    }
    if history.is_none() && !has_target_times(forecasts) {
        let what = "the table does not say which time is forecast (--target-time): what was known is not known";
        notes.push(what.to_owned());
    }
    let mut times = forecasts.keys.times.clone();
    times.sort_unstable();
    times.dedup();
    warnings.extend(forecasts.odd.warnings());
    warnings.extend(columns.unused_warning());
    warnings.extend(history.and_then(History::warning));
    let by = tally.grouped();
    let folds = by.iter().find(|grouped| grouped.by == Grouping::Fold);
    let folds = folds.map(|grouped| {
        OverFolds::of(&grouped.groups.iter().map(|group| &group.figures).collect::<Vec<_>>())
    });
    let all: Vec<usize> = (0..tally.crossed.len()).collect();
    let overall = tally.figures(&tally.overall, &all);
    let zeros = tally.overall.zeros();
    if zeros > 0 {
        notes.push(format!("mape leaves out {zeros} outcomes that are 0"));
    }
    Ok(Evaluation {
        rows: rows as u64,
        without_outcome: without,
        unfinished,
        series: forecasts.series.len() as u64,
        times: times.len() as u64,
        columns: columns.clone(),
        overall,
        naive: tally.naive.iter().map(|naive| tally.naive_figures(naive)).collect(),
        by,
        folds,
        deciles: deciles.map(DecileSums::finish),
        notes,
        warnings,
    })
}

/// The groupings that were asked for, and that by folds, if there are any.
fn groups(
    forecasts: &Forecasts,
    sections: &Sections,
    by: &[Grouping],
) -> Result<Vec<Groups>, EvaluateError> {
    let mut wanted: Vec<Grouping> = Vec::new();
    let folds = (!sections.folds.is_empty()).then_some(Grouping::Fold);
    for grouping in by.iter().copied().chain(folds) {
        if grouping != Grouping::Decile && !wanted.contains(&grouping) {
            wanted.push(grouping);
        }
    }
    wanted.into_iter().map(|by| Groups::new(by, forecasts, sections)).collect()
}

impl<'a> Tally<'a> {
    fn new(
        forecasts: &'a Forecasts,
        sections: &'a Sections,
        groups: &'a [Groups],
        settings: &EvaluateSettings,
    ) -> Tally<'a> {
        let targets = || forecasts.columns.targets.iter();
        let rising = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        };
        let quantiles = targets().flat_map(|target| target.quantiles.iter().map(|q| q.quantile));
        let quantiles = rising(quantiles.collect());
        let levels = targets().flat_map(|target| target.intervals.iter().map(|one| one.level));
        let levels = rising(levels.collect());
        let sums = || Sums::new(quantiles.len(), levels.len());
        let mut forecasters = vec![NaiveForecaster::Last, NaiveForecaster::Mean];
        forecasters.extend(settings.season.map(|_| NaiveForecaster::Season));
        let naive = |forecaster| NaiveTally {
            forecaster,
            unknown: 0,
            theirs: sums(),
            ours: sums(),
            over: Default::default(),
        };
        Tally {
            overall: sums(),
            by: groups.iter().map(|groups| vec![sums(); groups.labels.len()]).collect(),
            naive: forecasters.into_iter().map(naive).collect(),
            crossed: Vec::new(),
            forecasts,
            sections,
            groups,
            quantiles,
            levels,
        }
    }

    fn add_target(&mut self, number: usize, outcomes: &[f64], references: &References) {
        let forecasts = self.forecasts;
        let (columns, values) = (&forecasts.columns.targets[number], &forecasts.targets[number]);
        let quantiles: Vec<f64> = columns.quantiles.iter().map(|one| one.quantile).collect();
        let slots = QuantileSlot::all(&quantiles, &self.quantiles);
        let said: Vec<&[f64]> = (0..slots.len()).map(|at| values.quantile(columns, at)).collect();
        let place = |level: f64| self.levels.partition_point(|known| *known < level);
        let places: Vec<usize> = columns.intervals.iter().map(|one| place(one.level)).collect();
        let (mut judged, mut theirs) = (Judged::default(), Judged::default());
        for (row, &outcome) in outcomes.iter().enumerate() {
            if outcome.is_nan() {
                continue;
            }
            let forecast = values.forecasts[row];
            let (last, scale) = (references.last[row], references.scale[row]);
            let single = values.single;
            let pair = Pair { forecast, outcome, last, single, scale };
            judged.set(pair, !columns.score);
            for (naive, (_, said)) in self.naive.iter_mut().zip(&references.naive) {
                if said[row].is_nan() {
                    naive.unknown += 1;
                    continue;
                }
                // A naive forecast has a unit, whatever the model's has.
                theirs.set(Pair { forecast: said[row], ..pair }, true);
                naive.theirs.add(&theirs);
                naive.ours.add(&judged);
            }
            if !columns.score {
                if !slots.is_empty() {
                    judged.add_quantiles(said.iter().map(|said| said[row]), &slots, outcome);
                }
                for (place, [lower, upper]) in places.iter().zip(&values.intervals) {
                    judged.add_interval(*place, lower[row], upper[row], outcome);
                }
            }
            self.overall.add(&judged);
            for (groups, sums) in self.groups.iter().zip(&mut self.by) {
                sums[groups.of(row, number)].add(&judged);
            }
        }
        self.correlate(number, outcomes, references);
    }

    fn correlate(&mut self, target: usize, outcomes: &[f64], references: &References) {
        let (forecasts, sections) = (self.forecasts, self.sections);
        let values = &forecasts.targets[target];
        let mut cross = Cross { sections, outcomes, ..Cross::new(sections) };
        for section in &sections.sections {
            let row = sections.order[section.rows.start] as usize;
            let found = cross.section(section, &values.forecasts);
            self.crossed.push(CrossSection { target, step: section.step, row, found });
        }
        for (naive, (_, said)) in self.naive.iter_mut().zip(&references.naive) {
            for of_step in sections.sections.chunk_by(|a, b| a.step == b.step) {
                let found: Vec<_> = of_step.iter().map(|one| cross.section(one, said)).collect();
                for (over, at) in naive.over.iter_mut().zip([0, 1]) {
                    let defined: Vec<f64> = found.iter().filter_map(|both| both[at]).collect();
                    over.push(OverTimes::of(&defined));
                }
            }
        }
    }

    /// Sums with the correlations of these cross-sections, which are in their order.
    fn figures(&self, sums: &Sums, crossed: &[usize]) -> Figures {
        let same = |a: &usize, b: &usize| {
            let (a, b) = (self.crossed[*a], self.crossed[*b]);
            (a.target, a.step) == (b.target, b.step)
        };
        let over = |at: usize| {
            let of_step = crossed.chunk_by(same).map(|of_step| {
                let found = of_step.iter().filter_map(|&one| self.crossed[one].found[at]);
                OverTimes::of(&found.collect::<Vec<_>>())
            });
            OverTimes::mean_of(&of_step.collect::<Vec<_>>())
        };
        sums.figures([over(0), over(1)], &self.quantiles, &self.levels)
    }

    fn grouped(&self) -> Vec<Grouped> {
        let grouped = |(groups, sums): (&Groups, &Vec<Sums>)| {
            let mut crossed = vec![Vec::new(); groups.labels.len()];
            // A cross-section is over all series.
            if groups.by != Grouping::Series {
                for (at, one) in self.crossed.iter().enumerate() {
                    crossed[groups.of(one.row, one.target)].push(at);
                }
            }
            let each = groups.labels.iter().zip(sums).zip(&crossed);
            let group = |((label, sums), crossed): ((&String, &Sums), &Vec<usize>)| Group {
                group: label.clone(),
                figures: self.figures(sums, crossed),
            };
            Grouped { by: groups.by, groups: each.map(group).collect() }
        };
        self.groups.iter().zip(&self.by).map(grouped).collect()
    }

    fn naive_figures(&self, naive: &NaiveTally) -> Naive {
        let over = [0, 1].map(|at| OverTimes::mean_of(&naive.over[at]));
        let figures = naive.theirs.figures(over, &[], &[]);
        let some = naive.unknown > 0 && figures.count > 0;
        let model = some.then(|| naive.ours.figures(Default::default(), &[], &[]));
        Naive { forecaster: naive.forecaster, unknown: naive.unknown, figures, model }
    }
}

/// The numbers of a cross-section, gathered.
struct Cross<'a> {
    sections: &'a Sections,
    outcomes: &'a [f64],
    correlate: Correlate,
    xs: Vec<f64>,
    ys: Vec<f64>,
}

impl<'a> Cross<'a> {
    fn new(sections: &'a Sections) -> Cross<'a> {
        let (xs, ys) = (Vec::new(), Vec::new());
        Cross { sections, outcomes: &[], correlate: Correlate::default(), xs, ys }
    }

    /// The correlations of what was said, where it was, with what came.
    fn section(&mut self, section: &Section, said: &[f64]) -> [Option<f64>; 2] {
        self.xs.clear();
        self.ys.clear();
        let sections = self.sections;
        for row in sections.rows(section) {
            if !said[row].is_nan() && !self.outcomes[row].is_nan() {
                self.xs.push(said[row]);
                self.ys.push(self.outcomes[row]);
            }
        }
        self.correlate.both(&self.xs, &self.ys)
    }
}
