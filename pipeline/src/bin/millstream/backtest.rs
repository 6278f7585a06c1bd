//! `millstream backtest`: every fold of a walk forward through time, and one table of what they forecast.

use crate::{
    backtest_table,
    cli::{BacktestArgs, Common, RefitArg},
    display::Display,
    interrupt,
    messages::{print, print_json, tell},
    outcome::Code,
    trace::Trace,
};
use millstream::{
    Backtest, BacktestRun, Error, NOTHING_SAVED, Overrides, Refit, Settings, resume_command,
};

pub(crate) fn backtest(args: &BacktestArgs) -> Result<Code, Error> {
    let display = Display::new(args.common.quiet);
    let watch = display.watch();
    interrupt::on_interrupt(&args.common, watch.stop_handle())?;
    let _trace = Trace::start(args.common.verbose);
    let run = begin(args, &display)?;
    let path = run.path().to_owned();
    let report = run.run(&watch)?;
    match args.common {
        Common { json: true, .. } => print_json(&report)?,
        Common { quiet: false, .. } => print(&backtest_table::table(&report))?,
        _ => {}
    }
    // This is told to a person who asked for quiet, too: it is how the work is not lost.
    if report.interrupted {
        tell(&format!("interrupted; go on with: {}", resume_command(&path)));
    }
    Ok(Code::of(report.interrupted))
}

/// A new backtest, or one that goes on.
fn begin(args: &BacktestArgs, display: &Display) -> Result<BacktestRun, Error> {
    let overrides = Overrides::of_process(&args.common.set);
    let mut backtest = match &args.resume {
        Some(path) => {
            let backtest = Backtest::resume(path, &overrides)?;
            let words = format!("interrupted; go on with: {}", resume_command(path));
            interrupt::nothing_to_save(words);
            backtest
        }
        None => {
            let settings = Settings::load(args.common.config.as_deref(), &overrides)?;
            interrupt::nothing_to_save(NOTHING_SAVED.to_owned());
            Backtest::new(settings)?.refit(refit(args.refit))?
        }
    };
    if args.refresh {
        backtest = backtest.read_anew();
    }
    if let Some(path) = &args.output {
        backtest = backtest.output(path);
    }
    display.say(&format!("computing on {}", backtest.device()));
    let backtest = backtest.use_all_threads();
    interrupt::make_run(|| backtest.start(), BacktestRun::unsaved)
}

fn refit(asked: RefitArg) -> Refit {
    match asked {
        RefitArg::EveryFold => Refit::EveryFold,
        RefitArg::Once => Refit::Once,
        RefitArg::WarmStart => Refit::WarmStart,
    }
}
