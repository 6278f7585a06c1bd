//! Rows that are older than those who ask for the newest forecasts may think.
//!
//! How old is too old is told by the data: steps are counted in times that the panel has, so that no
//! calendar is needed, and a gap is as long as those that there have been.

use crate::{forecast_ends::Known, split::SplitPart};
use millstream_data::{PanelSchema, TimeKind, list_names};

/// A series may be so many steps behind the others: some are suspended for days.
const STEPS_BEHIND: usize = 5;

/// Times at the end of the panel by which gaps are judged: a year of trading days.
const RECENT: usize = 250;

/// Names that a line lists.
const LISTED: usize = 5;

/// Says which series end well before the newest row of all.
pub(crate) fn series_behind(
    known: &Known<'_>,
    part: &SplitPart,
    schema: &PanelSchema,
) -> Option<String> {
    let recent = recent_times(known);
    let newest = *recent.last()?;
    let is_behind = |series: &&crate::SeriesRows| {
        let own = known.times(series);
        let Some(last) = own.last() else { return false };
        let steps = recent.len() - recent.partition_point(|time| time <= last);
        // Where every series has times of its own, those of others are no steps of it.
        let own_step = usual(&gaps(&own[own.len().saturating_sub(RECENT)..])).unwrap_or(0);
        steps > STEPS_BEHIND
            && newest.saturating_sub(*last) > own_step.saturating_mul(STEPS_BEHIND as i64)
    };
    let chosen = known.series().iter().filter(|series| part.has_series(series.code));
    let behind: Vec<&str> = chosen
        .filter(is_behind)
        .map(|series| schema.series[series.code as usize].as_str())
        .collect();
    (!behind.is_empty()).then(|| {
        format!(
            "the newest row of {} series is more than {STEPS_BEHIND} steps older than {}, the newest of all, and forecasts count from there: {}",
            behind.len(),
            schema.format_time(newest),
            list_names(&behind, LISTED)
        )
    })
}

/// Says that the newest row of all is older than the present by more than any gap there has been lately.
pub(crate) fn behind_the_present(
    known: &Known<'_>,
    schema: &PanelSchema,
    now: Option<i64>,
) -> Option<String> {
    if schema.time_kind == TimeKind::Integer {
        return None;
    }
    let (now, recent) = (now?, recent_times(known));
    let (newest, gaps) = (*recent.last()?, gaps(&recent));
    // A row of a day is there when the day is over: one step more than the longest gap.
    let (longest, step) = (*gaps.iter().max()?, usual(&gaps)?);
    let age = now.saturating_sub(newest);
    (age > longest.saturating_add(step)).then(|| {
        format!(
            "the newest row is of {}, {} before {}, though a step is {} and no gap of late was longer than {}: are the data up to date?",
            schema.format_time(newest),
            duration(age),
            schema.format_time(now),
            duration(step),
            duration(longest)
        )
    })
}

/// The longest time without a row of late.
pub(crate) fn longest_gap(known: &Known<'_>) -> Option<i64> {
    gaps(&recent_times(known)).into_iter().max()
}

/// The last distinct times that any series has, in order.
fn recent_times(known: &Known<'_>) -> Vec<i64> {
    let mut recent: Vec<i64> = Vec::new();
    for series in known.series() {
        let own = known.times(series);
        recent.extend(&own[own.len().saturating_sub(RECENT)..]);
        if recent.len() > 64 * RECENT {
            keep_last(&mut recent);
        }
    }
    keep_last(&mut recent);
    recent
}

fn keep_last(times: &mut Vec<i64>) {
    times.sort_unstable();
    times.dedup();
    times.drain(..times.len().saturating_sub(RECENT));
}

