//! The split: which windows may be learned from.
//!
//! Borders are times, found once from the distinct times of the panel, or whole series are held
//! out. A window belongs to the part in which *all* its targets lie, so no label crosses a border;
//! the rows it looks back on may reach across. Statistics are fitted on a [`TrainSplit`], which
//! only [`Split`] makes. Walks through time are cut in `folds.rs`.

use crate::{
    error::NormalizeError,
    folds,
    settings::{SplitBy, SplitSettings},
};
use millstream_data::{Panel, PanelSchema, Shard};
use rayon::slice::ParallelSliceMut;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Proof that a border was drawn by the splitter: the only thing a scaler can be fitted on.
///
/// ```compile_fail,E0451
/// use millstream_normalize::{SplitPart, TrainSplit};
/// // Fitting on everything does not compile: nobody else can make a `TrainSplit`.
/// let everything = TrainSplit { part: SplitPart::everything() };
/// ```
///
/// ```compile_fail,E0308
/// # use millstream_normalize::*;
/// # fn wrong(panel: &millstream_data::Panel, split: &Split) -> Result<(), NormalizeError> {
/// // Nor does fitting on the part that is tested: it is no `TrainSplit`.
/// let settings = FitSettings::default();
/// fit(panel, &split.test, &settings)?;
/// # Ok(()) }
/// ```
///
/// What is missing above is a right to it, not a name; with a `TrainSplit` the same call compiles:
///
/// ```
/// # use millstream_normalize::*;
/// # fn right(panel: &millstream_data::Panel, split: &Split) -> Result<(), NormalizeError> {
/// let settings = FitSettings::default();
/// fit(panel, split.train(), &settings)?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainSplit {
    part: SplitPart,
}

impl TrainSplit {
    /// Where the targets of training windows lie; training rows lie there too.
    #[must_use]
    pub fn part(&self) -> &SplitPart {
        &self.part
    }

    /// Training rows lie before this time.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.part.span.until
    }
}

/// A half-open range of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First time inside.
    pub from: i64,
    /// First time after it.
    pub until: i64,
}

impl Span {
    /// All of time.
    pub const ALL: Span = Span { from: i64::MIN, until: i64::MAX };

    /// Whether a time lies inside.
    #[must_use]
    pub fn contains(self, time: i64) -> bool {
        self.from <= time && time < self.until
    }
}

/// A part of the data: times, and perhaps only some of the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    /// The times.
    pub span: Span,
    /// By series code: whether it belongs to the part; `None` for all.
    series: Option<Arc<[bool]>>,
}

impl SplitPart {
    /// All series at these times.
    #[must_use]
    pub fn times(span: Span) -> Self {
        SplitPart { span, series: None }
    }

    /// The series that are marked, by code, at these times.
    #[must_use]
    pub fn series(span: Span, series: Vec<bool>) -> Self {
        SplitPart { span, series: Some(series.into()) }
    }

    /// All of the data.
    #[must_use]
    pub fn everything() -> Self {
        SplitPart::times(Span::ALL)
    }

    /// Whether the series with this code belongs to it.
    #[must_use]
    pub fn has_series(&self, code: u32) -> bool {
        self.series.as_ref().is_none_or(|series| series[code as usize])
    }
}

/// The three parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    train: TrainSplit,
    /// Targets of validation windows.
    pub validation: SplitPart,
    /// Targets of test windows.
    pub test: SplitPart,
}

/// Positions of the borders among the distinct times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Borders {
    pub(crate) train_start: usize,
    pub(crate) train_end: usize,
    pub(crate) test_start: usize,
    /// `None` for everything that is left.
    pub(crate) test_end: Option<usize>,
}

impl Split {
    /// Draws the borders for this panel.
    ///
    /// # Errors
    /// When a share is out of range, or a border is no time, out of order or outside the data.
    pub fn new(panel: &Panel, settings: &SplitSettings) -> Result<Self, NormalizeError> {
        settings.validate()?;
        if panel.row_count() == 0 {
            return Err(NormalizeError::EmptyPanel);
        }
        match (settings.by, settings.folds) {
            (SplitBy::Series, _) => Ok(Split::by_series(panel.schema(), settings)),
            (SplitBy::Time, 0) => Split::by_time(panel, settings),
            (SplitBy::Time, _) => {
                let mut folds = Split::walk_forward(panel, settings)?;
                Ok(folds.swap_remove(settings.fold.get() - 1))
            }
        }
    }

