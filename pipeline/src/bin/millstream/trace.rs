//! What happens inside, for those who want to look: `--verbose` on stderr, and `trace.json`, every
//! span of every stage, for Chrome's tracing page or Perfetto.

use crate::messages::Stderr;
use millstream::{Error, Warnings};
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::{
    Layer, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Writes events and spans until it is dropped.
pub(crate) struct Trace {
    _flush: Option<FlushGuard>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", .path.display())]
struct NoFile {
    path: PathBuf,
    source: io::Error,
}

impl Trace {
    /// Shows events where `verbose`. Once per process.
    pub(crate) fn start(verbose: bool) -> Self {
        Trace::init(verbose, None)
    }

    /// Also writes spans to `file`. Once per process.
    ///
    /// # Errors
    /// When the file cannot be made. One that takes no more later is a warning: the run is worth more
    /// than its trace.
    pub(crate) fn start_with_spans(
        verbose: bool,
        path: &Path,
        warnings: &Warnings,
    ) -> Result<Self, Error> {
        let path = path.to_owned();
        let file = File::create(&path)
            .map_err(|source| Error::settings(NoFile { path: path.clone(), source }))?;
        let spans = Spans { file: Some(file), path, warnings: warnings.clone() };
        Ok(Trace::init(verbose, Some(spans)))
    }

    fn init(verbose: bool, spans: Option<Spans>) -> Self {
        let events = verbose.then(|| {
            let lines = tracing_subscriber::fmt::layer().with_writer(|| Stderr).without_time();
            lines.with_target(false).with_ansi(false).with_filter(LevelFilter::DEBUG)
        });
        let (spans, flush) =
            spans.map(|spans| ChromeLayerBuilder::new().writer(spans).build()).unzip();
        if events.is_some() || spans.is_some() {
            tracing_subscriber::registry().with(spans).with(events).init();
        }
        Trace { _flush: flush }
    }
}

/// The file of spans. Its writer panics when a write fails, so none does: the first that would have
/// is a warning, and ends the file.
struct Spans {
    file: Option<File>,
    path: PathBuf,
    warnings: Warnings,
}

impl Write for Spans {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            self.warnings.warn(format!("{} is incomplete: {error}", self.path.display()));
            self.file = None;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
