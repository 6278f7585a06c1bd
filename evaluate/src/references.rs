//! [`References`]: what the forecasts of a target are held against, row by row: the last known value, the
//! scale of its series, and naive forecasts. All are made of what was known when the forecast was made.

use crate::{
    column_names,
    evaluation::{Direction, EvaluateSettings},
    forecasts::{Forecasts, NO_TIME},
    history::History,
    known_values::{Entry, KnownValues},
    sections::{Sections, target_time},
};
use millstream_data::TimeKind;
use serde::Serialize;

/// Who forecasts without a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NaiveForecaster {
    /// Always the last known value; of a change, that there is none.
    Last,
    /// Always the mean of what its series was until then.
    Mean,
    /// Always what came a season before, or as many as it takes for that to be known.
    Season,
}

/// By row; NaN where nobody knows.
#[derive(Debug)]
pub(crate) struct References {
    pub(crate) last: Vec<f64>,
    pub(crate) scale: Vec<f64>,
    pub(crate) naive: Vec<(NaiveForecaster, Vec<f64>)>,
    /// How this was taken, in words.
    pub(crate) notes: Vec<String>,
    /// What a person should know of it.
    pub(crate) warnings: Vec<String>,
}

/// One target of a table.
#[derive(Clone, Copy)]
pub(crate) struct TargetOf<'a> {
    pub(crate) forecasts: &'a Forecasts,
    pub(crate) sections: &'a Sections,
    pub(crate) history: Option<&'a History>,
    pub(crate) number: usize,
    /// The outcomes that are judged.
    pub(crate) judged: &'a [f64],
}

impl TargetOf<'_> {
    fn name(&self) -> &str {
        &self.forecasts.columns.targets[self.number].outcome
    }

    fn outcomes(&self) -> &[f64] {
        &self.forecasts.targets[self.number].outcomes
    }

    /// How many sequences there are: of levels one for each series, of changes one for each step of it.
    fn sequences(&self, direction: Direction) -> usize {
        match direction {
            Direction::Change => self.forecasts.series.len(),
            Direction::Sign => self.forecasts.series.len() * self.sections.steps.len(),
        }
    }

    fn sequence(&self, direction: Direction, row: usize) -> u32 {
        let series = self.forecasts.keys.series[row];
        match direction {
            Direction::Change => series,
            Direction::Sign => self.of_step(series, self.sections.step_of[row]),
        }
    }

    fn of_step(&self, series: u32, step: u32) -> u32 {
        series * self.sections.steps.len() as u32 + step
    }

    /// In columns of 32 bits nothing is finer than those, whatever the history has.
    fn as_kept(&self, value: f64) -> f64 {
        let single = self.forecasts.targets[self.number].single;
        if single { f64::from(value as f32) } else { value }
    }

    /// What is known: the outcomes of the table, and the history. That of a change says what came one step
    /// ahead.
    fn known(&self, direction: Direction) -> KnownValues {
        let keys = &self.forecasts.keys;
        let entry = |(row, value): (usize, &f64)| {
            let time = target_time(keys, row)?;
            let value = self.as_kept(*value);
            Some(Entry { sequence: self.sequence(direction, row), time, value })
        };
        let mut entries: Vec<Entry> =
            self.outcomes().iter().enumerate().filter_map(entry).collect();
        entries.extend(self.of_history(|series| match direction {
            Direction::Change => series,
            Direction::Sign => self.of_step(series, 0),
        }));
        KnownValues::new(entries, self.sequences(direction))
    }

    fn of_history(&self, sequence: impl Fn(u32) -> u32) -> impl Iterator<Item = Entry> {
        let history = self.history.into_iter();
        history.flat_map(move |history| {
            let rows = history.series.iter().zip(&history.times);
            let sequence = &sequence;
            let entry = move |((series, time), value): ((&u32, &i64), &f64)| Entry {
                sequence: sequence(*series),
                time: *time,
                value: self.as_kept(*value),
            };
            rows.zip(&history.values[self.number]).map(entry).collect::<Vec<_>>()
        })
    }

    /// The scale of `mase` by row, and how it was taken.
    fn scale(
        &self,
        direction: Direction,
        known: &KnownValues,
        season: usize,
    ) -> (Vec<f64>, &'static str) {
        let keys = &self.forecasts.keys;
        let rows = 0..keys.times.len();
        let nan = |error: Option<f64>| error.unwrap_or(f64::NAN);
        if self.history.is_none() {
            let errors: Vec<f64> = (0..self.sequences(direction) as u32)
                .map(|sequence| nan(known.naive_error(sequence, season, i64::MAX)))
                .collect();
            let scale = rows.map(|row| errors[self.sequence(direction, row) as usize]).collect();
            return (scale, "in the outcomes of the table");
        }
        let series = self.forecasts.series.len();
        let history = KnownValues::new(self.of_history(|series| series).collect(), series);
        let mut first = vec![i64::MAX; series];
        for (series, time) in keys.series.iter().zip(&keys.times) {
            let first = &mut first[*series as usize];
            *first = (*first).min(*time);
        }
        let errors: Vec<f64> = (0..series as u32)
            .map(|code| nan(history.naive_error(code, season, first[code as usize])))
            .collect();
        let scale = rows.map(|row| errors[keys.series[row] as usize]).collect();
        (scale, "in the history before the first forecast")
    }
}

