//! What a person sees while a line runs: bars on a terminal, plain lines elsewhere, on stderr.
//!
//! A [`Display`] says lines and draws the one bar; what the bar shows of a load or a training run is
//! in `loading_bar.rs` and `training_bar.rs`. Bars are made for terminals of 60 columns and more.

use crate::{loading_bar::LoadingBar, messages::tell, training_bar::TrainingBar};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_data::WindowCounts;
use std::{
    io::{IsTerminal, stderr},
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
            self.bar.suspend(|| tell(line));
        } else if !self.quiet {
            tell(line);
        }
    }

    /// The bar of a load, on this display.
    pub(crate) fn loading(&self) -> LoadingBar {
        LoadingBar::new(self.clone())
    }

    /// The bar of a training run, on this display.
    pub(crate) fn training(&self) -> TrainingBar {
        TrainingBar::new(self.clone())
    }

    pub(crate) fn predicting(&self, windows: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.measure(total, "{wide_bar} {pos}/{len} windows forecast, {eta} left");
        }
        self.bar.set_position(windows);
    }

    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }

    /// Whether anybody sees the bar.
    pub(crate) fn has_bar(&self) -> bool {
        self.terminal
    }

    /// Seconds since the display was made.
    pub(crate) fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }

    /// Makes the bar one of `total`, from its start.
    pub(crate) fn measure(&self, total: u64, template: &str) {
        self.bar.disable_steady_tick();
        self.bar.set_style(style(template));
        self.bar.set_length(total);
        self.bar.set_position(0);
        self.bar.reset_eta();
    }

    /// Corrects how much there will be.
    pub(crate) fn expect(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Makes the bar one without an end.
    pub(crate) fn spin(&self, template: &str) {
        self.bar.set_style(style(template));
        self.bar.unset_length();
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// Moves the bar and says what it shows.
    pub(crate) fn reached(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.bar.set_message(message);
    }
}

/// How many windows and series there would be besides, and why there are not; `None` when all are
/// there.
pub(crate) fn left_out(counts: &WindowCounts) -> Option<String> {
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
    (!reasons.is_empty()).then(|| format!("left out: {}", reasons.join(", ")))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template written here is valid")
}

/// At most five characters: 1234567 as `1.23M`.
pub(crate) fn brief(number: u64) -> String {
    let (mut size, mut unit) = (number as f64, "");
    for larger in ["k", "M", "G", "T"] {
        // What would be rounded to four digits is one of the next unit.
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1e3, larger);
    }
    match size {
        _ if unit.is_empty() => number.to_string(),
        size if size < 9.995 => format!("{size:.2}{unit}"),
        size if size < 99.95 => format!("{size:.1}{unit}"),
        size => format!("{size:.0}{unit}"),
    }
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

/// A terminal that remembers what is drawn on it.
#[cfg(test)]
pub(crate) mod screen {
    use super::Display;
    use indicatif::{ProgressBar, ProgressDrawTarget, TermLike};
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    #[derive(Debug, Clone)]
    pub(crate) struct Screen {
        columns: u16,
        drawn: Arc<Mutex<String>>,
    }

    impl Screen {
        pub(crate) fn new(columns: u16) -> Self {
            Screen { columns, drawn: Arc::default() }
        }

        /// The line that was drawn last, without what pads it.
        pub(crate) fn last(&self) -> String {
            self.drawn.lock().unwrap().trim_end().to_owned()
        }
    }

    impl Display {
        pub(crate) fn on(screen: Screen) -> Self {
            let target = ProgressDrawTarget::term_like(Box::new(screen));
            let bar = ProgressBar::with_draw_target(None, target);
            Display { bar, terminal: true, quiet: false }
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.drawn.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.drawn.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_named_where_there_is_some() {
        assert_eq!(left_out(&WindowCounts { train: 9, ..WindowCounts::default() }), None);
        let some =
            WindowCounts { missing_input: 1_500, short_series: 2, ..WindowCounts::default() };
        let expected = "left out: 1,500 windows with a missing input, 2 series too short";
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
        let expected = "left out: 1 window with a missing target, 2 windows with a missing \
                        reference, 3 windows with a missing input, 4 windows across a border of the \
                        parts, 5 windows in an embargo, 6 windows outside the parts, 7 series too \
                        short";
        assert_eq!(left_out(&all).as_deref(), Some(expected));
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn brief_numbers_have_three_digits() {
        for (number, expected) in [
            (999, "999"),
            (1_000, "1.00k"),
            (12_345, "12.3k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (9_999_000, "10.0M"),
            (123_456_789, "123M"),
        ] {
            assert_eq!(brief(number), expected);
        }
    }
}
