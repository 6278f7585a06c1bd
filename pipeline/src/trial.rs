//! [`Trial`]: a run that is tried out before it is meant, and the clock that stops one in time.

use crate::{
    error::{Error, ErrorKind},
    watch::{Event, Watch},
};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use millstream_normalize::Limit;
use std::{
    io,
    num::NonZeroU64,
    thread::{self, JoinHandle},
    time::Duration,
};

/// What a trial run looks at of each pass.
const FAST_BATCHES: u64 = 2;

/// How a run is tried out. Made by [`Default`], which is a run that is meant, or by one of the functions
/// here, and changed field by field.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// let mut settings = millstream::Settings::from_toml(
///     "source = { cache = \"\", generate = { series = 20, rows = 120 } }\nwindow.lookback = 20",
/// )?;
/// settings.run.dir = folder.path().join("runs");
/// let training = millstream::Training::new(settings)?.trying(millstream::Trial::fast_dev_run())?;
/// let report = training.start()?.train(&millstream::Watch::default())?.into_report();
/// assert_eq!(report.steps, 2);
/// assert!(!folder.path().join("runs").exists());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trial {
    /// How much of each pass there is. It is kept with the run, which goes on with it.
    pub limit: Limit,
    /// How long it may take, from [`Training::new`](crate::Training::new) or
    /// [`resume`](crate::Training::resume) on, loading included. Then it stops at the next step, as if
    /// [`StopHandle::stop`](crate::StopHandle::stop) were called: it is saved and can be gone on with.
    pub max_time: Option<Duration>,
    /// Whether there is one epoch alone and nothing of it is kept: its folder goes when the
    /// [`Trained`](crate::Trained) run is let go.
    pub discard: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error("the run was started {}, but is to go on {}; a run that goes on keeps its limit, so leave it out", described(*.was), described(*.is))]
    OtherLimit { was: Limit, is: Limit },
    #[error(
        "a run that goes on is kept, so it cannot be discarded; start a new one to try things out"
    )]
    ResumedToDiscard,
    #[error("cannot watch the time")]
    NoClock { source: io::Error },
}

impl Trial {
    /// Two batches of each pass, one epoch, nothing kept: whether everything works, in seconds.
    #[must_use]
    pub fn fast_dev_run() -> Self {
        let most = NonZeroU64::new(FAST_BATCHES).expect("a constant above zero");
        Trial { limit: Limit::Batches(most), discard: true, ..Trial::default() }
    }

    /// At most so many batches of each pass.
    #[must_use]
    pub fn limit_batches(most: NonZeroU64) -> Self {
        Trial { limit: Limit::Batches(most), ..Trial::default() }
    }

    /// The same so many training batches in every epoch, validated on themselves.
    #[must_use]
    pub fn overfit_batches(most: NonZeroU64) -> Self {
        Trial { limit: Limit::Overfit(most), ..Trial::default() }
    }

    /// Takes the limit of a run that goes on.
    ///
    /// # Errors
    /// Another is asked for.
    pub(crate) fn with_limit_of_run(mut self, was: Limit) -> Result<Self, Error> {
        let is = self.limit;
        if self.discard {
            return Err(Error::settings(TrialError::ResumedToDiscard));
        }
        if is != Limit::None && is != was {
            return Err(Error::settings(TrialError::OtherLimit { was, is }));
        }
        self.limit = was;
        Ok(self)
    }
}

/// A limit as the flags that give it.
fn described(limit: Limit) -> String {
    match limit {
        Limit::None => "without a limit".to_owned(),
        Limit::Batches(most) => format!("with --limit-batches {most}"),
        Limit::Overfit(most) => format!("with --overfit-batches {most}"),
    }
}

/// Stops the lines of a watch when their time is up, unless it is dropped before.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Nothing is ever sent: the thread wakes up when this is gone.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    pub(crate) fn start(left: Duration, watch: &Watch) -> Result<Self, Error> {
        let (running, ended) = bounded(0);
        let watch = watch.clone();
        let wait = move || {
            if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                watch.tell(Event::TimeIsUp);
                watch.stop_handle().stop();
            }
        };
        let thread = thread::Builder::new().name("max-time".to_owned()).spawn(wait);
        let failed = |source| Error::new(ErrorKind::Other, TrialError::NoClock { source });
        Ok(Clock { running: Some(running), thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // What an observer does is his own; a panic of his has been told.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: Trial, was: Limit, expected: Result<Limit, &str>) {
        let found = asked.with_limit_of_run(was).map(|trial| trial.limit);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (found, expected) => {
                assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err());
            }
        }
    }

    #[test]
    fn a_run_that_goes_on_keeps_its_limit() {
        let three = NonZeroU64::new(3).unwrap();
        let was = Limit::Batches(three);
        check(Trial::default(), was, Ok(was));
        check(Trial::limit_batches(three), was, Ok(was));
        check(Trial::default(), Limit::None, Ok(Limit::None));
        check(
            Trial::overfit_batches(three),
            was,
            Err(
                "the run was started with --limit-batches 3, but is to go on with --overfit-batches 3; a run that goes on keeps its limit, so leave it out",
            ),
        );
        check(
            Trial::limit_batches(three),
            Limit::None,
            Err(
                "the run was started without a limit, but is to go on with --limit-batches 3; a run that goes on keeps its limit, so leave it out",
            ),
        );
        check(
            Trial::fast_dev_run(),
            was,
            Err(
                "a run that goes on is kept, so it cannot be discarded; start a new one to try things out",
            ),
        );
    }

    #[test]
    fn a_clock_that_is_dropped_stops_nothing() {
        let watch = Watch::default();
        drop(Clock::start(Duration::MAX, &watch).unwrap());
        assert!(watch.go_on().is_continue());
        let clock = Clock::start(Duration::ZERO, &watch).unwrap();
        while watch.go_on().is_continue() {
            thread::yield_now();
        }
        drop(clock);
    }
}
