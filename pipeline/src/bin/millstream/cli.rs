//! Every flag of the `millstream` command, and nothing else.

use crate::{duration::duration, evaluate::grouping};
use clap::{Args, Parser, Subcommand, ValueEnum};
use millstream::evaluate::Grouping;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

/// Keeps the training device fed: table in, trained weights and forecasts out.
#[derive(Debug, Parser)]
#[command(
    name = "millstream",
    version,
    after_help = "\
Examples:
  millstream pipeline                             generate data, train, forecast, summarise
  millstream train --set train.epochs=3           one setting changed for one run
  MILLSTREAM_TRAIN__SEED=7 millstream train       the same, from the environment
  millstream train --resume runs/2026-11-16_09-30-00
  millstream train --fast-dev-run                 whether everything works, in seconds
  millstream backtest --set split.folds=5         train and forecast five folds, one after another
  millstream predict --output forecasts.csv       forecasts of the newest run
  millstream predict --output - | jq .            the same as JSON lines
  millstream predict --symbols AAPL,MSFT --last 5 of two series, at their last 5 days
  millstream evaluate forecasts.csv               how good they are, beside naive ones
  millstream import --config stocks.toml          read the source into the cache
  millstream export --output model.pt             the newest model, for torch.jit.load
  millstream doctor                               what is here and what is missing

Settings come from pipeline.toml (or --config), then MILLSTREAM_SECTION__KEY, then --set.

Exit codes: 0 done, 1 anything not below, 2 usage or settings, 3 data, 4 device, 5 interrupted."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train, then forecast the test part, then summarise both
    Pipeline(TrainArgs),
    /// Train a model into a new run directory
    Train(TrainArgs),
    /// Train and forecast every fold of a walk forward through time (split.folds)
    ///
    /// Each fold is a run of its own, in a folder within that of the backtest. One table has the
    /// forecasts of all, with their fold; the result has the figures of each, and mean and standard
    /// deviation.
    Backtest(BacktestArgs),
    /// Forecast with a trained run
    ///
    /// Without --last, --part, --from or --to it is the run's test part that is forecast.
    ///
    /// The model decides what it is shown and how that is scaled; --set reaches only where the rows
    /// come from (source, e.g. --set 'source.symbols=["AAPL", "MSFT"]'), what computes (prefetch,
    /// run) and train.batch_size.
    #[command(visible_alias = "batch-predict")]
    Predict(PredictArgs),
    /// Say how good the forecasts in a file are, ours or another program's
    ///
    /// Errors, directions, correlations across series, quantiles and intervals, of all forecasts and of
    /// groups, beside naive forecasts of the same. Figures are in the units of the file. What a column is
    /// is told from its name, and said; where it cannot be told, a flag names it.
    Evaluate(EvaluateArgs),
    /// Read the source into the cache
    Import(ImportArgs),
    /// Write the model of a trained run in a format of others
    Export(ExportArgs),
    /// Say what device, libtorch, driver, memory and database are here, and what is missing
    Doctor(Common),
    /// Print a completion script for your shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether the result, be it an error, is wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            Command::Pipeline(args) | Command::Train(args) => args.common.json,
            Command::Backtest(args) => args.common.json,
            Command::Predict(args) => args.common.json,
            Command::Import(args) => args.common.json,
            Command::Evaluate(args) => args.json,
            Command::Export(args) => args.json,
            Command::Doctor(common) => common.json,
            Command::Completions { .. } => false,
        }
    }
}

/// Flags of every command that reads settings.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Settings file; without it pipeline.toml if there is one, else the defaults. For predict it
    /// says where the runs are (run.dir); all else is the run's
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Change one setting, e.g. --set train.epochs=3 (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but errors, and how to go on with a run that was interrupted
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Say also what is of no concern as long as all goes well
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Go on with an interrupted run; it keeps its own settings
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "set"])]
    pub(crate) resume: Option<PathBuf>,
    /// Read the source anew, whatever is in the cache
    #[arg(long, conflicts_with = "resume")]
    pub(crate) refresh: bool,
    /// Also write trace.json (Chrome, Perfetto) into the run directory
    #[arg(long)]
    pub(crate) trace: bool,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Flags that try a run out before it is meant.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trying it out")]
