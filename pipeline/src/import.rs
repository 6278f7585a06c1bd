//! The source into the cache, or a check of what is there.

use crate::{
    error::Error,
    settings::Settings,
    watch::{Event, Watch},
};
use millstream_loader::ImportReport;

/// Reads the source of these settings into the cache that training and forecasting open.
///
/// # Errors
/// Whatever keeps the source from being a panel, and a cache that cannot be written or is switched
/// off. What was cached before is then still there.
pub fn import(settings: Settings, watch: &Watch) -> Result<ImportReport, Error> {
    run(settings, watch, millstream_loader::import)
}

/// Checks every byte of the cached panel of these settings.
///
/// # Errors
/// The first damage found, or that nothing is cached.
pub fn verify(settings: Settings, watch: &Watch) -> Result<ImportReport, Error> {
    run(settings, watch, millstream_loader::verify)
}

fn run(
    settings: Settings,
    watch: &Watch,
    run: impl FnOnce(
        &millstream_loader::SourceSettings,
        &[String],
        &mut millstream_loader::Observer<'_>,
        &millstream_stage::Warnings,
    ) -> Result<ImportReport, millstream_loader::LoadError>,
) -> Result<ImportReport, Error> {
    let settings = settings.with_fields_noted()?;
    settings.check_effects("source")?;
    let settings = settings.with_absolute_paths();
    if settings.source.cache.is_empty() {
        return Err(Error::settings("source.cache is empty, so there is nowhere to import to"));
    }
    // Rows can be read before it is known what will be forecast.
    let required = match settings.origin("target.columns") {
        Some(_) => settings.required_columns(),
        None => settings.columns_beside_targets(),
    };
    let mut observe = |progress| {
        watch.tell(Event::Loading(progress));
        watch.go_on()
    };
    let report = run(&settings.source, &required, &mut observe, watch.warnings());
    watch.tell(Event::Ended);
    Ok(report?)
}
