//! What happens inside, for those who want to look: `--verbose` on stderr, and `trace.json`, every
//! span of every stage, for Chrome's tracing page or Perfetto.

use std::{io::stderr, path::Path};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::{
    Layer, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Writes events and spans until it is dropped.
pub(crate) struct Trace {
    _flush: Option<FlushGuard>,
}

impl Trace {
    /// Shows events where `verbose`, and writes spans to `file` where there is one. Once per
    /// process.
    pub(crate) fn start(verbose: bool, file: Option<&Path>) -> Self {
        let events = verbose.then(|| {
            let lines = tracing_subscriber::fmt::layer().with_writer(stderr).without_time();
            lines.with_target(false).with_ansi(false).with_filter(LevelFilter::DEBUG)
        });
        let (spans, flush) = file.map(|file| ChromeLayerBuilder::new().file(file).build()).unzip();
        if events.is_some() || spans.is_some() {
            tracing_subscriber::registry().with(spans).with(events).init();
        }
        Trace { _flush: flush }
    }
}