pub(crate) struct TrialArgs {
    /// Two batches of each pass in one epoch, and nothing is kept: whether everything works
    #[arg(long, conflicts_with_all = ["resume", "trace", "limit_batches", "overfit_batches", "seeds", "max_time"])]
    pub(crate) fast_dev_run: bool,
    /// At most N batches of each pass: of an epoch's training, validation, test and forecasts
    ///
    /// The run keeps its limit when it is gone on with, and its result says so.
    #[arg(long, value_name = "N", conflicts_with = "overfit_batches")]
    pub(crate) limit_batches: Option<NonZeroU64>,
    /// The same N training batches in every epoch, validated on themselves; no test
    ///
    /// A model that cannot learn these by heart will not learn anything else. They are those that the
    /// first epoch begins with, and are not shuffled anew.
    #[arg(long, value_name = "N")]
    pub(crate) overfit_batches: Option<NonZeroU64>,
    /// Train N times, with train.seed and those after it; mean and standard deviation of all
    ///
    /// Each is a run of its own. With --json the result has the runs and the figures of all together.
    #[arg(long, value_name = "N", conflicts_with_all = ["resume", "trace"])]
    pub(crate) seeds: Option<NonZeroU64>,
    /// Stop and save after so long, such as 90s, 30m, 2h or 1d12h; exit code 5
    ///
    /// It counts from the start of the command, loading included, and for all seeds together. The run
    /// can be gone on with, for as long again.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_time: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct BacktestArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where the folds have their models from
    #[arg(long, value_enum, default_value_t = RefitArg::EveryFold)]
    pub(crate) refit: RefitArg,
    /// Go on with an interrupted backtest; it keeps its own settings and what it refits
    #[arg(long, value_name = "BACKTEST", conflicts_with_all = ["config", "set", "refit"])]
    pub(crate) resume: Option<PathBuf>,
    /// Where to write the forecasts of all folds, .csv or .parquet [default: BACKTEST/predictions.parquet]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Read the source anew, whatever is in the cache
    #[arg(long, conflicts_with = "resume")]
    pub(crate) refresh: bool,
}

/// What `--refit` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RefitArg {
    /// Each trains a new one
    EveryFold,
    /// The first trains one, which forecasts all test parts with the scaling it was trained with
    Once,
    /// Each trains on from the best weights of the fold before; its scaling is fitted anew
    WarmStart,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Run directory, or one of its checkpoints: RUN@best (what RUN means), RUN@last, RUN@STEP;
    /// without it the newest run in run.dir that has come to its end
    #[arg(long, value_name = "RUN[@CHECKPOINT]", conflicts_with = "config")]
    pub(crate) run: Option<PathBuf>,
    /// Where to write: .csv, .jsonl or .parquet, - for JSON lines on stdout, or a table in PostgreSQL,
    /// postgres://user@host/database?table=NAME [default: RUN/predictions.parquet]
    ///
    /// A file or a table has all of the forecasts or none; a file without an ending is Parquet. What went to
    /// stdout is out, also if the rest does not come: the exit code says whether it did, but a reader that
    /// goes (| head) has all that he wanted, and that is 0. The url is as for source.url, so the password
    /// is better in PGPASSWORD or ~/.pgpass. The table's name is taken as it is written, in capitals too. A
    /// table that is not there is made; in one that is, rows are replaced that have the same series, time,
    /// step and model. The model is called after its architecture, or by &model=NAME in the url.
    #[arg(long, value_name = "PLACE")]
    pub(crate) output: Option<PathBuf>,
    /// Forecasts of these series alone, e.g. --symbols AAPL,MSFT (may be repeated)
    ///
    /// All of the source are loaded, as a cross-section is over all of them; a series is forecast the
    /// same, whichever others are.
    #[arg(long, visible_alias = "stocks", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) symbols: Vec<String>,
    /// Forecasts made at the last N time steps of each series
    #[arg(long, visible_alias = "lookback", value_name = "N", conflicts_with_all = ["from", "to", "part"])]
    pub(crate) last: Option<NonZeroUsize>,
    /// Forecasts of a part of the run's data
    #[arg(long, value_enum, conflicts_with_all = ["from", "to"])]
    pub(crate) part: Option<Part>,
    /// As if nothing after this time were known, neither rows nor outcomes
    ///
    /// With --last, --part, --from or --to it is those of their forecasts that were made up to then, else
    /// all that were made up to then.
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
    /// Forecasts made at this time or later
    ///
    /// The time a forecast is made is that of the last row its model sees: the column with the name
    /// of source.time.
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Forecasts made before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Intervals around the forecasts that hold this share of outcomes, e.g. --intervals 0.9,0.5 (may be
    /// repeated)
    ///
    /// They are calibrated on the run's validation part (split conformal), in the units of the forecast;
    /// of a model of quantiles its own are moved.
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    pub(crate) intervals: Vec<f64>,
    /// Read the source anew, whatever is in the cache
    #[arg(long)]
    pub(crate) refresh: bool,
}