    /// Every fold of a walk forward through time, in order.
    ///
    /// # Errors
    /// When a share is out of range or there are more folds than times to test on.
    pub fn walk_forward(
        panel: &Panel,
        settings: &SplitSettings,
    ) -> Result<Vec<Self>, NormalizeError> {
        settings.validate()?;
        let times = distinct_times(panel);
        let folds = folds::borders(times.len(), settings)?;
        Ok(folds.into_iter().map(|fold| Split::at(&times, fold, settings.embargo)).collect())
    }

    fn by_time(panel: &Panel, settings: &SplitSettings) -> Result<Self, NormalizeError> {
        let times = distinct_times(panel);
        let (first, last) = (times[0], times[times.len() - 1]);
        let kind = panel.schema().time_kind;
        let parse = |key, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => kind.parse(text).map(Some).ok_or_else(|| {
                let (value, example) = (text.clone(), kind.format(last));
                NormalizeError::BorderFormat { key, value, example }
            }),
        };
        let ordered = |key, border: i64, after: i64| {
            if border > after && border <= last {
                return Ok(border);
            }
            let next = times.get(times.partition_point(|&time| time <= after)).unwrap_or(&last);
            let nearest = kind.format(if border > last { last } else { *next });
            let (value, after, end) = (kind.format(border), kind.format(after), kind.format(last));
            Err(NormalizeError::BorderOrder { key, value, after, end, nearest })
        };

        // Positions in `times`; a position past the end means "everything up to here".
        let position = |border: i64| times.partition_point(|&time| time < border);
        let share = |share: f64| (share * times.len() as f64).round() as usize;
        let train = match parse("train_end", &settings.train_end)? {
            Some(border) => position(ordered("train_end", border, first)?),
            None => share(settings.train),
        };
        let at = |position: usize| times.get(position).copied().unwrap_or(i64::MAX);
        let validation = match parse("validation_end", &settings.validation_end)? {
            Some(border) => position(ordered("validation_end", border, at(train))?),
            // From the start, so that 0.7 + 0.15 does not round twice.
            None if settings.train_end.is_none() => share(settings.train + settings.validation),
            None => train + share(settings.validation),
        };
        let test_end = match parse("test_end", &settings.test_end)? {
            Some(border) if border <= at(validation) => {
                Some(ordered("test_end", border, at(validation))?)
            }
            border => border,
        };
        let borders = Borders {
            train_start: 0,
            train_end: train,
            test_start: validation,
            test_end: test_end.map(position),
        };
        Ok(Split::at(&times, borders, settings.embargo))
    }

    fn at(times: &[i64], borders: Borders, embargo: usize) -> Self {
        let at = |position: usize| times.get(position).copied().unwrap_or(i64::MAX);
        let part = |from, until| SplitPart::times(Span { from, until });
        let Borders { train_start, train_end, test_start, test_end } = borders;
        let from = if train_start == 0 { i64::MIN } else { at(train_start) };
        Split {
            train: TrainSplit { part: part(from, at(train_end)) },
            validation: part(at(train_end.saturating_add(embargo)), at(test_start)),
            test: part(at(test_start.saturating_add(embargo)), test_end.map_or(i64::MAX, at)),
        }
    }

    /// Holds whole series out. Which ones depends on their names and the seed alone, not on the
    /// order they come in.
    fn by_series(schema: &PanelSchema, settings: &SplitSettings) -> Self {
        let mut codes: Vec<usize> = (0..schema.series.len()).collect();
        let hash = |code: usize| xxh3_64_with_seed(schema.series[code].as_bytes(), settings.seed);
        codes.sort_by_cached_key(|&code| (hash(code), schema.series[code].clone()));
        let share = |share: f64| (share * codes.len() as f64).round() as usize;
        // Something must be learned from, whatever the rounding.
        let train = share(settings.train).max(1);
        let validation = share(settings.train + settings.validation).clamp(train, codes.len());
        let part = |members: &[usize]| {
            let mut series = vec![false; codes.len()];
            members.iter().for_each(|&code| series[code] = true);
            SplitPart::series(Span::ALL, series)
        };
        Split {
            train: TrainSplit { part: part(&codes[..train]) },
            validation: part(&codes[train..validation]),
            test: part(&codes[validation..]),
        }
    }

    /// What may be learned from.
    #[must_use]
    pub fn train(&self) -> &TrainSplit {
        &self.train
    }
}

