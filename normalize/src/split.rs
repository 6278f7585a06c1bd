//! The split by time: which windows may be learned from.
//!
//! Borders are times, found once from the distinct times of the panel. A window belongs to the
//! part in which *all* its targets lie, so no label crosses a border; the rows it looks back on
//! may reach across. Statistics are fitted on a [`TrainSplit`], which only [`Split::new`] makes.

use crate::{error::NormalizeError, settings::SplitSettings};
use arrow::{
    compute::kernels::cast_utils::Parser,
    datatypes::{Int64Type, TimestampMicrosecondType},
};
use millstream_stage::{Panel, Shard, TimeKind};
use rayon::slice::ParallelSliceMut;

/// Proof that a border was drawn by the splitter: the only thing a scaler can be fitted on.
///
/// ```compile_fail
/// // Fitting on everything does not compile: nobody else can make a `TrainSplit`.
/// let everything = millstream_normalize::TrainSplit { end: i64::MAX };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainSplit {
    end: i64,
}

impl TrainSplit {
    /// Training rows lie before this time.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }
}

/// A half-open range of target times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First time inside.
    pub from: i64,
    /// First time after it.
    pub until: i64,
}

/// The three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    train: TrainSplit,
    /// Target times of validation windows.
    pub validation: Span,
    /// Target times of test windows.
    pub test: Span,
}

impl Split {
    /// Draws the borders for this panel.
    ///
    /// # Errors
    /// When a share is out of range, or a border is no time, out of order or outside the data.
    pub fn new(panel: &Panel, settings: &SplitSettings) -> Result<Self, NormalizeError> {
        let times = distinct_times(panel);
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
            return Err(NormalizeError::EmptyPanel);
        };
        settings.validate()?;
        let kind = panel.schema().time_kind;
        let parse = |key, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => parse_time(kind, text).map(Some).ok_or_else(|| {
                let (value, example) = (text.clone(), kind.format(last));
                NormalizeError::BorderFormat { key, value, example }
            }),
        };
        let ordered = |key, border: i64, after: i64| {
            if border > after && border <= last {
                return Ok(border);
            }
            let (value, after, end) = (kind.format(border), kind.format(after), kind.format(last));
            Err(NormalizeError::BorderOrder { key, value, after, end })
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
                ordered("test_end", border, at(validation))?
            }
            Some(border) => border,
            None => i64::MAX,
        };
        Ok(Split {
            train: TrainSplit { end: at(train) },
            validation: Span { from: at(train + settings.embargo), until: at(validation) },
            test: Span { from: at(validation + settings.embargo), until: test_end },
        })
    }

    /// What may be learned from.
    #[must_use]
    pub fn train(&self) -> TrainSplit {
        self.train
    }

    /// Target times of training windows.
    #[must_use]
    pub fn train_span(&self) -> Span {
        Span { from: i64::MIN, until: self.train.end }
    }
}

/// Reads a time as `kind` writes it.
#[must_use]
pub fn parse_time(kind: TimeKind, text: &str) -> Option<i64> {
    match kind {
        TimeKind::Integer => Int64Type::parse(text),
        TimeKind::Date | TimeKind::Timestamp => TimestampMicrosecondType::parse(text),
    }
}

fn distinct_times(panel: &Panel) -> Vec<i64> {
    let mut times: Vec<i64> = panel.shards().iter().flat_map(Shard::times).copied().collect();
    times.par_sort_unstable();
    times.dedup();
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_stage::PanelSchema;
    use std::sync::Arc;

    const DAY: i64 = 86_400_000_000;

    /// One series with a row on each of the first `days` days of 1970.
    fn panel(days: i64) -> Panel {
        let schema = PanelSchema {
            series_column: None,
            time_column: "day".into(),
            time_kind: TimeKind::Date,
            columns: vec!["y".into()],
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
        let (validation, test) = (split.validation, split.test);
        let borders =
            [split.train.end, validation.from, validation.until, test.from, test.until].map(days);
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
        check_refused(&border("1999-01-01"), "the data ends at 1970-01-10");
        check_refused(&border("1970-01-01"), "must lie after 1970-01-01");
        let backwards = SplitSettings {
            train_end: Some("1970-01-05".into()),
            validation_end: Some("1970-01-03".into()),
            ..base
        };
        check_refused(&backwards, "split.validation_end is 1970-01-03");
    }
}
