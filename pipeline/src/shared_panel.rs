//! [`SharedPanel`]: rows that are loaded once and read by many lines, one after another.
//!
//! A line whose rows are shared begins as any other: its source emits the panel, once, and what was to
//! be said of the rows is a warning of that line too.

use crate::{
    error::{Error, ErrorKind},
    settings::Settings,
    training::loader,
    watch::{Event, Watch},
};
use millstream_data::Panel;
use millstream_loader::{LoadError, Loader, Refresh};
use millstream_stage::Source;
use std::sync::Arc;

/// A panel in memory, and what a person was told of its rows. Clones share the rows.
#[derive(Debug, Clone)]
pub(crate) struct SharedPanel(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    panel: Panel,
    said: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("the source gave no rows")]
struct NoPanel;

impl SharedPanel {
    /// Loads it.
    ///
    /// # Errors
    /// Whatever keeps the source from being a panel; [`ErrorKind::Interrupted`] when `watch` stops it.
    pub(crate) fn load(
        settings: &Settings,
        refresh: Refresh,
        watch: &Watch,
    ) -> Result<Self, Error> {
        watch.begin()?;
        let before = watch.warnings().all().len();
        let loaded = loader(settings, refresh, watch).next();
        watch.tell(Event::Ended);
        let panel = loaded?.ok_or_else(|| Error::new(ErrorKind::Data, NoPanel))?;
        let said = watch.warnings().all().split_off(before);
        Ok(SharedPanel(Arc::new(Loaded { panel, said })))
    }

    /// The rows.
    pub(crate) fn panel(&self) -> &Panel {
        &self.0.panel
    }
}

/// Where the rows of a line come from.
#[derive(Debug)]
pub(crate) enum Rows {
    /// They are loaded for it.
    Loaded(Box<Loader>),
    /// They are there; `None` once they were given.
    Shared(Option<Panel>),
}

impl Rows {
    /// Those that are shared, of which `watch` is told what was said of them, or those of a loader.
    pub(crate) fn of(
        shared: Option<&SharedPanel>,
        watch: &Watch,
        loader: impl FnOnce() -> Loader,
    ) -> Self {
        let Some(SharedPanel(loaded)) = shared else { return Rows::Loaded(Box::new(loader())) };
        loaded.said.iter().for_each(|line| watch.warnings().warn(line.clone()));
        // Its rows are counted references to the same memory.
        Rows::Shared(Some(loaded.panel.clone()))
    }
}

impl Source for Rows {
    type Out = Panel;
    type Error = LoadError;

    fn next(&mut self) -> Result<Option<Panel>, LoadError> {
        match self {
            Rows::Loaded(loader) => loader.next(),
            Rows::Shared(panel) => Ok(panel.take()),
        }
    }
}
