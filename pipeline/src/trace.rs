//! `trace.json`: every span of every stage, for Chrome's tracing page or Perfetto.

use std::path::Path;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

/// Writes spans until it is dropped.
pub(crate) struct Trace {
    _flush: FlushGuard,
}

impl Trace {
    /// Starts writing spans to `path`. One trace per process.
    pub(crate) fn start(path: &Path) -> Self {
        let (layer, flush) = ChromeLayerBuilder::new().file(path).build();
        tracing_subscriber::registry().with(layer).init();
        Trace { _flush: flush }
    }
}
