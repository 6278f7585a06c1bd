//! What a person sees while a line runs: bars on a terminal, plain lines elsewhere, on stderr.
//!
//! A [`Display`] says lines and draws the one bar; what the bar shows of a load or a training run is
//! in `loading_bar.rs` and `training_bar.rs`. Bars are made for terminals of 60 columns and more.

use crate::{
    backtest_bar::BacktestBar, interrupt, loading_bar::LoadingBar, messages::tell, ticker::Ticker,
    training_bar::TrainingBar,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream::{Event, FoldProgress, PredictProgress, Progress, Watch, resume_command};
use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Where messages and bars go.
#[derive(Debug, Clone)]
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    quiet: bool,
    /// How wide it is; `None` to ask the terminal.
    columns: Option<u16>,
}

impl Display {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = stderr().is_terminal() && !quiet;
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        Display { bar, terminal, quiet, columns: None }
    }

    /// One line that stays.
    pub(crate) fn say(&self, line: &str) {
        if self.terminal {
            self.bar.suspend(|| tell(line));
        } else if !self.quiet {
            tell(line);
        }
    }

    /// A warning, at once.
    pub(crate) fn warn(&self, line: &str) {
        self.say(&format!("warning: {line}"));
    }

    /// Shows here what happens.
    pub(crate) fn watch(&self) -> Watch {
        self.watch_anew(&Watch::default())
    }

    /// Shows here what happens, while warnings go where those of `watch` go.
    pub(crate) fn watch_as(&self, watch: &Watch) -> Watch {
        let (display, bars) = (self.clone(), Arc::new(Mutex::new(Bars::on(self))));
        let ticker = Mutex::new(None);
        watch.clone().on_event(move |event| {
            // Before the bars are locked: the ticker may be waiting for them.
            if let Event::Ended = event {
                drop(lock(&ticker).take());
            }
            lock(&bars).show(&display, event);
            if let (Event::Running(_), true) = (event, display.has_bar()) {
                let bars = Arc::clone(&bars);
                *lock(&ticker) = Ticker::start(move || lock(&bars).tick());
            }
        })
    }

    /// The same for one more run: what stops the others stops it, but its warnings are its own.
    pub(crate) fn watch_anew(&self, watch: &Watch) -> Watch {
        let display = self.clone();
        self.watch_as(&watch.clone().on_warning(move |line| display.warn(line)))
    }

    fn predicting(&self, windows: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.measure(total, "{wide_bar} {pos}/{len} windows forecast, {eta} left");
        }
        self.bar.set_position(windows);
    }

    fn done(&self) {
        self.bar.finish_and_clear();
    }

    /// Whether anybody sees the bar.
    pub(crate) fn has_bar(&self) -> bool {
        self.terminal
    }

    /// Columns of the terminal.
    pub(crate) fn columns(&self) -> usize {
        let asked = || rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| size.ws_col);
        match self.columns.unwrap_or_else(asked) {
            // Some terminals do not know.
            0 => 80,
            columns => columns.into(),
        }
    }

    /// As much as one line has room for, beside a bar of at least nothing: the parts, as far as they go.
    pub(crate) fn fitting(&self, mut parts: Vec<String>) -> String {
        loop {
            let message = parts.join(", ");
            if message.chars().count() < self.columns() || parts.pop().is_none() {
                return message;
            }
        }
    }

    /// Seconds since the display was made.
    pub(crate) fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }

    /// Makes the bar one of `total`, from its start.
    pub(crate) fn measure(&self, total: u64, template: &str) {
        self.bar.disable_steady_tick();
        self.revive();
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
        self.revive();
        self.bar.set_style(style(template));
        self.bar.unset_length();
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// A bar that was cleared at the end of a line is drawn once more by the next, but never cleared.
    fn revive(&self) {
        if self.bar.is_finished() {
            self.bar.reset();
        }
    }

    /// Moves the bar and says what it shows.
    pub(crate) fn reached(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.bar.set_message(message);
    }
}

