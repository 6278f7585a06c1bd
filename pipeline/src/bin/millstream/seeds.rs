//! `--seeds N`: the same run with N seeds, one after another, and one table of them all.

use crate::{
    cli::{Common, TrainArgs},
    display::Display,
    messages::{print, print_json, tell},
    outcome::Code,
    trace::Trace,
    train::{Besides, Ended, Mode, begin, go},
};
use millstream::{Error, ErrorKind, Overrides, SeedsReport, Settings, Spread, Watch};
use std::{fmt::Write, num::NonZeroU64, time::Instant};

#[derive(Debug, thiserror::Error)]
#[error("--seeds {count} from train.seed = {first} on goes beyond the greatest seed, {}", i64::MAX)]
struct TooManySeeds {
    count: NonZeroU64,
    first: u64,
}

/// Trains with the seed of the settings and those after it.
pub(crate) fn train(
    args: &TrainArgs,
    mode: Mode,
    count: NonZeroU64,
    watch: &Watch,
) -> Result<Code, Error> {
    let begun = Instant::now();
    let _trace = Trace::start(args.common.verbose);
    let overrides = Overrides::of_process(&args.common.set);
    let first = Settings::load(args.common.config.as_deref(), &overrides)?.train.seed;
    // Settings are TOML, which has no greater numbers.
    let last = first.checked_add(count.get() - 1).filter(|last| i64::try_from(*last).is_ok());
    let last = last.ok_or_else(|| Error::settings(TooManySeeds { count, first }))?;
    let (mut runs, mut later) = (Vec::new(), None);
    for seed in first..=last {
        // A bar that has ended does not begin again.
        let display = Display::new(args.common.quiet);
        display.say(&format!("seed      {seed}, {} of {count}", seed - first + 1));
        let max_time = args.trial.max_time.map(|time| time.saturating_sub(begun.elapsed()));
        // Warnings are of one run; what stops one stops them all.
        let watch = display.watch_anew(watch);
        let besides = Besides {
            set: vec![format!("train.seed={seed}")],
            max_time,
            // The others find it in the cache.
            refresh: args.refresh && seed == first,
        };
        let run = begin(args, mode, &display, &besides);
        match run.and_then(|run| go(run, args, mode, &watch)) {
            Ok(Ended { report, later: cut_short }) => {
                runs.push((seed, report));
                later = cut_short;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted && !runs.is_empty() => {
                later = Some(format!("seed {seed}: {error}"));
            }
            Err(error) => return Err(error),
        }
        if later.is_some() {
            break;
        }
    }
    let mut report = SeedsReport::new(runs);
    report.interrupted |= later.is_some();
    match args.common {
        Common { json: true, .. } => print_json(&report)?,
        Common { quiet: false, .. } => print(&table(&report))?,
        _ => {}
    }
    if let Some(later) = &later {
        tell(&format!("interrupted; {later}"));
    }
    Ok(Code::of(later.is_some()))
}

/// What a person wants to know of all runs, at most 80 columns wide.
fn table(report: &SeedsReport) -> String {
    let complete = report.runs.iter().filter(|run| !run.interrupted).count();
    let mut out = format!("\n{:<22}{:>26}{:>26}\n", "", "validation", "test");
    let mut names: Vec<&String> = report.validation.keys().chain(report.test.keys()).collect();
    names.sort();
    names.dedup();
    let mut line = |text: &str| {
        writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
    };
    for name in names {
        let [validation, test] = [&report.validation, &report.test].map(|part| {
            let spread = part.get(name.as_str());
            spread.map_or_else(|| "-".to_owned(), shown)
        });
        line(&format!("{name:<22}{validation:>26}{test:>26}"));
    }
    line("");
    if let Some(loss) = &report.train_loss {
        line(&format!("train loss {}", shown(loss)));
    }
    line(&format!("mean ± standard deviation of {complete} runs that differ in their seed alone"));
    for (seed, run) in report.seeds.iter().zip(&report.runs) {
        let end = if run.interrupted { ", interrupted and not counted" } else { "" };
        line(&format!("seed {seed}: {}{end}", run.run.display()));
    }
    for warning in &report.warnings {
        line(&format!("warning: {warning}"));
    }
    out
}

fn shown(spread: &Spread) -> String {
    match spread.std {
        Some(std) => format!("{} ± {}", number(spread.mean), number(std)),
        None => number(spread.mean),
    }
}

/// At most eleven characters.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0.0000".to_owned(),
        size if (0.001..99_999.0).contains(&size) => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{Figures, Metrics, Report};

    #[test]
    fn the_table_has_mean_and_spread_of_every_figure_in_80_columns() {
        let run = |mse: f64| {
            let mut report = Report::default();
            let overall =
                Metrics { mse: Some(mse), mse_raw: Some(mse * 1e9), ..Metrics::default() };
            report.test = Some(Figures { overall, ..Figures::default() });
            report.run = "runs/2026-11-18_14-20-05".into();
            report
        };
        let mut stopped = run(9.0);
        stopped.interrupted = true;
        let runs = vec![(42, run(0.5)), (43, run(0.7)), (44, stopped)];
        let text = table(&SeedsReport::new(runs));
        let words = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("mse "), "mse - 0.6000 ± 0.1414");
        assert_eq!(words("mse_raw "), "mse_raw - 6.00e8 ± 1.41e8");
        assert_eq!(
            words("seed 44"),
            "seed 44: runs/2026-11-18_14-20-05, interrupted and not counted"
        );
        assert!(text.contains("of 2 runs"), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest} columns:\n{text}");
    }
}
