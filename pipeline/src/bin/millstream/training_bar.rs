//! The bar of a training run: one for its steps, one for every look at validation or test windows.

use crate::display::{Display, brief};
use millstream::{Progress, grouped};
use millstream_data::{Phase, WindowCounts};
use std::time::{Duration, Instant};

/// Shows how a run goes.
#[derive(Debug)]
pub(crate) struct TrainingBar {
    display: Display,
    epochs: u32,
    /// What the bar shows.
    shows: Option<Shows>,
    /// When the first step was over, and how many there were then: before it, the line starts up.
    first: Option<Mark>,
    /// The same for this epoch, in windows: between epochs nothing is learned.
    epoch: Option<Mark>,
    loss: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Steps,
    /// Of this phase and epoch.
    Windows(Phase, u32),
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    count: u64,
}

impl TrainingBar {
    pub(crate) fn new(display: Display) -> Self {
        TrainingBar { display, epochs: 0, shows: None, first: None, epoch: None, loss: None }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match *progress {
            Progress::Started { ref plan, .. } => {
                self.display.say(&windows(&plan.windows));
                self.epochs = plan.epochs;
            }
            Progress::Step { epoch, step, steps_total, samples } => {
                self.step(Instant::now(), epoch, step, steps_total, samples);
            }
            Progress::Log(line) => self.loss = Some(line.loss),
            Progress::Evaluating { phase, epoch, windows, of } => {
                self.evaluating(phase, epoch, windows, of);
            }
            Progress::EpochDone { epoch, train_loss, validation_loss } => {
                self.epoch = None;
                let part =
                    |name: &str, loss: Option<f64>| loss.map(|l| format!("{name} loss {l:.4}"));
                let parts = [part("train", train_loss), part("validation", validation_loss)];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                let before = if epoch == 0 { " (before training)" } else { "" };
                self.display.say(&format!("epoch {epoch:<3} {}{before}", parts.join(", ")));
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, shows: Shows, total: u64) {
        if self.shows != Some(shows) {
            self.shows = Some(shows);
            self.display.measure(total, "{wide_bar} {msg}");
        }
    }

    fn step(&mut self, now: Instant, epoch: u32, step: u64, steps_total: u64, samples: u64) {
        self.turn_to(Shows::Steps, steps_total);
        let first = *self.first.get_or_insert(Mark { at: now, count: step });
        let begun = *self.epoch.get_or_insert(Mark { at: now, count: samples });
        if !self.display.has_bar() {
            return;
        }
        let mut parts = vec![format!("epoch {epoch}/{}", self.epochs)];
        let seconds = (now - begun.at).as_secs_f64();
        if seconds > 0.0 {
            let rate = (samples - begun.count) as f64 / seconds;
            parts.push(format!("{} windows/s", brief(rate as u64)));
        }
        if let Some(left) = left(now - first.at, step - first.count, steps_total - step) {
            parts.push(format!("{} left", length(left)));
        }
        parts.extend(self.loss.map(|loss| format!("loss {loss:.4}")));
        self.display.reached(step, parts.join(", "));
    }

    fn evaluating(&mut self, phase: Phase, epoch: u32, windows: u64, of: u64) {
        self.turn_to(Shows::Windows(phase, epoch), of);
        if !self.display.has_bar() {
            return;
        }
        let what = match (phase, epoch) {
            (Phase::Test, _) => "testing".to_owned(),
            (_, 0) => "validating before training".to_owned(),
            _ => format!("epoch {epoch}/{}, validating", self.epochs),
        };
        let message = format!("{what}, {} of {} windows", brief(windows), brief(of));
        self.display.reached(windows, message);
    }
}

fn windows(counts: &WindowCounts) -> String {
    format!(
        "windows   {} to learn from, {} to validate, {} to test",
        grouped(counts.train),
        grouped(counts.validation),
        grouped(counts.test),
    )
}

/// How long the steps that are left will take, judged by those since the first.
fn left(elapsed: Duration, done: u64, left: u64) -> Option<Duration> {
    let each = elapsed.as_secs_f64() / done as f64;
    Duration::try_from_secs_f64(each * left as f64).ok()
}

/// At most six characters.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::screen::Screen;

    const COLUMNS: u16 = 60;

    fn bar() -> (TrainingBar, Screen) {
        let screen = Screen::new(COLUMNS);
        let mut bar = TrainingBar::new(Display::on(screen.clone()));
        bar.epochs = 100;
        (bar, screen)
    }

    fn check(screen: &Screen, expected: &[&str]) {
        let line = screen.last();
        for part in expected {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        let columns = line.chars().count();
        assert!(columns <= usize::from(COLUMNS), "{columns} columns: {line:?}");
    }

    #[test]
    fn the_time_left_is_counted_from_the_first_step() {
        let (mut bar, screen) = bar();
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        bar.step(begun, 1, 1, 101, 256);
        let first = screen.last();
        assert!(!first.contains("left") && !first.contains("windows/s"), "{first}");
        bar.step(after(10), 1, 11, 101, 256 + 123_450);
        check(&screen, &["epoch 1/100", "12.3k windows/s", "1m30s left"]);
        // The second epoch begins after a long validation, which its speed does not contain.
        bar.show(&Progress::EpochDone { epoch: 1, train_loss: None, validation_loss: None });
        bar.step(after(40), 2, 51, 101, 200_000);
        bar.step(after(50), 2, 61, 101, 300_000);
        check(&screen, &["epoch 2/100", "10.0k windows/s", "33s left"]);
    }

    #[test]
    fn a_look_at_validation_or_test_windows_has_a_bar_of_its_own() {
        let (mut bar, screen) = bar();
        let look =
            |phase, epoch, windows| Progress::Evaluating { phase, epoch, windows, of: 20_000 };
        bar.show(&look(Phase::Validation, 0, 5_000));
        check(&screen, &["validating before training, 5.00k of 20.0k windows"]);
        bar.step(Instant::now(), 1, 7, 100, 256);
        check(&screen, &["epoch 1/100"]);
        bar.show(&look(Phase::Validation, 100, 20_000));
        check(&screen, &["epoch 100/100, validating, 20.0k of 20.0k windows"]);
        bar.show(&look(Phase::Test, 100, 1));
        check(&screen, &["testing, 1 of 20.0k windows"]);
    }

    #[test]
    fn the_longest_line_fits() {
        let (mut bar, screen) = bar();
        let begun = Instant::now();
        bar.loss = Some(1234.5678);
        bar.step(begun, 100, 1, 100_000_000, 0);
        let later = begun + Duration::from_secs(60);
        bar.step(later, 100, 1_001, 100_000_000, 740_000_000);
        check(&screen, &["epoch 100/100", "12.3M windows/s", "69d10h left", "loss 1234.5678"]);
    }

    #[test]
    fn times_are_short() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (61, "1m01s"), (3_660, "1h01m"), (90_000, "1d01h")]
        {
            assert_eq!(length(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(left(Duration::from_secs(1), 0, 5), None, "nothing to judge by");
    }
}
