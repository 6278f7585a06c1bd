//! `millstream import`: the source into the cache, or a check of what is there.

use crate::{
    cli::ImportArgs,
    failure::Failure,
    interrupt, print_json,
    progress::{Display, grouped},
    settings::Settings,
    trace::Trace,
    warnings_on,
};
use millstream_loader::ImportReport;
use serde::Serialize;
use std::process::ExitCode;

/// The JSON result of `import`.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    #[serde(flatten)]
    report: &'a ImportReport,
    warnings: Vec<String>,
}

/// Reads the source anew, or with `--verify` checks the cache.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
    settings.check_effects("source")?;
    let settings = settings.with_absolute_paths();
    let display = Display::new(args.common.quiet);
    let warnings = warnings_on(&display);
    let _trace = Trace::start(args.common.verbose, None);
    if settings.source.cache.is_empty() {
        return Err(Failure::settings("source.cache is empty, so there is nowhere to import to"));
    }
    interrupt::on_interrupt()?;
    // Rows can be read before it is known what will be forecast.
    let required = match settings.origin("target.columns") {
        Some(_) => settings.required_columns(),
        None => settings.columns_beside_targets(),
    };
    let mut bar = display.loading();
    let mut observe = |progress| {
        bar.show(progress);
        interrupt::go_on()
    };
    let run = if args.verify { millstream_loader::verify } else { millstream_loader::import };
    let report = run(&settings.source, &required, &mut observe, &warnings);
    display.done();
    let report = report?;
    if args.common.json {
        print_json(&Imported { report: &report, warnings: warnings.all() })?;
    } else {
        let cache =
            report.cache.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        display.say(&format!(
            "{} rows of {} series, {:.1} MB, in {:.1} s: {cache}",
            grouped(report.rows),
            grouped(report.series),
            report.bytes as f64 / 1e6,
            report.seconds,
        ));
    }
    Ok(ExitCode::SUCCESS)
}
