//! The bar of a training run: one for its steps, one for every look at validation or test windows.
//!
//! What a run tells is noted, and no more: the trainer calls from between two steps. A ticker draws,
//! from what was noted and from the counters of the line.

use crate::display::{Display, brief};
use millstream::{LineCounters, Progress, StageReport, grouped};
use millstream_data::{Phase, WindowCounts};
use std::time::{Duration, Instant};

/// From so many columns on, words are written out.
const WIDE: usize = 80;

/// Shows how a run goes.
#[derive(Debug)]
pub(crate) struct TrainingBar {
    display: Display,
    epochs: u32,
    counters: Option<LineCounters>,
    /// What the run is at.
    at: Option<At>,
    /// What the bar shows.
    shows: Option<Shows>,
    /// When the first step was over, and how many there were then: before it, the line starts up.
    first: Option<Mark>,
    /// The same for this epoch, in windows: between epochs nothing is learned.
    epoch: Option<Mark>,
    loss: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Step { epoch: u32, step: u64, of: u64, samples: u64 },
    Pass { phase: Phase, epoch: u32, of: u64, begun: u64 },
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

/// What the trainer's counters say.
#[derive(Debug, Clone, Copy, Default)]
struct Trainer {
    /// Windows it has taken, those of the batch at hand included.
    windows: u64,
    /// Share of its time in which it waited for batches.
    wait: Option<f64>,
}

impl TrainingBar {
    pub(crate) fn new(display: Display) -> Self {
        TrainingBar {
            display,
            epochs: 0,
            counters: None,
            at: None,
            shows: None,
            first: None,
            epoch: None,
            loss: None,
        }
    }

