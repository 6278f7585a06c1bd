//! What lies between the parts of a split: windows that belong to none, and parts without a window.

use crate::{
    error::NormalizeError,
    rows::ScaledRows,
    settings::{SplitBy, SplitSettings},
    split::{Span, Split, SplitPart, distinct_times},
    windows::WindowShape,
};
use millstream_data::{Panel, WindowCounts};

/// Windows that belong to no part, by the first reason that holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Between {
    /// All targets lie before the first part or past the end of the last.
    pub(crate) outside: u64,
    /// A target lies in the embargo after a border.
    pub(crate) embargoed: u64,
    /// Targets lie on both sides of a border.
    pub(crate) across_border: u64,
}

impl Between {
    /// Counts the windows of all series that belong to no part, whatever the stride of training.
    pub(crate) fn count(rows: &ScaledRows, shape: WindowShape, split: &Split) -> Self {
        let mut found = Between::default();
        let parts = [split.train().part(), &split.validation, &split.test];
        let [train, validation, test] = parts.map(|part| part.span);
        let embargoes = [
            Span { from: train.until, until: validation.from },
            Span { from: validation.until, until: test.from },
        ];
        for series in rows.series() {
            let own: Vec<&SplitPart> =
                parts.into_iter().filter(|part| part.has_series(series.code)).collect();
            let first = series.start + shape.min_rows - 1;
            let ends = first..series.end.saturating_sub(shape.reach());
            for row in ends {
                let targets = &rows.times()[shape.outcomes(row)];
                let (from, until) = (targets[0], targets[targets.len() - 1]);
                let inside =
                    |part: &&SplitPart| part.span.contains(from) && part.span.contains(until);
                let embargoed = |time: &i64| embargoes.iter().any(|span| span.contains(*time));
                if own.iter().any(inside) {
                    continue;
                } else if until < train.from || from >= test.until {
                    found.outside += 1;
                } else if targets.iter().any(embargoed) {
                    found.embargoed += 1;
                } else {
                    found.across_border += 1;
                }
            }
        }
        found
    }
}

/// Says of every part but the first that it has no window, with the numbers.
///
/// # Errors
/// [`NormalizeError::Embargo`] when nothing is left to judge the model by, and the embargo is why.
pub(crate) fn empty_parts(
    panel: &Panel,
    split: &Split,
    settings: &SplitSettings,
    windows: &WindowCounts,
    horizon: usize,
) -> Result<Vec<String>, NormalizeError> {
    let empty = [
        (windows.validation, "validate", &split.validation, "the last epoch counts as the best"),
        (windows.test, "test", &split.test, "there are no figures of unseen data"),
    ];
    let empty: Vec<_> = empty.into_iter().filter(|(windows, ..)| *windows == 0).collect();
    if empty.is_empty() {
        return Ok(Vec::new());
    }
    let times = distinct_times(panel);
    let count = |span: Span| times.iter().filter(|time| span.contains(**time)).count();
    if empty.len() == 2 && settings.embargo > 0 {
        let (train, validation, test) =
            (split.train().part().span, split.validation.span, split.test.span);
        let validation_times = count(Span { from: train.until, until: validation.until });
        let test_times = count(Span { from: validation.until, until: test.until });
        let most = validation_times.max(test_times).saturating_sub(horizon);
        // Where even no embargo would leave a window, it is not to blame.
        if validation_times.max(test_times) >= horizon {
            return Err(NormalizeError::Embargo {
                embargo: settings.embargo,
                validation_times,
                test_times,
                most,
            });
        }
    }
    let line = |(_, verb, part, so): (u64, &str, &SplitPart, &str)| match settings.by {
        SplitBy::Time => {
            let held = count(part.span);
            let embargo = match settings.embargo {
                0 => String::new(),
                embargo => format!(" after {embargo} of split.embargo"),
            };
            format!(
                "no window to {verb} with: that part has {held} of {} distinct times{embargo}, and a window needs {horizon} in a row; {so}",
                times.len()
            )
        }
        SplitBy::Series => {
            let series = panel.schema().series.len();
            let held = (0..series as u32).filter(|code| part.has_series(*code)).count();
            format!(
                "no window to {verb} with: that part has {held} of {series} series, none with a whole window; {so}"
            )
        }
    };
    Ok(empty.into_iter().map(line).collect())
}
