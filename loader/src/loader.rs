//! [`Loader`], the source at the start of every line, and [`import`] and [`verify`].
//!
//! All three take the same way: from the cache if it has the panel, else from the source through
//! the cache, so that a first run sees exactly the memory-mapped panel that later runs see.

use crate::{
    LoadError, SourceSettings,
    cache::{CacheEntry, Cached},
    progress::{LoadProgress, Observer, ProgressReporter},
    refresh::{Refresh, wants_anew},
    request::Request,
};
use millstream_data::Panel;
use millstream_stage::{Item, Source, Warnings};
use serde::{Serialize, Serializer};
use std::{fmt, ops::ControlFlow, path::PathBuf, time::Instant};

/// What an import, or a verification, found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportReport {
    /// Rows of the panel.
    pub rows: u64,
    /// Series of the panel.
    pub series: u64,
    /// Bytes of the panel's data.
    pub bytes: u64,
    /// Seconds it took.
    pub seconds: f64,
    /// Folder of the cached panel; `None` when the cache is off. What of its name is no text is
    /// written as `\u{fffd}`.
    #[serde(serialize_with = "serialize_lossy")]
    pub cache: Option<PathBuf>,
}

/// Loads one panel: the [`Source`] at the start of a line.
///
/// A panel cached for the same settings is used without reading the source again. For files that
/// includes their sizes and times of change. A database is asked whether it holds other rows now, at
/// the cost of some seconds at most; [`refresh`](Loader::refresh) says what to do then.
pub struct Loader {
    settings: SourceSettings,
    required: Vec<String>,
    progress: Box<dyn FnMut(LoadProgress) -> ControlFlow<()> + Send>,
    warnings: Warnings,
    refresh: Refresh,
    done: bool,
}

impl Loader {
    /// A loader for a source. `required` names the target columns: they must exist, and those that
    /// [`SourceSettings::features`] does not match are loaded after the features.
    #[must_use]
    pub fn new(settings: SourceSettings, required: Vec<String>) -> Self {
        Loader {
            settings,
            required,
            progress: Box::new(|_| ControlFlow::Continue(())),
            warnings: Warnings::default(),
            refresh: Refresh::default(),
            done: false,
        }
    }

    /// Says when to read anew what is cached. Default: [`Refresh::Never`].
    #[must_use]
    pub fn refresh(mut self, refresh: Refresh) -> Self {
        self.refresh = refresh;
        self
    }

    /// Says to `warnings` what a person must know: about the rows, whenever they are loaded, and
    /// about the way to them, when it was gone.
    #[must_use]
    pub fn warn_to(mut self, warnings: Warnings) -> Self {
        self.warnings = warnings;
        self
    }

    /// Calls `observer` on the loading thread now and then, and once at the end. When it breaks,
    /// loading stops with [`LoadError::Interrupted`] and leaves nothing behind.
    #[must_use]
    pub fn on_progress(
        mut self,
        observer: Box<dyn FnMut(LoadProgress) -> ControlFlow<()> + Send>,
    ) -> Self {
        self.progress = observer;
        self
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings may hold a password.
        f.debug_struct("Loader")
            .field("kind", &self.settings.kind)
            .field("required", &self.required)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl Source for Loader {
    type Out = Panel;
    type Error = LoadError;

    /// The panel, once.
    ///
    /// # Errors
    /// Whatever keeps the source from being a panel, and a cache that is damaged or cannot be
    /// written.
    fn next(&mut self) -> Result<Option<Panel>, LoadError> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        let request = Request::new(&self.settings, &self.required, &self.warnings)?;
        let reporter = &mut ProgressReporter::new(&mut self.progress);
        let cache = CacheEntry::locate(&request)?;
        // What is to be read anew in any case may be damaged.
        let anew = self.refresh == Refresh::Always;
        let cached = if anew { None } else { open(cache.as_ref(), reporter)? };
        let replace = anew || cached.is_some();
        let usable = match cached {
            Some(cached)
                if request.is_met_by(cached.panel.schema())
                    && !wants_anew(&request, &cached, self.refresh, reporter)? =>
            {
                Some(cached)
            }
            _ => None,
        };
        let panel = match usable {
            Some(Cached { panel, row_warnings, .. }) => {
                row_warnings.say(&self.settings, &self.warnings)?;
                reporter.found(panel.rows());
                panel
            }
            None => read(&request, cache.as_ref(), replace, reporter)?,
        };
        Ok(Some(panel))
    }
}

/// Reads the source anew, whatever is cached, and replaces the cached panel in one step. What a
/// person must know goes to `warnings`.
///
/// # Errors
/// Whatever keeps the source from being a panel, and a cache that cannot be written. What was
/// cached before is then still there.
pub fn import(
    settings: &SourceSettings,
    required: &[String],
    progress: &mut Observer<'_>,
    warnings: &Warnings,
) -> Result<ImportReport, LoadError> {
    let start = Instant::now();
    let request = Request::new(settings, required, warnings)?;
    let cache = CacheEntry::locate(&request)?;
    let panel = read(&request, cache.as_ref(), true, &mut ProgressReporter::new(progress))?;
    Ok(report(&panel, start, cache.as_ref()))
}

/// Checks every checksum of the cached panel. What a person must know about its rows goes to
/// `warnings`; when `progress` breaks, so does this.
///
/// # Errors
/// [`LoadError::Damage`] for the first damage found, and
/// [`LoadError::NoCache`] when nothing is cached for these settings.
pub fn verify(
    settings: &SourceSettings,
    required: &[String],
    progress: &mut Observer<'_>,
    warnings: &Warnings,
) -> Result<ImportReport, LoadError> {
    let start = Instant::now();
    let cache = CacheEntry::locate(&Request::new(settings, required, warnings)?)?;
    match open(cache.as_ref(), &mut ProgressReporter::new(progress))? {
        Some(Cached { panel, row_warnings, .. }) => {
            row_warnings.say(settings, warnings)?;
            Ok(report(&panel, start, cache.as_ref()))
        }
        None => Err(LoadError::NoCache { path: PathBuf::from(&settings.cache) }),
    }
}

/// A report is for people, and must be written whatever the bytes of a path are.
fn serialize_lossy<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

fn report(panel: &Panel, start: Instant, cache: Option<&CacheEntry>) -> ImportReport {
    ImportReport {
        rows: panel.rows(),
        series: panel.schema().series.len() as u64,
        bytes: panel.bytes(),
        seconds: start.elapsed().as_secs_f64(),
        cache: cache.map(CacheEntry::folder),
    }
}

/// Opens the cached panel, if there is a cache and one in it.
fn open(
    cache: Option<&CacheEntry>,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Option<Cached>, LoadError> {
    match cache {
        Some(cache) => cache.open(reporter),
        None => Ok(None),
    }
}

/// Reads the source and, with a cache, swaps the panel for the one that later runs will open.
fn read(
    request: &Request<'_>,
    cache: Option<&CacheEntry>,
    replace: bool,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Panel, LoadError> {
    let reserved = cache.map(CacheEntry::reserve).transpose()?;
    let table = request.settings.kind.source()?.read(request, reporter)?;
    let loaded = table.into_panel(reporter)?;
    loaded.row_warnings.say(request.settings, request.warnings)?;
    reporter.rows(loaded.panel.rows())?;
    let Some((cache, folder)) = cache.zip(reserved) else { return Ok(loaded.panel) };
    cache.write(&folder, loaded, replace, reporter)
}
