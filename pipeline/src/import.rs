//! `millstream import`: the source into the cache, or a check of what is there.

use crate::{
    cli::ImportArgs,
    failure::Failure,
    interrupt, print_json,
    progress::{Display, grouped},
    settings::Settings,
};
use millstream_stage::Warnings;
use std::process::ExitCode;

/// Reads the source anew, or with `--verify` checks the cache.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
    settings.check_effects("source")?;
    let display = Display::new(args.common.quiet);
    if settings.source.cache.is_empty() {
        return Err(Failure::settings("source.cache is empty, so there is nowhere to import to"));
    }
    interrupt::on_interrupt()?;
    let report = if args.verify {
        millstream_loader::verify(&settings.source, &settings.target.columns, &Warnings::default())?
    } else {
        let mut bar = display.loading();
        let report = millstream_loader::import(
            &settings.source,
            &settings.target.columns,
            &mut |progress| {
                bar.show(progress);
                interrupt::go_on()
            },
            &Warnings::default(),
        );
        display.done();
        report?
    };
    if args.common.json {
        print_json(&report)?;
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
