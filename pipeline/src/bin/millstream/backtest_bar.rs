//! The bar of a backtest: one for all folds, with the time that is left of all of them.
//!
//! How long a fold will train is known when it has begun; of those to come, by how long the time is that
//! they learn from.

use crate::{
    display::{Display, brief},
    training_bar::{length, short},
};
use millstream::{FoldProgress, Progress, grouped};
use std::time::{Duration, Instant};

/// What the bar is cut into.
const WHOLE: u64 = 10_000;

/// Shows how a backtest goes.
#[derive(Debug)]
pub(crate) struct BacktestBar {
    display: Display,
    fold: FoldProgress,
    epochs: u32,
    /// Where its training is, once it has taken a step.
    at: Option<At>,
    /// The first step of all folds that was seen: before it, there is nothing to judge the time by.
    first: Option<Mark>,
    /// The first step of this epoch, in windows.
    epoch: Option<(Instant, u64)>,
    loss: Option<f64>,
    /// The lowest validation loss, and its epoch.
    best: Option<(f64, u32)>,
    measured: bool,
}

#[derive(Debug, Clone, Copy)]
struct At {
    epoch: u32,
    step: u64,
    of: u64,
    samples: u64,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    done: f64,
}

impl BacktestBar {
    pub(crate) fn new(display: Display, fold: FoldProgress) -> Self {
        BacktestBar {
            display,
            fold,
            epochs: 0,
            at: None,
            first: None,
            epoch: None,
            loss: None,
            best: None,
            measured: false,
        }
    }

    /// Another fold begins.
    pub(crate) fn begin(&mut self, fold: FoldProgress) {
        (self.fold, self.at, self.epoch) = (fold, None, None);
        (self.loss, self.best) = (None, None);
    }

    /// The bar was cleared.
    pub(crate) fn cleared(&mut self) {
        self.measured = false;
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match *progress {
            Progress::Started { ref plan, .. } => {
                self.epochs = plan.epochs;
                let counts = &plan.windows;
                let [train, validation, test] =
                    [counts.train, counts.validation, counts.test].map(grouped);
                let name = self.name();
                self.display.say(&format!(
                    "{name:<9} {train} windows to learn from, {validation} to validate, {test} to test"
                ));
            }
            Progress::Step { epoch, step, steps_total: of, samples } => {
                self.note(Instant::now, At { epoch, step, of, samples });
            }
            Progress::Log(line) => self.loss = Some(line.loss),
            Progress::EpochDone { epoch, validation_loss, .. } => {
                self.epoch = None;
                let is_better = |now: f64| self.best.is_none_or(|(best, _)| now < best);
                if let Some(loss) = validation_loss.filter(|loss| epoch > 0 && is_better(*loss)) {
                    self.best = Some((loss, epoch));
                }
            }
            _ => {}
        }
    }

    /// Its training is over.
    pub(crate) fn forecasting(&mut self) {
        if let Some((loss, epoch)) = self.best.take() {
            let name = self.name();
            self.display.say(&format!("{name:<9} validation loss {loss:.4} after epoch {epoch}"));
        }
    }

    fn name(&self) -> String {
        format!("fold {}/{}", self.fold.fold, self.fold.of)
    }

    /// Notes a step; only the first of an epoch asks for the time.
    fn note(&mut self, now: impl Fn() -> Instant, at: At) {
        self.at = Some(at);
        self.epoch.get_or_insert_with(|| (now(), at.samples));
        let done = self.done();
        self.first.get_or_insert_with(|| Mark { at: now(), done });
    }

    /// The share of all training that is done.
    fn done(&self) -> f64 {
        let share = self.at.map_or(0.0, |at| at.step as f64 / at.of.max(1) as f64);
        self.fold.before + self.fold.share * share
    }

    /// Draws where the backtest is.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.at.is_none() {
            return;
        }
        if !self.measured {
            self.measured = true;
            self.display.measure(WHOLE, "{wide_bar} {msg}");
        }
        let position = (self.done() * WHOLE as f64) as u64;
        self.display.reached(position.min(WHOLE), self.display.fitting(self.parts(now)));
    }

    /// What is said, the most important first.
    fn parts(&self, now: Instant) -> Vec<String> {
        let mut parts = vec![self.name()];
        let since = |at: Instant| now.saturating_duration_since(at);
        if let Some(first) = self.first {
            let left = left(since(first.at), self.done() - first.done, 1.0 - self.done());
            parts.extend(left.map(|left| format!("{} left", length(left))));
        }
        let Some(at) = self.at else { return parts };
        parts.push(format!("epoch {}/{}", at.epoch, self.epochs));
        parts.extend(self.loss.map(|loss| format!("loss {}", short(loss))));
        let epoch = self.epoch.filter(|(begun, _)| since(*begun) > Duration::ZERO);
        parts.extend(epoch.map(|(begun, samples)| {
            let rate = (at.samples - samples) as f64 / since(begun).as_secs_f64();
            format!("{}/s", brief(rate as u64))
        }));
        parts
    }
}

/// How long what is left will take, judged by what was done.
fn left(elapsed: Duration, done: f64, left: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(elapsed.as_secs_f64() / done * left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::screen::Screen;

    fn fold(fold: usize, before: f64, share: f64) -> FoldProgress {
        let mut progress = FoldProgress::default();
        (progress.fold, progress.of) = (fold, 3);
        (progress.before, progress.share) = (before, share);
        progress
    }

    #[test]
    fn there_is_one_bar_and_one_time_left_for_all_folds() {
        let screen = Screen::new(60);
        let mut bar = BacktestBar::new(Display::on(screen.clone()), fold(1, 0.0, 0.2));
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        bar.epochs = 5;
        bar.tick(begun);
        assert_eq!(screen.last(), "", "there is nothing to show yet");
        bar.note(|| begun, At { epoch: 1, step: 0, of: 100, samples: 0 });
        bar.note(|| begun, At { epoch: 3, step: 50, of: 100, samples: 24_600 });
        bar.loss = Some(0.553_12);
        bar.tick(after(10));
        let line = screen.last();
        let expected = "fold 1/3, 1m30s left, epoch 3/5, loss 0.5531, 2.46k/s";
        assert!(line.ends_with(expected) && line.chars().count() <= 60, "{line:?}");
        // The second fold goes on in the same bar.
        bar.begin(fold(2, 0.2, 0.3));
        bar.note(|| after(20), At { epoch: 1, step: 100, of: 200, samples: 9 });
        bar.tick(after(35));
        let line = screen.last();
        assert!(line.contains("fold 2/3, 1m05s left, epoch 1/5"), "{line:?}");
    }
}
