//! What a person sees while a line runs: bars on a terminal, plain lines elsewhere, on stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_loader::{LoadProgress, Origin};
use millstream_stage::WindowCounts;
use millstream_trainer::Progress;
use std::{
    collections::BTreeSet,
    io::{IsTerminal, stderr},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Where messages and bars go.
#[derive(Debug, Clone)]
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    quiet: bool,
}

impl Display {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = stderr().is_terminal() && !quiet;
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Display { bar: ProgressBar::with_draw_target(None, target), terminal, quiet }
    }

    /// One line that stays.
    pub(crate) fn say(&self, line: &str) {
        if self.terminal {
            self.bar.suspend(|| eprintln!("{line}"));
        } else if !self.quiet {
            eprintln!("{line}");
        }
    }

    pub(crate) fn loading(&self, progress: LoadProgress) {
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        let speed = progress
            .bytes
            .map(|bytes| format!(", {:.0} MB/s", bytes as f64 / 1e6 / seconds))
            .unwrap_or_default();
        match progress.expected.filter(|_| progress.origin == Origin::Source) {
            Some(expected) => {
                // What the server believes may be too little.
                let expected = expected.max(progress.rows);
                if self.bar.length().is_none() {
                    self.measured(expected, "{bar:30} loading {msg}, {eta} left");
                }
                self.bar.set_length(expected);
                self.bar.set_position(progress.rows);
                let (rows, expected) = (grouped(progress.rows), grouped(expected));
                self.bar.set_message(format!("{rows} of about {expected} rows{speed}"));
            }
            None => {
                if !self.bar.is_finished() && self.bar.length().is_none() {
                    self.bar.set_style(style("{spinner} loading {msg}"));
                    self.bar.enable_steady_tick(Duration::from_millis(100));
                }
                let rows = grouped(progress.rows);
                self.bar.set_message(format!("{rows} rows {}{speed}", progress.origin));
            }
        }
    }

    pub(crate) fn training(&self, progress: &Progress) {
        match progress {
            Progress::Started { plan, steps_total } => {
                let windows = plan.windows;
                self.say(&format!(
                    "windows   {} to learn from, {} to validate, {} to test",
                    grouped(windows.train),
                    grouped(windows.validation),
                    grouped(windows.test),
                ));
                if let Some(line) = left_out(&windows) {
                    self.say(&line);
                }
                for warning in plan.warnings.iter().filter(|warning| is_news(warning)) {
                    self.say(&format!("warning: {warning}"));
                }
                self.measured(*steps_total, "{bar:30} step {pos}/{len}, {eta} left {msg}");
            }
            Progress::Step { step, .. } => self.bar.set_position(*step),
            Progress::Log(line) => self.bar.set_message(format!("· loss {:.4}", line.loss)),
            Progress::EpochDone { epoch, train_loss, validation_loss } => {
                let part =
                    |name: &str, loss: &Option<f64>| loss.map(|l| format!("{name} loss {l:.4}"));
                let parts = [part("train", train_loss), part("validation", validation_loss)];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                let before = if *epoch == 0 { " (before training)" } else { "" };
                self.say(&format!("epoch {epoch:<3} {}{before}", parts.join(", ")));
            }
            Progress::Testing => self.bar.set_message("· testing"),
            _ => {}
        }
    }

    pub(crate) fn predicting(&self, windows: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.measured(total, "{bar:30} {pos}/{len} windows forecast, {eta} left");
        }
        self.bar.set_position(windows);
    }

    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }

    fn measured(&self, total: u64, template: &str) {
        self.bar.disable_steady_tick();
        self.bar.set_style(style(template));
        self.bar.set_length(total);
        self.bar.set_position(0);
        self.bar.reset_eta();
    }
}

/// Whether this process has not been asked about this warning before: a run that is resumed would
/// say it again.
fn is_news(warning: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // A panic elsewhere leaves the set as good as it was.
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.insert(warning.to_owned())
}

/// How many windows and series there would be besides, and why there are not; `None` when all are
/// there.
fn left_out(counts: &WindowCounts) -> Option<String> {
    let windows = |count| if count == 1 { "window" } else { "windows" };
    let reasons = [
        (counts.missing_target, windows(counts.missing_target), "with a missing target"),
        (counts.missing_reference, windows(counts.missing_reference), "with a missing reference"),
        (counts.missing_input, windows(counts.missing_input), "with a missing input"),
        (counts.across_border, windows(counts.across_border), "across a border of the parts"),
        (counts.embargoed, windows(counts.embargoed), "in an embargo"),
        (counts.outside, windows(counts.outside), "outside the parts"),
        (counts.short_series, "series", "too short"),
    ];
    let reasons = reasons.into_iter().filter(|(count, ..)| *count > 0);
    let reasons: Vec<String> =
        reasons.map(|(count, what, why)| format!("{} {what} {why}", grouped(count))).collect();
    (!reasons.is_empty()).then(|| format!("left out  {}", reasons.join(", ")))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template written here is valid")
}

/// 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_named_where_there_is_some() {
        assert_eq!(left_out(&WindowCounts { train: 9, ..WindowCounts::default() }), None);
        let some =
            WindowCounts { missing_input: 1_500, short_series: 2, ..WindowCounts::default() };
        let expected = "left out  1,500 windows with a missing input, 2 series too short";
        assert_eq!(left_out(&some).as_deref(), Some(expected));
        let all = WindowCounts {
            missing_target: 1,
            missing_reference: 2,
            missing_input: 3,
            across_border: 4,
            embargoed: 5,
            outside: 6,
            short_series: 7,
            ..WindowCounts::default()
        };
        let expected = "left out  1 window with a missing target, 2 windows with a missing \
                        reference, 3 windows with a missing input, 4 windows across a border of the \
                        parts, 5 windows in an embargo, 6 windows outside the parts, 7 series too \
                        short";
        assert_eq!(left_out(&all).as_deref(), Some(expected));
    }

    #[test]
    fn a_warning_is_news_once() {
        let found = ["a is constant", "b is constant", "a is constant"].map(is_news);
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected);
        }
    }
}