pub(crate) fn distinct_times(panel: &Panel) -> Vec<i64> {
    let mut times: Vec<i64> = panel.shards().iter().flat_map(Shard::times).copied().collect();
    times.par_sort_unstable();
    times.dedup();
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::TimeKind;
    use std::sync::Arc;

    const DAY: i64 = 86_400_000_000;

    /// One series with a row on each of the first `days` days of 1970.
    fn panel(days: i64) -> Panel {
        let schema = PanelSchema {
            series_column: None,
            time_column: "day".into(),
            time_kind: TimeKind::Date,
            columns: vec!["y".into()],
            kinds: Vec::new(),
            inputs: 1,
            series: vec![String::new()],
            fingerprint: String::new(),
        };
        let rows = days as usize;
        let times = (0..days).map(|day| day * DAY).collect();
        let shard = Shard::new(vec![0; rows], times, vec![0.0; rows], 1);
        Panel::new(Arc::new(schema), vec![shard]).unwrap()
    }

    fn check(settings: &SplitSettings, expected: [i64; 5]) {
        let split = Split::new(&panel(10), settings).unwrap();
        let days = |time: i64| if time == i64::MAX { 99 } else { time / DAY };
        let (validation, test) = (split.validation.span, split.test.span);
        let borders =
            [split.train.end(), validation.from, validation.until, test.from, test.until].map(days);
        assert_eq!(borders, expected);
    }

    #[test]
    fn borders_by_share_by_date_and_with_embargo() {
        let shares = SplitSettings { train: 0.6, validation: 0.2, ..SplitSettings::default() };
        check(&shares, [6, 6, 8, 8, 99]);
        check(&SplitSettings { embargo: 1, ..shares.clone() }, [6, 7, 8, 9, 99]);
        let dates = SplitSettings {
            train_end: Some("1970-01-05".into()),
            validation_end: Some("1970-01-07 00:00:00".into()),
            test_end: Some("1970-01-09".into()),
            ..shares.clone()
        };
        check(&dates, [4, 4, 6, 6, 8]);
        check(&SplitSettings { train: 1.0, validation: 0.0, ..shares }, [99, 99, 99, 99, 99]);
    }

    fn check_refused(settings: &SplitSettings, expected: &str) {
        let error = Split::new(&panel(10), settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn bad_borders_are_refused_with_the_numbers() {
        let base = SplitSettings::default();
        check_refused(&SplitSettings { train: 0.0, ..base.clone() }, "split.train is 0");
        check_refused(
            &SplitSettings { validation: 0.5, ..base.clone() },
            "split.validation is 0.5",
        );
        let border = |text: &str| SplitSettings { train_end: Some(text.into()), ..base.clone() };
        check_refused(&border("soon"), "split.train_end is \"soon\", which is not a time");
        check_refused(
            &border("1999-01-01"),
            "the data ends at 1970-01-10; the nearest that works is 1970-01-10",
        );
        check_refused(
            &border("9999-12-31"),
            "split.train_end is 9999-12-31, but it must lie after",
        );
        check_refused(
            &border("1970-01-01"),
            "must lie after 1970-01-01 and the data ends at 1970-01-10; the nearest that works is 1970-01-02",
        );
        let backwards = SplitSettings {
            train_end: Some("1970-01-05".into()),
            validation_end: Some("1970-01-03".into()),
            ..base
        };
        check_refused(&backwards, "split.validation_end is 1970-01-03");
    }

    #[test]
    fn series_are_held_out_by_name_whatever_their_order() {
        let names: Vec<String> = (0..40).map(|i| format!("s{i}")).collect();
        let split = |names: Vec<String>| {
            let schema = PanelSchema { series: names, ..panel(3).schema().as_ref().clone() };
            let settings = SplitSettings { by: SplitBy::Series, seed: 3, ..Default::default() };
            (Split::by_series(&schema, &settings), schema.series)
        };
        let members = |(split, names): (Split, Vec<String>)| {
            [split.train.part, split.validation, split.test].map(|part| {
                let mut names: Vec<String> = (0..names.len())
                    .filter(|code| part.has_series(*code as u32))
                    .map(|code| names[code].clone())
                    .collect();
                names.sort();
                names
            })
        };
        let forward = members(split(names.clone()));
        assert_eq!(forward.each_ref().map(Vec::len), [28, 6, 6]);
        let backward = members(split(names.into_iter().rev().collect()));
        assert_eq!(forward, backward);
    }
}
