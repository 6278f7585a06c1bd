//! How far loading has come, told to whoever wants to know, who may answer "stop".

use crate::LoadError;
use std::{fmt, ops::ControlFlow};

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

/// What a reader tells the observer.
pub(crate) struct Tell<'a>(pub(crate) &'a mut Observer<'a>);

impl Tell<'_> {
    /// Tells how far the source has been read.
    pub(crate) fn progress(
        &mut self,
        rows: u64,
        expected: Option<u64>,
        bytes: Option<u64>,
    ) -> Result<(), LoadError> {
        self.tell(LoadProgress { rows, expected, bytes, origin: Origin::Source })
    }

    /// Tells how many of all rows have been written to the cache.
    pub(crate) fn written(&mut self, rows: u64, all: u64) -> Result<(), LoadError> {
        let (expected, bytes) = (Some(all), None);
        self.tell(LoadProgress { rows, expected, bytes, origin: Origin::Writing })
    }

    fn tell(&mut self, progress: LoadProgress) -> Result<(), LoadError> {
        match (self.0)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LoadError::Interrupted),
        }
    }

    /// Tells how many rows have been read.
    pub(crate) fn rows(&mut self, rows: u64) -> Result<(), LoadError> {
        self.progress(rows, None, None)
    }
}