/// Between times that follow each other.
fn gaps(times: &[i64]) -> Vec<i64> {
    times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// The gap in the middle.
fn usual(gaps: &[i64]) -> Option<i64> {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Microseconds as a person says them.
fn duration(micros: i64) -> String {
    let seconds = micros as f64 / 1e6;
    let units = [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")];
    match units.into_iter().find(|(size, _)| seconds >= *size) {
        Some((size, "days")) if seconds / size < 1.05 => "1 day".to_owned(),
        Some((size, unit)) => {
            let count = (seconds / size * 10.0).round() / 10.0;
            format!("{count} {unit}")
        }
        None => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{panel_rows::SeriesRows, split::Span};

    const DAY: i64 = 86_400_000_000;

    /// The days of these series, end to end.
    struct Days {
        times: Vec<i64>,
        series: Vec<SeriesRows>,
        schema: PanelSchema,
    }

    impl Days {
        fn new(series: &[Vec<i64>]) -> Self {
            let mut days = Days {
                times: Vec::new(),
                series: Vec::new(),
                schema: PanelSchema {
                    series_column: Some("symbol".into()),
                    time_column: "day".into(),
                    time_kind: TimeKind::Date,
                    columns: Vec::new(),
                    kinds: Vec::new(),
                    inputs: 0,
                    series: (0..series.len()).map(|code| format!("s{code}")).collect(),
                    fingerprint: String::new(),
                },
            };
            for (code, own) in (0..).zip(series) {
                let start = days.times.len();
                days.times.extend(own.iter().map(|day| day * DAY));
                days.series.push(SeriesRows { code, start, end: days.times.len() });
            }
            days
        }

        fn known(&self) -> Known<'_> {
            Known::of_times(&self.times, self.series.clone())
        }

        fn behind(&self) -> Option<String> {
            series_behind(&self.known(), &SplitPart::times(Span::ALL), &self.schema)
        }

        fn now(&self, hours: i64) -> Option<String> {
            behind_the_present(&self.known(), &self.schema, Some(hours * DAY / 24))
        }
    }

    /// Working days from Monday 1970-01-05 on, as many.
    fn working_days(count: usize) -> Vec<i64> {
        (4..).filter(|day| (day - 4) % 7 < 5).take(count).collect()
    }

    #[test]
    fn a_series_that_ended_long_ago_is_named_and_one_that_rests_is_not() {
        let all = working_days(60);
        let days = Days::new(&[all.clone(), all[..54].to_vec(), all[..55].to_vec(), Vec::new()]);
        let line = days.behind().unwrap();
        assert!(
            line.starts_with("the newest row of 1 series is more than 5 steps older"),
            "{line}"
        );
        assert!(line.ends_with("count from there: s1"), "{line}");
        assert_eq!(Days::new(&[all.clone(), all[..55].to_vec()]).behind(), None);
    }

    /// Each has a time of its own, of which the others know nothing.
    #[test]
    fn times_of_other_series_are_no_steps() {
        let offset = |by: i64| (0..40).map(|step| step * 100 + by).collect::<Vec<i64>>();
        let series: Vec<Vec<i64>> = (0..20).map(|code| offset(code * 4)).collect();
        assert_eq!(Days::new(&series).behind(), None);
    }

    #[test]
    fn a_weekend_is_no_age_and_a_fortnight_is() {
        let days = Days::new(&[working_days(60)]);
        let friday = *working_days(60).last().unwrap();
        assert_eq!((friday - 4) % 7, 4);
        let hours = |days: i64| (friday + days) * 24;
        assert_eq!(days.now(hours(3) + 15), None, "on Monday afternoon");
        let line = days.now(hours(14)).unwrap();
        assert!(line.contains(", 14 days before 1970-04-10, though a step is 1 day"), "{line}");
        assert!(line.contains("no gap of late was longer than 3 days"), "{line}");
        let numbers = PanelSchema { time_kind: TimeKind::Integer, ..days.schema.clone() };
        let far = Some(i64::MAX);
        assert_eq!(behind_the_present(&days.known(), &numbers, far), None);
        assert!(behind_the_present(&days.known(), &days.schema, far).is_some());
    }
}
