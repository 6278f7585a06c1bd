//! `train.nonfinite`: what becomes of a step whose loss or gradients are no numbers. It never changes a
//! weight; whether the run then ends or goes on is the setting's to say.
//!
//! The host finds out when it reads losses. It then knows the step, and by the batch that was lost names
//! series and times to look at.

use crate::unread::{Found, Windows};
use millstream_data::Plan;
use serde::{Deserialize, Serialize};

/// What becomes of a run with a step whose loss or gradients are no numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nonfinite {
    /// It ends with an error; the checkpoint before it stays.
    #[default]
    Stop,
    /// It goes on without that step, and says so.
    Skip,
}

/// So many windows are named.
const NAMED: usize = 3;

/// What was no number.
pub(crate) fn what(found: &Found) -> String {
    if found.loss.is_finite() {
        // Of the loss that was read nothing is wrong.
        "a gradient is not finite".to_owned()
    } else {
        format!("the training loss is {}", found.loss)
    }
}

/// The windows of a batch: some of them by name.
pub(crate) fn windows(plan: &Plan, found: &Found, windows: &Windows) -> String {
    let count = found.windows;
    let kind = plan.schema.time_kind;
    let name = |at: usize| {
        let series = plan.panel.series.get(windows.series[at] as usize);
        let time = kind.format(windows.times[at]);
        match series.filter(|_| plan.schema.series_column.is_some()) {
            None => format!("up to {time}"),
            Some(series) => format!("{series} up to {time}"),
        }
    };
    let named: Vec<String> = found.at.clone().take(NAMED).map(name).collect();
    match count.saturating_sub(named.len() as u64) {
        0 => format!("the windows {}", named.join(", ")),
        more if named.is_empty() => {
            format!("{more} windows, too many steps ago to be named (lower train.log_every)")
        }
        more => format!("the windows {} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::ops::Range;

    fn found(loss: f64, windows: u64, at: Range<usize>) -> Found {
        Found { step: 1, windows, loss, skipped: true, at }
    }

    #[test]
    fn some_windows_are_named_and_the_others_counted() {
        let plan = sample::plan(1, [8, 0, 0]);
        let seen = Windows { series: vec![2, 0, 1, 1, 0], times: vec![5, 6, 7, 8, 9] };
        let check = |count, at, expected: &str| {
            assert_eq!(windows(&plan, &found(f64::NAN, count, at), &seen), expected);
        };
        check(1, 1..2, "the windows a up to 6");
        check(5, 0..5, "the windows c up to 5, a up to 6, b up to 7 and 2 more");
        check(4, 5..5, "4 windows, too many steps ago to be named (lower train.log_every)");
        let mut plan = plan.clone();
        plan.schema.series_column = None;
        let text = windows(&plan, &found(f64::NAN, 1, 0..1), &seen);
        assert_eq!(text, "the windows up to 5", "a table of one series names none");
    }

    #[test]
    fn what_was_no_number_is_said() {
        assert_eq!(what(&found(f64::NAN, 1, 0..0)), "the training loss is NaN");
        assert_eq!(what(&found(f64::INFINITY, 1, 0..0)), "the training loss is inf");
        assert_eq!(what(&found(0.5, 1, 0..0)), "a gradient is not finite");
    }
}
