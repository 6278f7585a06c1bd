//! [`Watch`]: who looks on while a line runs, and how he stops it.

use crate::{
    error::{Error, ErrorKind},
    texts::left_out,
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use millstream_data::Plan;
use millstream_loader::LoadProgress;
use millstream_predictor::PredictProgress;
use millstream_stage::{LineCounters, Warnings};
use millstream_trainer::Progress;
use std::{
    any::Any,
    fmt,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Something that whoever looks on may want to show.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A line begins, with the counters of its stages: how far it has come, and who waits for whom, can
    /// be read at any time.
    Running(&'a LineCounters),
    /// Rows are being loaded.
    Loading(LoadProgress),
    /// A run that is there to stay, by its folder: it has data to learn from, or is forecast with.
    Started(&'a Path),
    /// A fold of a backtest begins.
    Fold(FoldProgress),
    /// A run goes on.
    Training(&'a Progress),
    /// Forecasts are being made.
    Forecasting(&'a PredictProgress),
    /// [`Trial::max_time`](crate::Trial::max_time) is over; the line stops at the next step.
    TimeIsUp,
    /// A line has come to its end, or failed.
    Ended,
}

/// Where a backtest is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct FoldProgress {
    /// The fold that begins, from 1.
    pub fold: usize,
    /// How many there are.
    pub of: usize,
    /// About what share of all training comes before it, 0 to 1.
    pub before: f64,
    /// About what share of all training it has itself; 0 where it trains nothing.
    pub share: f64,
}

/// Sees what happens, hears warnings and can stop a line. Without anything, as by default, a line
/// runs silently to its end; its warnings are in its result all the same.
///
/// Make one for each run: what it was warned of is kept as the run's, its forecasts' included, and one
/// that was stopped stays so.
///
/// ```
/// use millstream::{Event, Watch};
///
/// let watch = Watch::default().on_event(|event| {
///     if let Event::Loading(progress) = event {
///         eprintln!("{} rows", progress.rows);
///     }
/// });
/// let stop = watch.stop_handle();
/// std::thread::spawn(move || stop.stop()); // from wherever it is decided
/// ```
#[derive(Clone, Default)]
pub struct Watch {
    observer: Option<Arc<Observer>>,
    warnings: Warnings,
    stop: StopHandle,
}

/// What is said of a line that was asked to stop before it began.
const NOT_BEGUN: &str = "interrupted before it began; nothing was done";

type Observer = dyn Fn(Event<'_>) + Send + Sync;

/// Stops the lines of a [`Watch`], from any thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    asked: Arc<AtomicBool>,
    sender: Sender<()>,
    receiver: Receiver<()>,
    /// What waits end by that go on for a line that is to stop.
    holds: Arc<Mutex<Vec<Box<dyn Any + Send>>>>,
}

impl Watch {
    /// Calls `observer` with what happens, on the thread where it happens: keep it short. It takes the
    /// place of one that was given before.
    #[must_use]
    pub fn on_event(mut self, observer: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Calls `listener` with every warning, once, when it is noticed. Before anything else: what was
    /// warned of so far is forgotten.
    #[must_use]
    pub fn on_warning(mut self, listener: impl FnMut(&str) + Send + 'static) -> Self {
        self.warnings = Warnings::telling(listener);
        self
    }

    /// What a person should know of the lines so far.
    #[must_use]
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// What stops the lines that are watched by this.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The same for one fold of many: its warnings are its own, and are said here too, with its name, unless
    /// they were said before.
    pub(crate) fn of_fold(&self, fold: usize) -> Watch {
        let all = self.warnings.clone();
        let tell = move |line: &str| {
            let said = all.all();
            if !said.iter().any(|said| without_fold(said) == line) {
                all.warn(format!("fold {fold}: {line}"));
            }
        };
        Watch { warnings: Warnings::telling(tell), ..self.clone() }
    }

    /// Warns of what a plan says of its data, and of the windows that were left out.
    pub(crate) fn warn_of(&self, plan: &Plan, and_of_left_out: bool) {
        let left_out = left_out(&plan.windows, &plan.short_series).filter(|_| and_of_left_out);
        plan.warnings.iter().cloned().chain(left_out).for_each(|line| self.warnings.warn(line));
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }

    /// What stops the line that begins now between two batches.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`] when it was asked to stop before it began.
    pub(crate) fn begin(&self) -> Result<Receiver<()>, Error> {
        match self.go_on() {
            ControlFlow::Continue(()) => Ok(self.stop.receiver.clone()),
            ControlFlow::Break(()) => Err(Error::new(ErrorKind::Interrupted, NOT_BEGUN)),
        }
    }

    /// What a loader that is in the middle of a long read should do.
    pub(crate) fn go_on(&self) -> ControlFlow<()> {
        match self.stop.asked.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// A warning without the fold that it is of.
pub(crate) fn without_fold(line: &str) -> &str {
    let fold = line.strip_prefix("fold ").and_then(|rest| rest.split_once(": "));
    match fold {
        Some((number, bare)) if number.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => line,
    }
}

impl StopHandle {
    /// Asks the line that is running to stop at the next step, or to stop reading; what it has
    /// learned is saved. Lines that begin later stop at once.
    pub fn stop(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            // The receiver lives as long as this does.
            let _ = self.sender.send(());
            self.holds().clear();
        }
    }

    /// Keeps something until the line is asked to stop, if it has not been: whoever waits for it to be
    /// dropped gives up then.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "files are not waited for"))]
    pub(crate) fn hold(&self, hold: impl Any + Send) {
        let mut holds = self.holds();
        if !self.asked.load(Ordering::Relaxed) {
            holds.push(Box::new(hold));
        }
    }

    /// Dropping something that is held does not panic.
    fn holds(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for StopHandle {
    fn default() -> Self {
        let (sender, receiver) = unbounded();
        StopHandle { asked: Arc::default(), sender, receiver, holds: Arc::default() }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Watch { observer, warnings, stop } = self;
        f.debug_struct("Watch")
            .field("observed", &observer.is_some())
            .field("warnings", warnings)
            .field("stop", stop)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_folds_is_told_once_and_kept_by_each() {
        let all = Watch::default();
        all.warnings().warn("a column is constant");
        let folds = [3, 10].map(|fold| all.of_fold(fold));
        for fold in &folds {
            fold.warnings().warn("a column is constant");
            fold.warnings().warn("left out: windows");
        }
        assert_eq!(all.warnings().all(), ["a column is constant", "fold 3: left out: windows"]);
        assert_eq!(folds[1].warnings().all(), ["a column is constant", "left out: windows"]);
        assert_eq!(without_fold("fold up: the table"), "fold up: the table");
        folds[0].stop_handle().stop();
        assert!(all.go_on().is_break(), "what stops one stops all");
    }
}
