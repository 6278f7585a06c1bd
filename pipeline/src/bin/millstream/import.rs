//! `millstream import`: the source into the cache, or a check of what is there.

use crate::{cli::ImportArgs, display::Display, interrupt, messages::print_json, trace::Trace};
use millstream::{Error, ImportReport, Overrides, Settings, grouped};
use millstream_loader::LoadError;
use serde::Serialize;

/// The JSON result of `import`.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    #[serde(flatten)]
    report: &'a ImportReport,
    warnings: Vec<String>,
}

/// Reads the source anew, or with `--verify` checks the cache.
pub(crate) fn import(args: &ImportArgs) -> Result<(), Error> {
    let overrides = Overrides::of_process(&args.common.set);
    let settings = Settings::load(args.common.config.as_deref(), &overrides)?;
    let display = Display::new(args.common.quiet);
    let watch = display.watch();
    let _trace = Trace::start(args.common.verbose);
    interrupt::on_interrupt(&args.common, watch.stop_handle())?;
    interrupt::nothing_to_save(LoadError::Interrupted.to_string());
    let run = if args.verify { millstream::verify } else { millstream::import };
    let report = run(settings, &watch)?;
    if args.common.json {
        return print_json(&Imported { report: &report, warnings: watch.warnings().all() });
    }
    let cache = report.cache.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    display.say(&format!(
        "{} rows of {} series, {:.1} MB, in {:.1} s: {cache}",
        grouped(report.rows),
        grouped(report.series),
        report.bytes as f64 / 1e6,
        report.seconds,
    ));
    Ok(())
}