    /// Looks at these counters.
    pub(crate) fn watch(&mut self, counters: LineCounters) {
        self.counters = Some(counters);
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match *progress {
            Progress::Started { ref plan, .. } => {
                self.display.say(&windows(&plan.windows));
                self.epochs = plan.epochs;
            }
            Progress::Step { epoch, step, steps_total: of, samples } => {
                self.note(Instant::now, At::Step { epoch, step, of, samples });
            }
            Progress::Log(line) => self.loss = Some(line.loss),
            Progress::Evaluating { phase, epoch, windows: of } => {
                let begun = self.trainer().windows;
                self.at = Some(At::Pass { phase, epoch, of, begun });
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

    /// Notes a step; only the first of an epoch asks for the time.
    fn note(&mut self, now: impl Fn() -> Instant, at: At) {
        if let At::Step { step, samples, .. } = at {
            self.first.get_or_insert_with(|| Mark { at: now(), count: step });
            self.epoch.get_or_insert_with(|| Mark { at: now(), count: samples });
        }
        self.at = Some(at);
    }

    /// Draws where the run is.
    pub(crate) fn tick(&mut self, now: Instant) {
        let trainer = self.trainer();
        match self.at {
            None => {}
            Some(At::Step { epoch, step, of, samples }) => {
                self.turn_to(Shows::Steps, of);
                let parts = self.step(now, epoch, (step, of), samples, trainer.wait);
                self.display.reached(step, self.fitting(parts));
            }
            Some(At::Pass { phase, epoch, of, begun }) => {
                self.turn_to(Shows::Windows(phase, epoch), of);
                // The first batch was at hand when the pass began, as one is now.
                let windows = trainer.windows.saturating_sub(begun).min(of);
                let parts = self.pass(phase, epoch, windows, of);
                self.display.reached(windows, self.fitting(parts));
            }
        }
    }

    fn trainer(&self) -> Trainer {
        let report = self.counters.as_ref().and_then(|counters| counters.reports().pop());
        // Before the line runs, the last stage is another.
        let trainer = report.filter(|report| report.name == "trainer");
        trainer.as_ref().map_or_else(Trainer::default, Trainer::of)
    }

    fn turn_to(&mut self, shows: Shows, total: u64) {
        if self.shows != Some(shows) {
            self.shows = Some(shows);
            self.display.measure(total, "{wide_bar} {msg}");
        }
    }

    /// What is said of the steps, the most important first.
    fn step(
        &self,
        now: Instant,
        epoch: u32,
        (step, of): (u64, u64),
        samples: u64,
        wait: Option<f64>,
    ) -> Vec<String> {
        let wide = self.display.columns() >= WIDE;
        let mut parts = vec![format!("epoch {epoch}/{}", self.epochs)];
        parts.extend(self.loss.map(|loss| format!("loss {}", short(loss))));
        let elapsed = |mark: Mark| now.saturating_duration_since(mark.at);
        if let Some(begun) = self.epoch.filter(|begun| elapsed(*begun) > Duration::ZERO) {
            let rate = (samples - begun.count) as f64 / elapsed(begun).as_secs_f64();
            let unit = if wide { " windows/s" } else { "/s" };
            parts.push(format!("{}{unit}", brief(rate as u64)));
        }
        parts.extend(wait.map(|wait| {
            let share = (100.0 * wait).round();
            if wide { format!("waiting {share} %") } else { format!("wait {share}%") }
        }));
        let first =
            self.first.and_then(|first| left(elapsed(first), step - first.count, of - step));
        parts.extend(first.map(|left| format!("{} left", length(left))));
        parts
    }

    fn pass(&self, phase: Phase, epoch: u32, windows: u64, of: u64) -> Vec<String> {
        let what = match (phase, epoch) {
            (Phase::Test, _) => "testing".to_owned(),
            (_, 0) => "validating before training".to_owned(),
            _ => format!("epoch {epoch}/{}, validating", self.epochs),
        };
        vec![what, format!("{} of {} windows", brief(windows), brief(of))]
    }

    fn fitting(&self, parts: Vec<String>) -> String {
        self.display.fitting(parts)
    }
}

impl Trainer {
    fn of(report: &StageReport) -> Self {
        // Before the second batch there is nothing to judge by.
        let wait = (report.items > 1).then(|| report.wait_share());
        Trainer { windows: report.rows, wait }
    }
}

/// Four digits or so, in at most seven characters.
pub(crate) fn short(loss: f64) -> String {
    match loss.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{loss:.1e}"),
        size if size < 9.999_95 => format!("{loss:.4}"),
        size if size < 99.999_5 => format!("{loss:.3}"),
        size if size < 999.995 => format!("{loss:.2}"),
        size if size < 9_999.95 => format!("{loss:.1}"),
        _ => format!("{loss:.1e}"),
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
pub(crate) fn length(time: Duration) -> String {
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

    fn bar(columns: u16) -> (TrainingBar, Screen) {
        let screen = Screen::new(columns);
        let mut bar = TrainingBar::new(Display::on(screen.clone()));
        bar.epochs = 100;
        (bar, screen)
    }

    fn step(bar: &mut TrainingBar, at: Instant, epoch: u32, step: u64, of: u64, samples: u64) {
        bar.note(|| at, At::Step { epoch, step, of, samples });
        bar.tick(at);
    }

    fn check(screen: &Screen, expected: &[&str]) {
        let line = screen.last();
        for part in expected {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        let columns = line.chars().count();
        assert!(columns <= screen.columns().into(), "{columns} columns: {line:?}");
    }

    #[test]
    fn the_time_left_is_counted_from_the_first_step() {
        let (mut bar, screen) = bar(100);
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        step(&mut bar, begun, 1, 1, 101, 256);
        let first = screen.last();
        assert!(!first.contains("left") && !first.contains("windows/s"), "{first}");
        step(&mut bar, after(10), 1, 11, 101, 256 + 123_450);
        check(&screen, &["epoch 1/100", "12.3k windows/s", "1m30s left"]);
        // The second epoch begins after a long validation, which its speed does not contain.
        bar.show(&Progress::EpochDone { epoch: 1, train_loss: None, validation_loss: None });
        step(&mut bar, after(40), 2, 51, 101, 200_000);
        step(&mut bar, after(50), 2, 61, 101, 300_000);
        check(&screen, &["epoch 2/100", "10.0k windows/s", "33s left"]);
    }

    #[test]
    fn a_look_at_validation_or_test_windows_has_a_bar_of_its_own() {
        let (mut bar, screen) = bar(60);
        let look = |bar: &TrainingBar, phase, epoch, windows| {
            bar.pass(phase, epoch, windows, 20_000).join(", ")
        };
        assert_eq!(
            look(&bar, Phase::Validation, 0, 5_000),
            "validating before training, 5.00k of 20.0k windows"
        );
        bar.show(&Progress::Evaluating { phase: Phase::Validation, epoch: 0, windows: 20_000 });
        bar.tick(Instant::now());
        check(&screen, &["validating before training, 0 of 20.0k windows"]);
        step(&mut bar, Instant::now(), 1, 7, 100, 256);
        check(&screen, &["epoch 1/100"]);
        bar.show(&Progress::Evaluating { phase: Phase::Validation, epoch: 100, windows: 20_000 });
        bar.tick(Instant::now());
        check(&screen, &["epoch 100/100, validating, 0 of 20.0k windows"]);
        assert_eq!(look(&bar, Phase::Test, 100, 1), "testing, 1 of 20.0k windows");
    }

    /// Loss, speed and waiting of the longest kind.
    fn longest(columns: u16, epochs: u32) -> (TrainingBar, Screen, Vec<String>) {
        let (mut bar, screen) = bar(columns);
        let begun = Instant::now();
        (bar.loss, bar.epochs) = (Some(1234.5678), epochs);
        step(&mut bar, begun, epochs, 1, 100_000_000, 0);
        let later = begun + Duration::from_secs(60);
        step(&mut bar, later, epochs, 1_001, 100_000_000, 740_000_000);
        let parts = bar.step(later, epochs, (1_001, 100_000_000), 740_000_000, Some(0.999));
        (bar, screen, parts)
    }

    #[test]
    fn the_longest_line_fits() {
        let (bar, screen, parts) = longest(60, 100);
        check(&screen, &["epoch 100/100, loss 1234.6, 12.3M/s, 69d10h left"]);
        let all = "epoch 100/100, loss 1234.6, 12.3M/s, wait 100%, 69d10h left";
        assert_eq!(bar.fitting(parts), all);
        let (bar, screen, parts) = longest(100, 100);
        check(&screen, &["loss 1234.6, 12.3M windows/s, 69d10h left"]);
        let all = "epoch 100/100, loss 1234.6, 12.3M windows/s, waiting 100 %, 69d10h left";
        assert_eq!(bar.fitting(parts), all);
        // What has no room is left out, from the end.
        let (bar, screen, parts) = longest(60, 100_000);
        check(&screen, &["epoch 100000/100000, loss 1234.6, 12.3M/s"]);
        let all = "epoch 100000/100000, loss 1234.6, 12.3M/s, wait 100%";
        assert_eq!(bar.fitting(parts), all);
    }

    #[test]
    fn a_trainer_is_judged_from_its_second_batch_on() {
        let report = |items| StageReport {
            name: "trainer".to_owned(),
            items,
            rows: 64 * items,
            bytes: 0,
            busy_s: 3.0,
            start_s: 9.0,
            wait_in_s: 1.0,
            wait_out_s: 0.0,
        };
        assert_eq!(Trainer::of(&report(1)).wait, None);
        let trainer = Trainer::of(&report(2));
        assert_eq!((trainer.windows, trainer.wait), (128, Some(0.25)));
    }

    #[test]
    fn a_loss_has_at_most_seven_characters() {
        for (loss, expected) in [
            (0.0, "0"),
            (0.553_12, "0.5531"),
            (-0.05, "-0.0500"),
            (9.999_96, "10.000"),
            (12.345_67, "12.346"),
            (999.999, "1000.0"),
            (123_456.0, "1.2e5"),
            (0.000_123, "1.2e-4"),
        ] {
            assert_eq!(short(loss), expected);
        }
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