/// A part of a run's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// What the run was tested on, and what came after that
    Test,
    /// What its best epoch was chosen by
    Validation,
    /// What it learned from
    Train,
    /// What is still to come: windows of whose steps one at least has no outcome yet
    New,
}

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// A .parquet, .csv or .jsonl file of forecasts and outcomes, or the folder of a run
    #[arg(value_name = "FORECASTS")]
    pub(crate) forecasts: PathBuf,
    /// Also by step, target, series, day, month, fold or decile of the forecasts of a time; several
    /// with commas [default: step,target and, where there are folds, fold]
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = grouping)]
    pub(crate) by: Vec<Grouping>,
    /// The table that the series come from, in such a file, for what was known before the first
    /// forecast: last values, the scale of mase, naive forecasts
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Rows of a season: for the seasonal naive forecast, and for mase, which goes by 1 without it
    #[arg(long, value_name = "N")]
    pub(crate) season: Option<NonZeroUsize>,
    /// What "sign" is of: the value itself, or its change since the last known value [default: sign of
    /// what is called ..._return or ..._direction, else change]
    #[arg(long, value_enum)]
    pub(crate) direction: Option<DirectionOf>,
    /// Judge also forecasts of which some steps or targets are still to come, as training does not; of
    /// files of other programs it is always so
    #[arg(long)]
    pub(crate) partial: bool,
    /// Also write all figures to a .csv, .parquet or .jsonl file, a row for each
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
}

/// Which column is what, where its name does not say so.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct ColumnArgs {
    /// What was forecast
    #[arg(long, value_name = "COLUMN")]
    pub(crate) forecast: Option<String>,
    /// What came
    #[arg(long, value_name = "COLUMN")]
    pub(crate) actual: Option<String>,
    /// The series
    #[arg(long, value_name = "COLUMN")]
    pub(crate) series: Option<String>,
    /// When the forecast was made
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// The time that is forecast
    #[arg(long, value_name = "COLUMN")]
    pub(crate) target_time: Option<String>,
    /// How many rows ahead
    #[arg(long, value_name = "COLUMN")]
    pub(crate) step: Option<String>,
    /// The fold of a backtest
    #[arg(long, value_name = "COLUMN")]
    pub(crate) fold: Option<String>,
}

/// What a direction is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectionOf {
    /// The value itself
    Sign,
    /// Its change since the last known value
    Change,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Do not read the source; check every byte of the cache
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Settings file that says where the runs are (run.dir); without it pipeline.toml if there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Run directory; without it the newest in run.dir that has a model
    #[arg(long, value_name = "RUN", conflicts_with = "config")]
    pub(crate) run: Option<PathBuf>,
    /// In which format
    #[arg(long, value_enum, default_value_t = Format::Torchscript)]
    pub(crate) format: Format,
    /// Where to write [default: RUN/model.pt]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What a model can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For torch.jit.load, in Python or C++
    Torchscript,
}