impl References {
    pub(crate) fn new(target: TargetOf<'_>, settings: &EvaluateSettings) -> References {
        let name = target.name();
        let score = target.forecasts.columns.targets[target.number].score;
        let said = settings.direction;
        let change = column_names::is_change(name);
        let by_name = if change { Direction::Sign } else { Direction::Change };
        let direction = said.unwrap_or(by_name);
        let mut known = target.known(direction);
        let (mut notes, mut warnings) = (Vec::new(), Vec::new());
        if let (Some([one, other]), Direction::Change) = (known.conflict, direction) {
            let kind = target.forecasts.time_kind.unwrap_or(TimeKind::Integer);
            let series = target.forecasts.series.name(one.sequence);
            warnings.push(format!(
                "{name} of {series:?} is both {} and {} at {}: it is no level, and no last value, mean or \
                 season is taken of it; where it is a change, say --direction sign",
                one.value,
                other.value,
                kind.format(one.time)
            ));
            known = KnownValues::new(Vec::new(), target.sequences(direction));
        }
        let keys = &target.forecasts.keys;
        let rows = || 0..keys.times.len();
        let of = |say: &dyn Fn(u32, i64, Option<i64>) -> Option<f64>| -> Vec<f64> {
            let say = |row: usize| {
                let sequence = target.sequence(direction, row);
                say(sequence, keys.times[row], target_time(keys, row))
            };
            rows().map(|row| say(row).unwrap_or(f64::NAN)).collect()
        };
        let last = match direction {
            Direction::Sign => vec![0.0; keys.times.len()],
            Direction::Change => of(&|sequence, time, _| known.last(sequence, time)),
        };
        let mean = of(&|sequence, time, _| known.mean(sequence, time));
        let mut naive = vec![(NaiveForecaster::Last, last.clone()), (NaiveForecaster::Mean, mean)];
        if let Some(season) = settings.season {
            let before = of(&|sequence, time, target_time| {
                known.a_season_before(sequence, time, target_time?, season.get())
            });
            naive.push((NaiveForecaster::Season, before));
        }
        let season = settings.season.map_or(1, std::num::NonZero::get);
        let (scale, place) = target.scale(direction, &known, season);
        if !score {
            let unknown = |of: &[f64]| {
                let pairs = of.iter().zip(target.judged);
                pairs.filter(|(value, outcome)| value.is_nan() && !outcome.is_nan()).count()
            };
            notes.push(match (direction, unknown(&last)) {
                (Direction::Sign, _) => format!(
                    "direction of {name}: its sign; 0 has none. Its \"last value\" is no change, a forecast of 0"
                ),
                (Direction::Change, 0) => {
                    format!("direction of {name}: of its change since the last known value")
                }
                (Direction::Change, missing) => format!(
                    "direction of {name}: of its change since the last known value, which the table does not \
                     tell for {missing} forecasts{}",
                    if target.history.is_none() { "; --history FILE may" } else { "" }
                ),
            });
            let rows = if season == 1 { "row" } else { "rows" };
            let none = match unknown(&scale) {
                0 => String::new(),
                missing => format!("; {missing} forecasts are of series without one"),
            };
            notes.push(format!(
                "mase of {name}: beside the error of the value {season} {rows} before, {place}{none}"
            ));
        }
        References { last, scale, naive, notes, warnings }
    }
}

/// Whether the table says of any row what time it forecasts.
pub(crate) fn has_target_times(forecasts: &Forecasts) -> bool {
    forecasts.keys.target_times.iter().any(|time| *time != NO_TIME)
}