/// What the bar shows of each kind of event.
#[derive(Debug)]
struct Bars {
    loading: LoadingBar,
    training: TrainingBar,
    /// In place of that of training, once a fold of a backtest has begun.
    backtest: Option<BacktestBar>,
    /// The folder that was told of.
    folder: PathBuf,
}

impl Bars {
    fn on(display: &Display) -> Self {
        let (loading, training) =
            (LoadingBar::new(display.clone()), TrainingBar::new(display.clone()));
        Bars { loading, training, backtest: None, folder: PathBuf::new() }
    }

    /// Another fold of a backtest begins. What the folds before have saved is there.
    fn begin_fold(&mut self, display: &Display, fold: FoldProgress) {
        if fold.fold > 1 {
            let command = resume_command(&self.folder);
            interrupt::nothing_to_save(format!("interrupted; go on with: {command}"));
        }
        match &mut self.backtest {
            Some(bar) => bar.begin(fold),
            None => self.backtest = Some(BacktestBar::new(display.clone(), fold)),
        }
    }

    /// Shows what only a backtest shows in another way; whether it did.
    fn shown_by_backtest(&mut self, display: &Display, event: Event<'_>) -> bool {
        let Some(bar) = &mut self.backtest else { return false };
        match event {
            // The folders of its folds are in its own.
            Event::Started(_) | Event::Running(_) => {}
            Event::Training(progress) => {
                if let Progress::Started { .. } = progress {
                    interrupt::is_under_way();
                }
                bar.show(progress);
            }
            Event::Forecasting(PredictProgress::Started { .. }) => {
                interrupt::is_under_way();
                bar.forecasting();
            }
            Event::Forecasting(_) => {}
            Event::Ended => {
                bar.cleared();
                display.done();
            }
            _ => return false,
        }
        true
    }

    fn show(&mut self, display: &Display, event: Event<'_>) {
        if self.shown_by_backtest(display, event) {
            return;
        }
        match event {
            Event::Fold(fold) => self.begin_fold(display, fold),
            Event::Running(counters) => self.training.watch(counters.clone()),
            Event::Loading(progress) => self.loading.show(progress),
            // Not before: a run that finds no data leaves no folder.
            Event::Started(run) => {
                run.clone_into(&mut self.folder);
                display.say(&format!("run       {}", run.display()));
            }
            Event::Training(progress) => {
                if let Progress::Started { .. } = progress {
                    interrupt::is_under_way();
                }
                self.training.show(progress);
            }
            Event::Forecasting(PredictProgress::Started { .. }) => interrupt::is_under_way(),
            Event::Forecasting(PredictProgress::Forecast { windows, of }) => {
                display.predicting(*windows, *of);
            }
            Event::TimeIsUp => {
                display.say("the time of --max-time is over: stopping at the next step");
                interrupt::time_is_up();
            }
            Event::Ended => display.done(),
            _ => {}
        }
    }

    /// Draws what has come since.
    fn tick(&mut self) {
        match &mut self.backtest {
            Some(bar) => bar.tick(Instant::now()),
            None => self.training.tick(Instant::now()),
        }
    }
}

/// A panic elsewhere leaves what is shown as good as it was.
fn lock<T>(shown: &Mutex<T>) -> MutexGuard<'_, T> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
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

        pub(crate) fn columns(&self) -> u16 {
            self.columns
        }

        /// The line that was drawn last, without what pads it.
        pub(crate) fn last(&self) -> String {
            self.drawn.lock().unwrap().trim_end().to_owned()
        }
    }

    impl Display {
        pub(crate) fn on(screen: Screen) -> Self {
            let columns = Some(screen.columns);
            let target = ProgressDrawTarget::term_like(Box::new(screen));
            let bar = ProgressBar::with_draw_target(None, target);
            Display { bar, terminal: true, quiet: false, columns }
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
