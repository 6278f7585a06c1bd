//! How far loading has come, told to whoever wants to know, who may answer "stop".

use crate::LoadError;
use std::{
    fmt,
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// Where rows are being read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The panel cache.
    Cache,
    /// The source itself.
    Source,
    /// Nowhere any more: all rows are here and are being written to the panel cache.
    Writing,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Cache => "from cache",
            Origin::Source => "from source",
            Origin::Writing => "to cache",
        })
    }
}

/// How far loading has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadProgress {
    /// Rows so far.
    pub rows: u64,
    /// About how many rows there will be, where the source can say.
    pub expected: Option<u64>,
    /// Bytes received so far, where they come over a connection.
    pub bytes: Option<u64>,
    /// Where they come from.
    pub origin: Origin,
}

/// Called now and then while loading; to break is to stop loading.
pub type Observer<'a> = dyn FnMut(LoadProgress) -> ControlFlow<()> + 'a;

/// The longest that work goes on without asking whether to stop.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Reports progress to the observer, and tells readers when that wants to stop.
pub(crate) struct ProgressReporter<'a> {
    observer: &'a mut Observer<'a>,
    last: LoadProgress,
    reported: Instant,
    every: Duration,
}

impl<'a> ProgressReporter<'a> {
    pub(crate) fn new(observer: &'a mut Observer<'a>) -> Self {
        let last = LoadProgress { rows: 0, expected: None, bytes: None, origin: Origin::Source };
        ProgressReporter { observer, last, reported: Instant::now(), every: TICK }
    }

    /// One that does not look at the clock before it asks.
    #[cfg(test)]
    pub(crate) fn eager(observer: &'a mut Observer<'a>) -> Self {
        ProgressReporter { every: Duration::ZERO, ..ProgressReporter::new(observer) }
    }

    /// Reports how far the source has been read.
    pub(crate) fn progress(
        &mut self,
        rows: u64,
        expected: Option<u64>,
        bytes: Option<u64>,
    ) -> Result<(), LoadError> {
        self.report(LoadProgress { rows, expected, bytes, origin: Origin::Source })
    }

    /// Reports how many of all rows have been written to the cache.
    pub(crate) fn written(&mut self, rows: u64, all: u64) -> Result<(), LoadError> {
        let (expected, bytes) = (Some(all), None);
        self.report(LoadProgress { rows, expected, bytes, origin: Origin::Writing })
    }

    /// Reports how many of all rows of a cached panel have been checked, now and then.
    pub(crate) fn checked(&mut self, rows: u64, all: u64) -> Result<(), LoadError> {
        let (expected, bytes) = (Some(all), None);
        self.last = LoadProgress { rows, expected, bytes, origin: Origin::Cache };
        self.check_interrupt()
    }

    /// Reports that a cached panel is used. It is there, so to stop now would save nothing.
    pub(crate) fn found(&mut self, rows: u64) {
        let (expected, bytes) = (Some(rows), None);
        let _ = self.report(LoadProgress { rows, expected, bytes, origin: Origin::Cache });
    }

    /// Reports how many rows have been read.
    pub(crate) fn rows(&mut self, rows: u64) -> Result<(), LoadError> {
        self.progress(rows, None, None)
    }

    /// Asks whether to go on, if that was not asked a moment ago: for work in small steps that has
    /// no other progress to tell.
    pub(crate) fn check_interrupt(&mut self) -> Result<(), LoadError> {
        match self.reported.elapsed() < self.every {
            true => Ok(()),
            false => self.report(self.last),
        }
    }

    fn report(&mut self, progress: LoadProgress) -> Result<(), LoadError> {
        (self.last, self.reported) = (progress, Instant::now());
        match (self.observer)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LoadError::Interrupted),
        }
    }
}
